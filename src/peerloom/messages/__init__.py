"""What a link carries of a row."""

from ..core import Message
from .coordinates import Coordinates
from .dense import Dense
from .quantised import ANQ, Quantised, Sign
from .sparse import RandK, SignTopK, TopK

__all__ = ["ANQ", "MESSAGES", "Coordinates", "Dense", "Quantised", "RandK", "Sign", "SignTopK", "TopK"]

MESSAGES: dict[str, type[Message]] = {
    "ANQ": ANQ,
    "Coordinates": Coordinates,
    "Dense": Dense,
    "Quantised": Quantised,
    "RandK": RandK,
    "Sign": Sign,
    "SignTopK": SignTopK,
    "TopK": TopK,
}

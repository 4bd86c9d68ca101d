"""What a link carries of a row."""

from ..core import Message
from .compressed import Quantised, RandK, Sign, SignTopK, TopK
from .coordinates import Coordinates
from .dense import Dense

__all__ = ["MESSAGES", "Coordinates", "Dense", "Quantised", "RandK", "Sign", "SignTopK", "TopK"]

MESSAGES: dict[str, type[Message]] = {
    "Coordinates": Coordinates,
    "Dense": Dense,
    "Quantised": Quantised,
    "RandK": RandK,
    "Sign": Sign,
    "SignTopK": SignTopK,
    "TopK": TopK,
}

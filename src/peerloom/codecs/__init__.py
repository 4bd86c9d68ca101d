"""What a link carries of a row, as bytes."""

from ..core import Codec
from .coordinates import Coordinates, RandK
from .dense import Dense
from .levels import ANQ, Quantised
from .signs import Sign, SignTopK
from .sparse import TopK

__all__ = [
    "ANQ",
    "CODECS",
    "Coordinates",
    "Dense",
    "Quantised",
    "RandK",
    "Sign",
    "SignTopK",
    "TopK",
]

CODECS: dict[str, type[Codec]] = {
    "ANQ": ANQ,
    "Coordinates": Coordinates,
    "Dense": Dense,
    "Quantised": Quantised,
    "RandK": RandK,
    "Sign": Sign,
    "SignTopK": SignTopK,
    "TopK": TopK,
}

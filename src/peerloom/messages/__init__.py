"""What a link carries of a row."""

from ..core import Message
from .coordinates import Coordinates
from .dense import Dense

__all__ = ["MESSAGES", "Coordinates", "Dense"]

MESSAGES: dict[str, type[Message]] = {"Coordinates": Coordinates, "Dense": Dense}

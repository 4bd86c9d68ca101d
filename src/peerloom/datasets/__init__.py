"""Public data sets as files: a catalogue, their locations, reading, checking, fetching."""

from .catalogue import CATALOGUE, Item, Source
from .fetch import fetch
from .formats import read_item
from .locations import Found, cache, locate, locations, read

__all__ = [
    "CATALOGUE",
    "Found",
    "Item",
    "Source",
    "cache",
    "fetch",
    "locate",
    "locations",
    "read",
    "read_item",
]

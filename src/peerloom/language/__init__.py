"""Models of language: next-token loss, perplexity, texts, a small transformer."""

from .characters import characters
from .likelihood import Perplexity, next_token
from .text import Windows, encoded, pieces, tinyshakespeare
from .transformer import Transformer

__all__ = [
    "Perplexity",
    "Transformer",
    "Windows",
    "characters",
    "encoded",
    "next_token",
    "pieces",
    "tinyshakespeare",
]

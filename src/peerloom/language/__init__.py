"""Models of language: next-token loss, perplexity, texts, a small transformer, adapters."""

from .adapters import cross_term, with_adapters, write_adapter
from .base import mapped, write_weights
from .characters import characters
from .likelihood import Perplexity, next_token
from .text import Windows, encoded, pieces, tinyshakespeare
from .transformer import Transformer

__all__ = [
    "Perplexity",
    "Transformer",
    "Windows",
    "characters",
    "cross_term",
    "encoded",
    "mapped",
    "next_token",
    "pieces",
    "tinyshakespeare",
    "with_adapters",
    "write_adapter",
    "write_weights",
]

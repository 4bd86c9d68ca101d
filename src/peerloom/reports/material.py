"""What a page is made of, and what its sections share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .colours import Colours
from .groups import Group, Quality
from .summary import Summary

__all__ = ["Material", "caption"]


@dataclass(frozen=True)
class Material:
    """What a page is made of."""

    groups: Sequence[Group]
    quality: Quality
    summary: Summary
    colours: Colours


def caption(*sentences: str) -> str:
    """A paragraph below a chart or a table."""
    return f'<p class="caption">{escape(" ".join(sentences))}</p>'

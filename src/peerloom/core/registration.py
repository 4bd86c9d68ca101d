"""How a rule joins the list of rules: where it stands, with a card that says what it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

from ..arguments import checked
from .rule import Rule

__all__ = ["REGISTERED", "Card", "preset", "rule"]

R = TypeVar("R", bound=Rule)

REGISTERED: dict[str, type[Rule]] = {}
"""Every rule that was registered so far, by name."""


class Card(NamedTuple):
    """What `peerloom list algorithms` says of a rule; what the rule needs stands with the rule."""

    paper: str
    sends: str  # along every link that fires
    good_for: str


def rule(paper: str, sends: str, good_for: str) -> Callable[[type[R]], type[R]]:
    """Register a class as a rule, by its name, with its card; its settings are `checked`."""

    def register(kind: type[R]) -> type[R]:
        known = REGISTERED.setdefault(kind.__name__, kind)
        if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
            raise ValueError(
                f"There is a rule '{kind.__name__}' already, in {known.__module__}. "
                "Choose another name."
            )
        REGISTERED[kind.__name__] = kind
        cast("Any", kind).card = Card(paper, sends, good_for)
        return checked(kind)

    return register


def preset(name: str, base: type[R], card: Card, *, doc: str, **said: Any) -> type[R]:
    """Make and register a rule that is another one under another plan.

    `said` is what the preset says differently of itself: `plan`, `needs`, `family`.
    """
    kind = type(name, (base,), {"__doc__": doc, "__module__": base.__module__, **said})
    return rule(*card)(cast("type[R]", kind))

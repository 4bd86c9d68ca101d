"""The overview of a federation: this peer's card, made again and again, and what all say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from .. import __version__
from ..transport import Transport
from .background import Background

__all__ = ["EVERY", "Share", "Sharing", "members_of"]

EVERY = 10.0  # seconds between two cards
Share = Literal["", "status", "loss"]
_SHOWN = (
    "status", "round", "rounds_per_second", "loss", "incarnation", "version", "roster", "audit",
    "at",
)  # fmt: skip


class Sharing(Background):
    """Shares how this peer stands, within a `with`; its loss only with 'loss'."""

    def __init__(
        self,
        transport: Transport,
        read: Callable[[], dict[str, Any]],
        share: Share,
        every: float,
        audit: Callable[[], str],
    ) -> None:
        self._audit = audit
        self._transport, self._read, self._share, self._every = transport, read, share, every
        super().__init__("cards", min(every, 1.0))  # links are up by then, mostly

    def work(self) -> float | None:
        """Share one card."""
        if not self._share:
            return None
        facts = self._read()
        loss = facts["last"].get("loss") if self._share == "loss" else None
        self._transport.share(
            {
                "round": facts["round"],
                "rounds_per_second": round(facts["rounds_per_second"], 3),
                "status": facts["status"],
                "version": __version__,
                "loss": loss if loss is not None and math.isfinite(loss) else None,
                "audit": self._audit() or None,
            }
        )
        return self._every


def members_of(transport: Transport) -> list[dict[str, Any]]:
    """Every member of the roster with what its newest card says; `age` is None without one."""
    roster = transport.roster
    cards = {facts["member"]: (facts, age) for facts, age in transport.cards()}
    names = {member.id[:7]: member.name for member in roster.members}
    return [
        {"member": member.name, "id": member.id, **_row(cards.get(member.id), names)}
        for member in roster.members
    ]


def _row(found: tuple[Mapping[str, Any], float] | None, names: dict[str, str]) -> dict[str, Any]:
    if found is None:
        return {"age": None}
    card, age = found
    links = [{"peer": names.get(link[0], link[0]), "way": link[1]} for link in card["links"]]
    return {"age": age, **{key: card.get(key) for key in _SHOWN}, "links": links}

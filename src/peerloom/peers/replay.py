"""Repeat a run of peers in one process: the same decisions give the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core import Codec, Compressed, Delivery, Draws, LateRow, Ledger, Links, LocalWire, Part
from ..experiment import Experiment
from ..runtime import Guard, Session, build_port
from .decisions import CLOSING, Absences, Decision, Tag

__all__ = ["DecisionsWire", "replay"]

Ids = NDArray[np.int64]


class DecisionsWire:
    """A wire with all rows here that misses, holds and delays what the decisions say."""

    def __init__(
        self,
        decisions: Mapping[int, list[Decision]],
        codec: Codec,
        draws: Draws,
        keeps_mean: bool = False,
    ) -> None:
        self._local, self._keeps_mean = LocalWire(codec, draws), keeps_mean
        self._by_mixing: dict[tuple[Tag, int], list[Decision]] = {}
        for row, made in decisions.items():
            # What came late before a kill may not come again until later: then that counts.
            last = {
                (d.row, d.of): d
                for d in sorted(made, key=lambda d: (d.round, d.mix_index))
                if d.kind == "late"
            }
            for decision in made:
                if decision.kind == "late" and decision != last[decision.row, decision.of]:
                    continue
                self._by_mixing.setdefault(((decision.round, decision.mix_index), row), []).append(
                    decision
                )
        self._closed = {  # (kind, row that decided, other row) and since when
            (d.kind, row, d.row): (d.round, d.mix_index)
            for row, made in decisions.items()
            for d in made
            if d.kind in CLOSING
        }
        self._away = {
            row: Absences(sorted(made, key=lambda d: (d.round, d.mix_index)))
            for row, made in decisions.items()
        }
        # What was missed, by mixing, sender and receiver; and what the receiver sent then.
        self._owed: dict[tuple[Tag, int, int], list[Tensor]] = {}
        self._own: dict[tuple[Tag, int, int], list[Tensor]] = {}

    def exchange(
        self,
        tag: Tag,
        links: Links,
        out: Ids,
        rows: Sequence[Tensor | Compressed],
        into: Ids,
        parts: tuple[Part, ...],
    ) -> Delivery:
        """Deliver to each row what its decisions let it have."""
        acked, arrived = np.ones(len(out), bool), np.ones(len(into), bool)
        ends = [(int(links.src[link]), int(links.dst[link])) for link in out]

        def carried(pair: tuple[int, int]) -> list[Tensor]:
            link = out[ends.index(pair)][None]
            came = self._local.exchange(tag, links, link, rows, link, parts)
            return [part[:][0][0].clone() for part in came.parts]

        for k, (source, target) in enumerate(ends):
            acked[k] = all(
                d.kind != "held" or d.row != target for d in self._by_mixing.get((tag, source), ())
            )
            acked[k] &= not self._is_closed("untold", source, target, tag)
            acked[k] &= not self._is_away(source, target, tag)
        pairs, sent = set(ends), {pair for pair, was in zip(ends, acked, strict=True) if was}
        for k, (source, target) in enumerate(ends):
            if self._is_closed("unheard", target, source, tag):
                arrived[k] = False
                continue
            if self._is_away(target, source, tag):
                arrived[k] = False
                if acked[k]:
                    self._owed[tag, source, target] = carried((source, target))
                continue
            here = [
                d
                for d in self._by_mixing.get((tag, target), ())
                if d.row == source and d.kind in ("missed", "skipped")
            ]
            deaf = self._keeps_mean and (target, source) in pairs and (target, source) not in sent
            arrived[k] = bool(acked[k]) and not here and not deaf
            if here and acked[k]:
                self._owed[tag, source, target] = carried((source, target))
                if self._keeps_mean and (target, source) in sent:
                    self._own[tag, source, target] = carried((target, source))
        came = self._local.exchange(tag, links, out[acked], rows, into[arrived], parts)
        return came._replace(arrived=arrived, acked=acked, late=self._late(tag, links))

    def _late(self, tag: Tag, links: Links) -> tuple[LateRow, ...]:
        late = list[LateRow]()
        for link in range(len(links)):  # also along links that do not fire now
            source, target = int(links.src[link]), int(links.dst[link])
            for d in self._by_mixing.get((tag, target), ()):
                if d.kind == "late" and d.row == source:
                    key = (d.of, source, target)
                    late.append(LateRow(d.of, link, self._owed.pop(key), self._own.pop(key, None)))
        return tuple(sorted(late, key=lambda row: (links.dst[row.link], row.link, row.tag)))

    def _is_away(self, row: int, other: int, tag: Tag) -> bool:
        """Whether, by the decisions of a row, another one is away."""
        return row in self._away and self._away[row].contains(other, tag)

    def _is_closed(
        self, kind: Literal["unheard", "untold"], row: int, other: int, tag: Tag
    ) -> bool:
        return (kind, row, other) in self._closed and self._closed[kind, row, other] <= tag


def replay(exp: Experiment, decisions: Mapping[int, list[Decision]]) -> tuple[Any, Ledger]:
    """Repeat a run with the decisions of each row; return the last state and the ledger."""
    wire = DecisionsWire(decisions, exp.message, Draws(exp.seed), exp.algorithm.needs.keeps_mean)
    session = Session(
        exp, build_port(exp, mixer="links", wire=wire), guard=Guard(every=1, replay=False)
    )
    for _ in session:
        pass
    return session.state, session.ledger

"""Checks the histories of a run's peers against what links promise, however they work.

at most once, in order   per life of a receiver and sender, applied (incarnation, seq) only grows
no round twice           per life of a receiver, each ordered parcel is applied once, also when it
                         was sent again under another number
nothing from nowhere     what was applied was put, by that sender, in that incarnation
nobody let in            what was applied came along a link of the roster in use then, and nobody
                         sends anything to a copy of a peer, since no greeting of it is accepted
acked means applied      every acknowledged number was applied by the receiver
the ledger               what was put is settled at most once, and only what was put is settled
order of lives           incarnations of a peer only grow; within one, rounds only grow
mass                     sum of held + sum over links of (sent - got) = sum of sources
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["COPY", "check_histories"]

Line = Mapping[str, Any]
Pairs = frozenset[tuple[str, str]]
COPY = "#"
"""What follows it in the name of a history tells copies of one peer apart."""
_MASS_SLACK = 1e-12


def check_histories(
    histories: Mapping[str, Iterable[Line]], links: Mapping[int, Pairs] | None = None
) -> list[str]:
    """Everything that is wrong, one line each; each history is read once.

    `histories`: events by peer id, or by id#NAME for a copy of that peer that was to be refused.
    `links`: the (source, target) pairs of each version of the roster.
    """
    read = {name: _Reader(name, links) for name in histories}
    for name, lines in histories.items():
        for line in lines:
            read[name].take(line)
    found = [complaint for reader in read.values() for complaint in reader.found]
    found += _across(read.values())
    return found + _mass({name: reader.totals for name, reader in read.items()})


class _Reader:
    """What one history says, and what is wrong with it by itself."""

    def __init__(self, name: str, links: Mapping[int, Pairs] | None) -> None:
        self.peer, _, self.copy = name.partition(COPY)
        self._name, self._links, self._pairs = name, links, Pairs()
        self.found = list[str]()
        self.totals: Line | None = None
        self._incarnation, self._round = 0, -1
        self._put, self._settled = set[tuple[str, int, int]](), set[tuple[str, int, int]]()
        self._last: dict[tuple[str, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
        self._places = set[tuple[Any, ...]]()
        self.sent = set[tuple[Any, ...]]()  # (to, incarnation, round, mix_index, channel)
        self.acked = set[tuple[str, int, int]]()  # (to, incarnation, seq)
        self.applied = set[tuple[str, int, int]]()  # (from, incarnation, seq)
        self.heard = set[tuple[Any, ...]]()  # (from, incarnation, round, mix_index, channel)

    def take(self, line: Line) -> None:
        """Read the next line."""
        what = line["what"]
        if what in ("start", "adopt") and self._links is not None:
            self._pairs = self._links.get(line["version"], Pairs())
        if what == "start":
            self._start(line)
        elif what == "round":
            self._step(line)
        elif what in ("put", "ack", "refuse", "superseded"):
            self._account(what, line)
        elif what == "apply":
            self._apply(line)
        elif what == "totals":
            self.totals = line

    def _complain(self, text: str) -> None:
        self.found.append(f"{self._name}: {text}")

    def _start(self, line: Line) -> None:
        if line["incarnation"] <= self._incarnation:
            self._complain(f"incarnation {line['incarnation']} after {self._incarnation}")
        self._incarnation, self._round = line["incarnation"], -1

    def _step(self, line: Line) -> None:
        if line["round"] <= self._round:
            text = f"round {line['round']} after {self._round} in incarnation {self._incarnation}"
            self._complain(text)
        self._round = line["round"]

    def _account(self, what: str, line: Line) -> None:
        which = (line["to"], line["incarnation"], line["number"])
        if what == "put":
            if which in self._put:
                self._complain(f"{which} was put twice")
            self._put.add(which)
            place = (line["round"], line["mix_index"], line["channel"])
            self.sent.add((line["to"], line["incarnation"], *place))
            return
        if which not in self._put or which in self._settled:
            how = "twice" if which in self._settled else "but never put"
            self._complain(f"{which} was settled ({what}) {how}")
        self._settled.add(which)
        if what == "ack":
            self.acked.add((line["to"], line["incarnation"], line["seq"]))

    def _apply(self, line: Line) -> None:
        if line["result"] == "duplicate":
            return
        source, order = line["from"], (line["incarnation"], line["seq"])
        if order <= self._last[source, line["life"]]:
            self._complain(f"applied {order} of {source} after {self._last[source, line['life']]}")
        self._last[source, line["life"]] = order
        place = (line["round"], line["mix_index"], line["channel"])
        if line["result"] == "applied" and line.get("mode") == "ordered":
            whole = (source, line["life"], *place)
            if whole in self._places:
                self._complain(f"applied round {line['round']} of {source} twice")
            self._places.add(whole)
        if self._links is not None and (source, self.peer) not in self._pairs:
            self._complain(f"applied round {line['round']} of {source}, who has no link to it")
        self.applied.add((source, *order))
        self.heard.add((source, line["incarnation"], *place))


def _across(readers: Iterable[_Reader]) -> list[str]:
    found, true = [], {reader.peer: reader for reader in readers if not reader.copy}
    for reader in readers:
        me = reader.peer
        for to, incarnation, seq in sorted(reader.acked):
            if not reader.copy and to in true and (me, incarnation, seq) not in true[to].applied:
                found.append(f"{me}: {to} acknowledged number {seq} but never applied it")
        for source, incarnation, round, *place in sorted(reader.heard):
            if reader.copy:
                found.append(f"{me}: {source} sent round {round} to its copy {reader.copy}")
            elif source in true and (me, incarnation, round, *place) not in true[source].sent:
                found.append(f"{me}: applied round {round} of {source}, who never sent it")
    return found


def _mass(last: Mapping[str, Line | None]) -> list[str]:
    """The last 'totals' of each peer: held, source, and sent (sigma) and got (rho) per link."""
    totals = {peer: line for peer, line in last.items() if line is not None}
    if not totals:
        return []
    if len(totals) < len(last):
        return [f"only {len(totals)} of {len(last)} peers wrote their totals"]
    held = sum(np.asarray(line["held"], np.float64) for line in totals.values())
    source = sum(np.asarray(line["source"], np.float64) for line in totals.values())
    zero = np.zeros_like(source)
    transit = zero
    for peer, line in totals.items():
        for target, sigma in line["sent"].items():
            transit = (
                transit
                + np.asarray(sigma, np.float64)
                - np.asarray(totals[target]["got"].get(peer, zero), np.float64)
            )
    defect = float(
        np.max(np.abs(held + transit - source)) / max(1.0, float(np.max(np.abs(source))))
    )
    return [f"mass is off by {defect:.1e} of what there is"] if defect > _MASS_SLACK else []

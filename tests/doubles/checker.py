"""Checks the histories of a run's peers against what links promise, however they work.

at most once, in order   per life of a receiver and sender, applied (incarnation, seq) only grows
nothing from nowhere     what was applied was put, by that sender, in that incarnation
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

__all__ = ["check_histories"]

Events = Iterable[Mapping[str, Any]]
_MASS_SLACK = 1e-12


def check_histories(histories: Mapping[str, Events]) -> list[str]:
    """Everything that is wrong, one line each. `histories`: events by peer id."""
    events = {peer: list(lines) for peer, lines in histories.items()}
    found: list[str] = []
    for peer, lines in events.items():
        found += _lives(peer, lines)
        found += _ledger(peer, lines)
        found += _applied(peer, lines)
    found += _across(events)
    found += _mass(events)
    return found


def _lives(peer: str, lines: list[Mapping[str, Any]]) -> list[str]:
    found, incarnation, round = [], 0, -1
    for line in lines:
        if line["what"] == "start":
            if line["incarnation"] <= incarnation:
                found.append(f"{peer}: incarnation {line['incarnation']} after {incarnation}")
            incarnation, round = line["incarnation"], -1
        if line["what"] == "round":
            if line["round"] <= round:
                found.append(
                    f"{peer}: round {line['round']} after {round} in incarnation {incarnation}"
                )
            round = line["round"]
    return found


def _ledger(peer: str, lines: list[Mapping[str, Any]]) -> list[str]:
    found = []
    put: set[tuple[str, int, int]] = set()
    settled: set[tuple[str, int, int]] = set()
    for line in lines:
        if line["what"] not in ("put", "ack", "refuse", "superseded"):
            continue
        which = (line["to"], line["incarnation"], line["number"])
        if line["what"] == "put":
            if which in put:
                found.append(f"{peer}: {which} was put twice")
            put.add(which)
        elif which not in put or which in settled:
            how = "twice" if which in settled else "but never put"
            found.append(f"{peer}: {which} was settled ({line['what']}) {how}")
        else:
            settled.add(which)
    return found


def _applied(peer: str, lines: list[Mapping[str, Any]]) -> list[str]:
    found = []
    last: dict[tuple[str, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for line in lines:
        if line["what"] == "apply" and line["result"] != "duplicate":
            source, order = (line["from"], line["life"]), (line["incarnation"], line["seq"])
            if order <= last[source]:
                found.append(f"{peer}: applied {order} of {line['from']} after {last[source]}")
            last[source] = order
    return found


def _across(events: Mapping[str, list[Mapping[str, Any]]]) -> list[str]:
    found = []
    applied = {
        (line["from"], peer, line["incarnation"], line["seq"])
        for peer, lines in events.items()
        for line in lines
        if line["what"] == "apply"
    }
    put = {
        (peer, line["to"], line["incarnation"], line["round"], line["mix_index"], line["channel"])
        for peer, lines in events.items()
        for line in lines
        if line["what"] == "put"
    }
    for peer, lines in events.items():
        for line in lines:
            if line["what"] == "ack" and line["to"] in events:
                to, seq = line["to"], line["seq"]
                if (peer, to, line["incarnation"], seq) not in applied:
                    found.append(f"{peer}: {to} acknowledged number {seq} but never applied it")
            elif line["what"] == "apply" and line["from"] in events:
                source, t = line["from"], line["round"]
                what = (source, peer, line["incarnation"], t, line["mix_index"], line["channel"])
                if what not in put:
                    found.append(f"{peer}: applied round {t} of {source}, who never sent it")
    return found


def _mass(events: Mapping[str, list[Mapping[str, Any]]]) -> list[str]:
    """The last 'totals' of each peer: held, source, and sent (sigma) and got (rho) per link."""
    last = {
        peer: [line for line in lines if line["what"] == "totals"][-1:]
        for peer, lines in events.items()
    }
    totals = {peer: lines[0] for peer, lines in last.items() if lines}
    if not totals:
        return []
    if len(totals) < len(events):
        return [f"only {len(totals)} of {len(events)} peers wrote their totals"]
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

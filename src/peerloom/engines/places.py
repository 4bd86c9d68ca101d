"""Rows in several places of one process, each with a port of its own: slow, and the proof that a rule keeps to the port.

Places share nothing but mailboxes. With one row in each they are peers, with several they are the shards of a cluster.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Cargo, Delivery, Ledger, Links
from ..experiment import Experiment
from .simulator import build_net

__all__ = ["PlacesResult", "run_in_places"]

Ids = NDArray[np.int64]
Tag = tuple[int, int]

_PATIENCE = 60.0  # seconds a place waits for a letter: far beyond any test, so that a fault ends in an error


@dataclass(frozen=True)
class PlacesResult:
    """The models after every round [rounds + 1, m, n], and the account of all places together."""

    path: Tensor
    ledger: Ledger


class _Post:
    """A wire between the places: one letter per pair of places and mix, always delivered."""

    def __init__(self, me: int, owner: Ids, boxes: Sequence[queue.Queue[Any]], failed: threading.Event) -> None:
        self._me, self._owner, self._boxes, self._failed = me, owner, boxes, failed
        self._early: dict[tuple[Tag, int], tuple[Ids, Tensor]] = {}

    def swap(self, tag: Tag, links: Links, out: Ids, payload: Tensor, into: Ids, cargo: tuple[Cargo, ...]) -> Delivery:
        """Send every place its letter, then wait for those that are due here."""
        to, sources = self._owner[links.dst[out]], self._owner[links.src[into]]
        for place in np.unique(to):
            part = np.flatnonzero(to == place)
            self._boxes[place].put((tag, self._me, out[part], payload[torch.from_numpy(part)].clone()))
        came = torch.empty(len(into), payload.shape[1], dtype=payload.dtype)
        for place in np.unique(sources):
            ids, letter = self._from(tag, int(place))
            came[torch.from_numpy(np.searchsorted(into, ids))] = letter
        return Delivery(came, np.ones(len(into), bool), np.ones(len(out), bool))

    def _from(self, tag: Tag, place: int) -> tuple[Ids, Tensor]:
        waited = 0.0
        while (tag, place) not in self._early:
            try:
                other, sender, ids, letter = self._boxes[self._me].get(timeout=0.1)
                self._early[other, sender] = (ids, letter)
            except queue.Empty:
                waited += 0.1
                if self._failed.is_set() or waited > _PATIENCE:
                    raise RuntimeError(f"place {self._me} got no letter from place {place} in round {tag[0]}") from None
        return self._early.pop((tag, place))


def run_in_places(exp: Experiment, places: Sequence[Sequence[int]]) -> PlacesResult:
    """Run an experiment with its rows dealt to places, each in a thread of its own."""
    rows = [np.asarray(sorted(place), np.int64) for place in places]
    owner = np.empty(exp.graph.rows, np.int64)
    for number, mine in enumerate(rows):
        owner[mine] = number
    boxes: list[queue.Queue[Any]] = [queue.Queue() for _ in rows]
    failed, errors = threading.Event(), []
    nets = [build_net(exp, mine, wire=_Post(k, owner, boxes, failed)) for k, mine in enumerate(rows)]
    path = torch.empty(exp.rounds + 1, exp.graph.rows, exp.problem.n, dtype=exp.torch_dtype)

    def work(number: int) -> None:
        net, mine = nets[number], torch.from_numpy(rows[number])
        try:
            with torch.no_grad():
                state = exp.algorithm.init(exp.start(rows[number].tolist()).to(net.place.dtype), net)
                path[0, mine] = state.x
                for net.t in range(1, exp.rounds + 1):
                    state = exp.algorithm.step(state, net)
                    path[net.t, mine] = state.x
        except Exception as error:  # noqa: BLE001  (handed to the caller below)
            errors.append(error)
            failed.set()

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(rows))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    ledger = Ledger(exp.graph)
    for name, values in ledger.arrays().items():
        for net in nets:
            values += net.ledger.arrays()[name]  # type: ignore[misc]  # counts and times alike
    return PlacesResult(path, ledger)

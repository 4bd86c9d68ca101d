"""Rows in several ports of one process: slow, and the proof that a rule keeps to the port.

Shards share nothing but mailboxes. With one row in each they are as peers are, with several as the
machines of a cluster.
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

from ..core import Body, ByteDelivery, Checkpoint, CodedWire, Draws, Ledger, Links, Tag
from ..experiment import Experiment
from .guard import Guard
from .session import Session
from .simulator import build_port
from .stop import StopRule

__all__ = ["ShardedRun", "run_sharded"]

Ids = NDArray[np.int64]

# Seconds to wait for a letter: far beyond any test, so that a fault ends in an error.
_PATIENCE = 60.0


@dataclass(frozen=True)
class ShardedRun:
    """What came of a run in shards, put together."""

    path: Tensor  # the models at the start and after every round, [rounds + 1, rows, n]
    ledger: Ledger
    checkpoint: Checkpoint  # of the last round


class _MailWire:
    """A wire between shards: one letter per pair of shards and mixing, always delivered."""

    def __init__(
        self, me: int, owner: Ids, boxes: Sequence[queue.Queue[Any]], failed: threading.Event
    ) -> None:
        self._me, self._owner, self._boxes, self._failed = me, owner, boxes, failed
        self._early: dict[tuple[Tag, int], tuple[Ids, list[Body]]] = {}

    def exchange(
        self, tag: Tag, links: Links, out: Ids, bodies: Sequence[Body], into: Ids
    ) -> ByteDelivery:
        """Send every shard its letter, then wait for those that are due here."""
        to, sources = self._owner[links.dst[out]], self._owner[links.src[into]]
        for shard in np.unique(to):
            part = np.flatnonzero(to == shard)
            letter = [bodies[k] for k in part.tolist()]
            self._boxes[shard].put((tag, self._me, out[part], letter))
        came: dict[int, Body] = {}
        for shard in np.unique(sources):
            ids, letter = self._from(tag, int(shard))
            came |= dict(zip(ids.tolist(), letter, strict=True))
        found = [came[link] for link in into.tolist()]
        return ByteDelivery(found, np.ones(len(into), bool), np.ones(len(out), bool))

    def _from(self, tag: Tag, shard: int) -> tuple[Ids, list[Body]]:
        waited = 0.0
        while (tag, shard) not in self._early:
            try:
                other, sender, ids, letter = self._boxes[self._me].get(timeout=0.1)
                self._early[other, sender] = (ids, letter)
            except queue.Empty:
                waited += 0.1
                if self._failed.is_set() or waited > _PATIENCE:
                    raise RuntimeError(
                        f"shard {self._me} got no letter from shard {shard} in round {tag[0]}"
                    ) from None
        return self._early.pop((tag, shard))


def run_sharded(
    exp: Experiment,
    shards: Sequence[Sequence[int]],
    *,
    begin: Checkpoint | None = None,
    pause: int | None = None,
) -> ShardedRun:
    """Run an experiment with its rows dealt to shards, each in a thread of its own.

    With `begin` they go on with a run that another engine began; with `pause` they stop after that
    round, for another to go on.
    """
    StopRule.of(exp).check_rounds_only(
        "every shard has the account of its own rows. "
        "Leave it out, or simulate with all rows in one place."
    )
    rows = [np.asarray(sorted(shard), np.int64) for shard in shards]
    owner = np.empty(exp.graph.rows, np.int64)
    for number, mine in enumerate(rows):
        owner[mine] = number
    boxes: list[queue.Queue[Any]] = [queue.Queue() for _ in rows]
    failed, errors = threading.Event(), []
    wires = [
        CodedWire(exp.message, Draws(exp.seed), mine, _MailWire(number, owner, boxes, failed))
        for number, mine in enumerate(rows)
    ]
    stop, guard = StopRule(exp.rounds, pause=pause), Guard(every=1, replay=False)
    sessions = [
        Session(
            exp,
            build_port(exp, mine, mixer="links", wire=wire),
            stop=stop,
            guard=guard,
            resume=None if begin is None else begin.select(mine.tolist(), exp.graph),
        )
        for mine, wire in zip(rows, wires, strict=True)
    ]
    first = 0 if begin is None else begin.t
    path = torch.empty(
        (pause or exp.rounds) - first + 1, exp.graph.rows, exp.problem.n, dtype=exp.torch_dtype
    )

    def work(session: Session) -> None:
        mine = torch.from_numpy(session.port.place.rows)
        try:
            for snapshot in session:
                path[snapshot.t - first, mine] = session.state.x
        except Exception as error:  # noqa: BLE001  (handed to the caller below)
            errors.append(error)
            failed.set()

    threads = [threading.Thread(target=work, args=(session,), daemon=True) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    whole = Checkpoint.merge([session.checkpoint() for session in sessions])
    return ShardedRun(path, Ledger.of(exp.graph, whole.ledger), whole)

"""The wire between machines: one row here, its neighbours' rows elsewhere, a parcel per live link and mixing."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Delivery, Links
from ..engines import build_net
from ..errors import PeerError
from ..experiment import Experiment
from ..transport import Channel, Parcel, Post, Receipt, Settings, Skipped, Wanted

__all__ = ["CHANNEL", "PostWire", "Sent", "Shape"]

CHANNEL = 0  # rows travel on one channel, whatever they carry: both ends know from the experiment what it is
CHECKPOINT_EVERY = 10  # rounds, at the most; what neighbours may need of the rounds before is kept,
KEPT_BYTES = 64 << 20  # but never more than this per link
AHEAD = 8  # parcels that may be on their way to one neighbour before this peer waits for it
_LONG = 7 * 86400.0  # seconds

Ids = NDArray[np.int64]


class Sent(NamedTuple):
    """One parcel as it was sent."""

    row: int  # of the receiver
    round: int
    turn: int
    body: NDArray[np.floating]


class PostWire:
    """Sends and takes the parcels of synchronous rounds: every parcel arrives, in order, exactly once.

    Who sends in which round both ends know from the schedule, so silence needs no message. A neighbour is waited for up to
    `deadline` seconds, and what has not come by then did not fire. Without a deadline the peer stops, with all it has, when
    a neighbour's link has been down for longer than the transport waits.

    What was sent in the last rounds is remembered (`log`), for neighbours that start again from older checkpoints.
    """

    def __init__(self, post: Post, peers: list[str], remember: int, deadline: float | None = None) -> None:
        self._post, self._peers, self._deadline = post, peers, deadline
        self._under_way: defaultdict[str, deque[Receipt]] = defaultdict(deque)
        self._remember = remember
        self.log: deque[Sent] = deque()

    def swap(self, tag: tuple[int, int], links: Links, out: Ids, payload: Tensor, into: Ids) -> Delivery:
        """One parcel to each receiver, one from each sender."""
        round, turn = tag
        bodies = payload.detach().cpu().numpy()
        for link, body in zip(out, bodies, strict=True):
            self.send(Sent(int(links.dst[link]), round, turn, np.array(body)))
        wanted = [Wanted(self._peers[links.src[link]], round, turn) for link in into]
        answers = self._post.take_all(wanted, _LONG if self._deadline is None else self._deadline)
        came = torch.zeros(len(into), payload.shape[1], dtype=payload.dtype)
        arrived = np.zeros(len(into), bool)
        for k, want in enumerate(wanted):
            answer = answers[want]
            if isinstance(answer, Parcel):
                came[k] = torch.from_numpy(np.array(answer.body))
                arrived[k] = True
            elif self._deadline is None and not isinstance(answer, Skipped):
                raise PeerError(
                    f"{self._post.roster.name(want.peer)} is down, and round {round} needs it. Nothing is lost: start it, "
                    "then this peer again. With a deadline, rounds go on without those who are late."
                )
        return Delivery(came, arrived, np.ones(len(out), bool))

    def send(self, sent: Sent) -> None:
        """One parcel, once there is room for it."""
        peer = self._peers[sent.row]
        under_way = self._under_way[peer]
        while under_way and under_way[0].outcome != "pending":
            under_way.popleft()
        if len(under_way) >= AHEAD:
            self._post.settle([under_way[0]], _LONG)
        under_way.append(self._post.send(peer, Parcel(CHANNEL, sent.round, sent.turn, sent.body)))
        self.log.append(sent)
        while self.log and self.log[0].round <= sent.round - self._remember:
            self.log.popleft()


@dataclass(frozen=True)
class Shape:
    """What a run looks like on the wire: the widths that rows have, and how many mixings a round has at the most."""

    channel: Channel
    turns: int

    @classmethod
    @torch.no_grad()
    def of(cls, exp: Experiment, row: int) -> Shape:
        """Two rounds with nobody tell."""
        probe = _Widths()
        net = build_net(exp, np.array([row]), wire=probe)
        state = exp.algorithm.init(exp.start([row]).to(net.place.dtype), net)
        for net.t in (1, 2):
            state = exp.algorithm.step(state, net)
        return cls(Channel(exp.dtype, tuple(sorted(probe.widths))), probe.turns)

    @property
    def checkpoint_every(self) -> int:
        """Rounds between checkpoints: as many as neighbours can keep the parcels of."""
        return max(1, min(CHECKPOINT_EVERY, KEPT_BYTES // (max(self.channel.sizes) * self.turns)))

    @property
    def remember(self) -> int:
        """Rounds that a neighbour may be behind: the age of its checkpoint, and what may lie untaken in its inbox."""
        return 2 * self.checkpoint_every + 2 * AHEAD + 2

    def settings(self, base: Settings) -> Settings:
        """Settings under which a neighbour that starts again gets all that it has not seen."""
        kept = self.remember * self.turns
        return replace(base, retain=kept, outbox=kept + 64)


class _Widths:
    """A wire that delivers nothing, and notes how wide the rows are that a rule sends, and how often in a round."""

    def __init__(self) -> None:
        self.widths: set[int] = set()
        self.turns = 1

    def swap(self, tag: tuple[int, int], links: Links, out: Ids, payload: Tensor, into: Ids) -> Delivery:
        """As if every neighbour were silent."""
        self.widths.add(payload.shape[1])
        self.turns = max(self.turns, tag[1])
        nothing = torch.zeros(len(into), payload.shape[1], dtype=payload.dtype)
        return Delivery(nothing, np.zeros(len(into), bool), np.zeros(len(out), bool))

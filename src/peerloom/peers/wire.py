"""The wire between machines: one row here, its neighbours' rows elsewhere, a parcel per live link and mixing."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Cargo, Delivery, Late, Links
from ..engines import build_net
from ..errors import PeerError
from ..experiment import Experiment
from ..schedules import Bernoulli
from ..transport import Channel, Parcel, Post, Receipt, Settings, Skipped, Wanted
from .decisions import Decision, Journal, Tag

__all__ = ["CHANNEL", "Memory", "PostWire", "Sent", "Shape"]

CHANNEL = 0  # rows travel on one channel, whatever they carry: both ends know from the experiment what it is
CHECKPOINT_EVERY = 50  # rounds, at the most; what neighbours may need of the rounds before is kept,
KEPT_BYTES = 64 << 20  # but never more than this per link
AHEAD = 8  # parcels that may be on their way to one neighbour before this peer waits for it
_LONG = 7 * 86400.0  # seconds

Ids = NDArray[np.int64]
Memory = dict[str, NDArray[Any]]


class Sent(NamedTuple):
    """One parcel as it was sent."""

    row: int  # of the receiver
    round: int
    turn: int
    body: NDArray[np.floating]


class PostWire:
    """Sends and takes the parcels of synchronous rounds: every parcel arrives, in order, exactly once.

    Who sends in which round both ends know from the schedule, so silence needs no message. Without a deadline a neighbour is
    waited for until its link has been down for longer than the transport waits; then the peer stops, with all it has. With a
    deadline the round goes on without those who are late, and what they sent is handed over when it comes, so that no mass
    is lost. Such decisions are written to the journal before anything follows from them.

    What was sent in the last rounds is remembered (`log`), for neighbours that start again from older checkpoints.
    """

    def __init__(self, post: Post, row: int, shape: Shape, journal: Journal | None = None) -> None:
        self._post, self._row, self._deadline, self._remember = post, row, shape.deadline, shape.remember
        self._pushes = shape.pushes
        self._peers = [member.id for member in post.roster.members]
        self._journal = journal or Journal(None)
        self._again = -1  # the round that an earlier life may have been in
        self._under_way: defaultdict[str, deque[Receipt]] = defaultdict(deque)
        self._overdue: list[tuple[int, Parcel]] = []
        self.log: deque[Sent] = deque()

    def resume(self, t: int, memory: Memory) -> None:
        """Go on after round t: what neighbours may lack is sent again, what is still owed to this peer is taken late."""
        self._again = t + 1
        owed = {self._peers[row]: places for row, places in self._journal.outstanding(t + 1).items()}
        self._post.expect(t + 1, owed)
        start = 0
        for to, round, turn, length in memory["about"].tolist() if memory else ():
            self._send(Sent(to, round, turn, memory["bodies"][start : start + length]))
            start += length

    def memory(self, t: int) -> Callable[[], Memory]:
        """What a checkpoint after round t must hold of the wire; put together only when one is written."""
        sent = [entry for entry in self.log if entry.round <= t]
        return lambda: {
            "about": np.array([(*entry[:3], len(entry.body)) for entry in sent], np.int64).reshape(-1, 4),
            "bodies": np.concatenate([entry.body for entry in sent]) if sent else np.empty(0),
        }

    def swap(self, tag: Tag, links: Links, out: Ids, payload: Tensor, into: Ids, cargo: tuple[Cargo, ...]) -> Delivery:
        """One parcel to each receiver, one from each sender."""
        known, made = self._journal.at(tag), list[Decision]()
        acked = np.ones(len(out), bool)
        for k, (link, body) in enumerate(zip(out, payload.detach().cpu().numpy(), strict=True)):
            to = int(links.dst[link])
            if ("held", to) in _about(known) or (not known and self._crowded(to)):
                made.append(Decision("held", *tag, to))
                acked[k] = False
            else:
                self._send(Sent(to, *tag, np.array(body)))
        came = torch.zeros(len(into), payload.shape[1], dtype=payload.dtype)
        arrived = np.zeros(len(into), bool)
        for k, answer in enumerate(self._answers(tag, [int(links.src[link]) for link in into], known)):
            if isinstance(answer, Parcel):
                came[k], arrived[k] = torch.from_numpy(np.array(answer.body)), True
            else:
                kind: Literal["skipped", "missed"] = "skipped" if isinstance(answer, Skipped) else "missed"
                made.append(Decision(kind, *tag, int(links.src[into[k]])))
        late, noted = self._late(tag, links, known)
        self._journal.add([*made, *noted])
        return Delivery(came, arrived, acked, late)

    def _answers(self, tag: Tag, rows: list[int], known: list[Decision]) -> list[Parcel | Skipped | None]:
        """What each row sent for this mixing; known decisions are kept to."""
        gone = {row for kind, row in _about(known) if kind in ("missed", "skipped")}
        wanted = {row: Wanted(self._peers[row], *tag) for row in rows if row not in gone}
        patience = _LONG if self._deadline is None or tag[0] == self._again else self._deadline
        answers = self._post.take_all(list(wanted.values()), patience)
        found = [answers[wanted[row]] if row in wanted else _known(known, row, tag) for row in rows]
        down = [row for row, answer in zip(rows, found, strict=True) if answer is None and row in wanted]
        if self._deadline is None and down:
            raise PeerError(
                f"{self._post.roster.name(self._peers[down[0]])} is down, and round {tag[0]} needs it. Nothing is lost: "
                "start it, then this peer again. With a deadline, rounds go on without those who are late."
            )
        return found

    def _late(self, tag: Tag, links: Links, known: list[Decision]) -> tuple[tuple[Late, ...], list[Decision]]:
        """Parcels of the same mixing of earlier rounds, which were given up and have come since."""
        if self._deadline is None:
            return (), []
        wanted = {(decision.row, decision.of) for decision in known if decision.kind == "late"}
        sources = {self._peers[links.src[link]]: int(link) for link in np.flatnonzero(links.dst == self._row)}
        seen = 0
        while True:
            for peer in sources:
                self._overdue += [(sources[peer], parcel) for parcel in self._post.late(peer)]
            here = [(link, parcel) for link, parcel in self._overdue if parcel.turn == tag[1]]
            there = {(int(links.src[link]), (parcel.round, parcel.turn)) for link, parcel in here}
            if wanted <= there:
                break
            seen = self._post.wait_news(seen, 1.0)  # an earlier life had them: they are sent again
        if not self._pushes:
            here = []
        elif known or tag[0] == self._again:  # that round is done as it was done before
            here = [(link, p) for link, p in here if (int(links.src[link]), (p.round, p.turn)) in wanted]
        self._overdue = [entry for entry in self._overdue if entry[1] not in [p for _, p in here]] if self._pushes else []
        here.sort(key=lambda entry: (entry[0], entry[1].round))
        late = tuple(Late((p.round, p.turn), link, torch.from_numpy(np.array(p.body))) for link, p in here)
        return late, [Decision("late", *tag, int(links.src[link]), (p.round, p.turn)) for link, p in here]

    def _crowded(self, row: int) -> bool:
        """Whether too much is under way to a row; without a deadline this peer then waits for room instead."""
        under_way = self._under_way[self._peers[row]]
        while under_way and under_way[0].outcome != "pending":
            under_way.popleft()
        if len(under_way) < AHEAD:
            return False
        if self._deadline is None:
            self._post.settle([under_way[0]], _LONG)
        return self._deadline is not None

    def _send(self, sent: Sent) -> None:
        peer = self._peers[sent.row]
        self._under_way[peer].append(self._post.send(peer, Parcel(CHANNEL, sent.round, sent.turn, sent.body)))
        self.log.append(sent)
        while self.log and self.log[0].round <= sent.round - self._remember:
            self.log.popleft()


def _about(decisions: list[Decision]) -> set[tuple[str, int]]:
    return {(decision.kind, decision.row) for decision in decisions}


def _known(decisions: list[Decision], row: int, tag: Tag) -> Skipped | None:
    return Skipped(tag[0]) if ("skipped", row) in _about(decisions) else None


@dataclass(frozen=True)
class Shape:
    """What a run looks like on the wire: what travels in each mixing of a round, and how peers wait for each other.

    `flows`: models are mixed symmetrically, so that peers which do not wait must move differences to keep the mean.
    """

    cargo: dict[int, tuple[Cargo, ...]]
    layers: dict[int, str]  # over which layer of links each mixing goes
    dtype: str
    flows: bool
    deadline: float | None = None
    free: bool = False  # peers wait for nobody

    @classmethod
    @torch.no_grad()
    def of(cls, exp: Experiment, row: int, deadline: float | None = None, free: bool = False) -> Shape:
        """Two rounds with nobody tell."""
        probe = _Probe()
        # Whatever is measured later, the same travels.
        net = build_net(exp.measured(Bernoulli(0.5, 0.5)) if exp.measures else exp, np.array([row]), wire=probe)
        state = exp.algorithm.init(exp.start([row]).to(net.place.dtype), net)
        for net.t in (1, 2):
            state = exp.algorithm.step(state, net)
        layers = {turn: _layer(exp, links) for turn, links in probe.links.items()}
        return cls(probe.cargo, layers, exp.dtype, exp.algorithm.needs.symmetric, deadline, free)

    @property
    def turns(self) -> int:
        """Mixings in a round, at the most."""
        return max(self.cargo, default=1)

    @property
    def pushes(self) -> bool:
        """Whether mass travels, which must not be lost."""
        return any(part.pushed for parts in self.cargo.values() for part in parts)

    @property
    def channels(self) -> dict[int, Channel]:
        """What may travel: rows on one channel, or, where peers wait for nobody, every mixing on its own."""
        if self.free:
            return {turn: Channel("float64", (self.free_width(turn),)) for turn in self.cargo}
        widths = {sum(part.width for part in parts) for parts in self.cargo.values()}
        return {CHANNEL: Channel(self.dtype, tuple(sorted(widths)))}

    def free_width(self, turn: int) -> int:
        """Numbers of a parcel where peers wait for nobody: models that flow travel with what was moved so far."""
        parts = self.cargo[turn]
        return sum(part.width * (2 if self.flows and not part.pushed else 1) for part in parts)

    @property
    def checkpoint_every(self) -> int:
        """Rounds between checkpoints: as many as neighbours can keep the parcels of; one, where rounds may lack some."""
        if self.deadline is not None:
            return 1
        return max(1, min(CHECKPOINT_EVERY, KEPT_BYTES // (self._largest * self.turns)))

    @property
    def _largest(self) -> int:
        return max(size for channel in self.channels.values() for size in channel.sizes)

    @property
    def remember(self) -> int:
        """Rounds that a neighbour may be behind: the age of its checkpoint, and what may lie untaken in its inbox."""
        return self.checkpoint_every + 2 * AHEAD + 2

    def settings(self, base: Settings) -> Settings:
        """Settings under which a neighbour that starts again gets all that it has not seen."""
        kept = self.remember * self.turns
        return replace(base, retain=kept, outbox=kept + 64)


def _layer(exp: Experiment, links: Links) -> str:
    return next(name for name, each in exp.graph.layers.items() if each is links)


class _Probe:
    """A wire that delivers nothing, and notes what a rule sends in each mixing of a round."""

    def __init__(self) -> None:
        self.cargo: dict[int, tuple[Cargo, ...]] = {}
        self.links: dict[int, Links] = {}

    def swap(self, tag: Tag, links: Links, out: Ids, payload: Tensor, into: Ids, cargo: tuple[Cargo, ...]) -> Delivery:
        """As if every neighbour were silent."""
        self.cargo[tag[1]], self.links[tag[1]] = cargo, links
        nothing = torch.zeros(len(into), payload.shape[1], dtype=payload.dtype)
        return Delivery(nothing, np.zeros(len(into), bool), np.zeros(len(out), bool))

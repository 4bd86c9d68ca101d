"""The wire between machines: one row here, its neighbours' rows elsewhere, a parcel per live link and mixing."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core import Body, ByteDelivery, LateBody, Links
from ..errors import PeerError
from ..transport import Parcel, Receipt, Roster, Skipped, Transport, Wanted
from .decisions import Decision, Journal, Tag
from .sent import Sent, SentLog
from .wire_plan import AHEAD, WirePlan

__all__ = ["Memory", "Pieces", "SyncWire", "reached_in", "reached_memory"]

_LONG = 7 * 86400.0  # seconds

Ids = NDArray[np.int64]
Memory = dict[str, NDArray[Any]]
Pieces = dict[
    str, list[NDArray[Any]]
]  # the same, each array still in the pieces that make it, end to end
Place = tuple[int, int, int]  # row, round, mix_index


class SyncWire:
    """Sends and takes the parcels of synchronous rounds: every parcel arrives, in order, exactly once.

    Who sends in which round both ends know from the schedule, so silence needs no message. Without
    a deadline a neighbour is waited for until its link has been down for longer than the transport
    waits; then the peer stops, with all it has. With a deadline the round goes on without those who
    are late, and what they sent is handed over when it comes, so that no mass is lost. Such
    decisions are written to the journal before anything follows from them.

    Where the mean must stay, both ends of a link move or neither: a row that sent j nothing is deaf
    to j in that mixing, and a row that missed what j sent keeps what it sent itself (`_own`), to
    move by the difference when it comes.

    `began` is the roster with which the run began: its members are the rows. A link that a newer
    one takes away is silent from then on, where the rule can bear that; otherwise the peer stops.
    """

    def __init__(
        self,
        post: Transport,
        row: int,
        plan: WirePlan,
        began: Roster,
        journal: Journal | None = None,
    ) -> None:
        self._post, self._row, self._deadline = post, row, plan.deadline
        self._pushes, self._keeps_mean = plan.pushes, plan.keeps_mean
        self._plan, self._began, self._peers = plan, began, [member.id for member in began.members]
        self._rows = {peer: row for row, peer in enumerate(self._peers)}
        self._journal = journal or Journal(None)
        self._first = (
            self._again
        ) = -1  # the rounds, from and to, that an earlier process may have begun or done already
        self._lates = (
            plan.deadline is not None
        )  # whether parcels may come that were given up before
        self._under_way: defaultdict[str, deque[Receipt]] = defaultdict(deque)
        self._overdue: list[tuple[int, Parcel]] = []
        self._rosters: dict[
            Links, tuple[int, int]
        ] = {}  # in use and known of when a layer's links were last looked at
        self._log = SentLog(plan.kept)
        self._repeated: dict[str, Receipt] = {}  # the last parcel that each peer is sent again
        self.checkpoint_now: Callable[[], None] = lambda: (
            None
        )  # writes a checkpoint of the last round that was done
        self._roster_seen = 0  # the newest roster before which one was written
        self._own: dict[
            tuple[int, Tag], Body
        ] = {}  # what was sent to a row in a mixing, where its own was missed

    def resume(self, t: int, memory: Memory) -> None:
        """Go on after round t: what neighbours may lack is sent again, what is still owed to this peer is taken late.

        Earlier processes may have reached a later round. Neighbours have seen what they did in
        those rounds, so they are done as they were done then.
        """
        self._first, self._again = t + 1, max(t + 1, reached_in(memory))
        self._roster_seen = (self._post.offered() or self._post.roster).version
        owed = {
            self._peers[row]: places for row, places in self._journal.outstanding(t + 1).items()
        }
        self._post.expect(t + 1, owed)
        self._lates |= bool(owed)
        for place, body in _unstacked("sent", memory):
            self._send(Sent(*place, body), repeat=True)
        for (to, round, mix_index), body in _unstacked("own", memory):
            self._own[to, (round, mix_index)] = body

    def memory(self, t: int) -> Callable[[], Pieces]:
        """What a checkpoint after round t must hold of the wire; put together only when one is written."""
        own = [((row, *tag), body) for (row, tag), body in self._own.items()]
        # What was sent up to round t stays in the log for many rounds more: no need to list it in
        # every one.
        return lambda: (
            _stacked("sent", [(e[:3], e.body) for e in self._log.until(t)]) | _stacked("own", own)
        )

    def exchange(
        self, tag: Tag, links: Links, out: Ids, bodies: Sequence[Body], into: Ids
    ) -> ByteDelivery:
        """One parcel to each receiver, one from each sender."""
        self._close(tag, links)
        gone, known, made = self._journal.gone(tag), self._journal.at(tag), list[Decision]()
        before = _about(known)
        acked, sent = np.ones(len(out), bool), dict[int, Body]()
        with self._post.together():
            for k, (to, body) in enumerate(zip(links.dst[out].tolist(), bodies, strict=True)):
                if ("untold", to) in gone:
                    acked[k] = False
                # An earlier process may have sent for this round: then nothing is held back that is
                # not written down.
                elif ("held", to) in before or (
                    not known and tag[0] > self._again and self._crowded(to)
                ):
                    made.append(Decision("held", *tag, to))
                    acked[k] = False
                else:
                    sent[to] = body
                    self._send(Sent(to, *tag, body))
        self._log.forget()
        deaf = {decision.row for decision in made} if self._keeps_mean else set()
        came = list[Body]()
        arrived = np.zeros(len(into), bool)
        unheard = {row for kind, row in gone if kind == "unheard"}
        heard = [(k, row) for k, row in enumerate(links.src[into].tolist()) if row not in unheard]
        answers = self._answers(tag, [row for _, row in heard], known)
        for (k, row), answer in zip(heard, answers, strict=True):
            if (
                row in deaf
            ):  # it was waited for all the same: rounds that wait for nobody would soon be over
                continue
            if isinstance(answer, Parcel):
                came.append(answer.body)
                arrived[k] = True
            else:
                kind: Literal["skipped", "missed"] = (
                    "skipped" if isinstance(answer, Skipped) else "missed"
                )
                made.append(Decision(kind, *tag, row))
        if self._keeps_mean:
            self._own |= {
                (d.row, tag): sent[d.row] for d in made if d.kind == "missed" and d.row in sent
            }
        late, noted = self._late(tag, links, known)
        if self._own:
            self._let_go(tag, links.src[into[arrived]].tolist())
        self._journal.add([*made, *noted])
        return ByteDelivery(came, arrived, acked, late)

    def _let_go(self, tag: Tag, arrived: list[int]) -> None:
        """Parcels come in order: what a row sent before one that is here has come by now, or it never will."""
        here = {
            (self._rows[parcel.peer], (parcel.round, parcel.mix_index))
            for _, parcel in self._overdue
        }
        gone = [
            place
            for place in self._own
            if place[0] in arrived and place[1] < tag and place not in here
        ]
        for place in gone:
            del self._own[place]

    def _answers(
        self, tag: Tag, rows: list[int], known: list[Decision]
    ) -> list[Parcel | Skipped | None]:
        """What each row sent for this mixing; known decisions are kept to."""
        gone = {
            row
            for kind, row in _about(known)
            if kind in ("missed", "skipped", *(["held"] if self._keeps_mean else []))
        }
        wanted = {row: Wanted(self._peers[row], *tag) for row in rows if row not in gone}
        patience = _LONG if self._deadline is None or tag[0] <= self._again else self._deadline
        answers = dict[Wanted, Parcel | Skipped | None]()
        while missing := [want for want in wanted.values() if want not in answers]:
            answers |= self._post.receive_all(missing, patience, self._roster_seen)
            self._watch_roster()
        found = [answers[wanted[row]] if row in wanted else _known(known, row, tag) for row in rows]
        for row, answer in zip(rows, found, strict=True):
            if row in wanted and not isinstance(answer, Parcel):
                self._check_missing(tag[0], row, answer)
        return found

    def _check_missing(self, round: int, row: int, answer: Skipped | None) -> None:
        """Refuse to go on without what this row should have sent, where that cannot be right."""
        peer, name = self._peers[row], self._began.members[row].name
        # What was sent for later rounds, and is known to neighbours, followed from what came in
        # those that are done again.
        binding = self._first < round <= self._again and not self._plan.outlasts
        if self._post.closed("in", peer):
            self._plan.check_outlasts(name)
        elif (self._deadline is None or binding) and answer is None:
            words = [
                word.removeprefix("by_peer_")
                for word in self._post.refusals()
                if word.startswith("by_peer_")
            ]
            refused = f" Neighbours refuse this peer: {', '.join(words)}." if words else ""
            raise PeerError(
                f"{name} is down, and round {round} needs it.{refused} Nothing is lost: start it, "
                "then this peer again. With a deadline, rounds go on without those who are late."
            )
        elif (self._deadline is None or binding) and not self._plan.outlasts:
            why = (
                f"{name} no longer has what it sent for round {round}: this peer went back too "
                f"far, to an old checkpoint, and {self._plan.rule} needs every message. Let all "
                "begin anew: remove this run's folder below state."
            )
            self._post.halt(why, "too_far_behind")
            raise PeerError(why)

    def _close(self, tag: Tag, links: Links) -> None:
        """Note which links a newer roster has taken away since the last mixing over this layer."""
        rosters = self._post.roster.version, (self._post.offered() or self._post.roster).version
        if self._rosters.get(links) == rosters:
            return
        self._watch_roster()
        self._rosters[links] = rosters
        sources, targets = links.src[links.dst == self._row], links.dst[links.src == self._row]
        gone = self._journal.gone(tag)
        closed = [
            Decision("unheard", *tag, row)
            for row in sources.tolist()
            if self._post.closed("in", self._peers[row])
        ]
        closed += [
            Decision("untold", *tag, row)
            for row in targets.tolist()
            if self._post.closed("out", self._peers[row])
        ]
        for decision in closed:
            if (decision.kind, decision.row) not in gone:
                self._plan.check_outlasts(self._began.members[decision.row].name)
                self._journal.add([decision])

    def _watch_roster(self) -> None:
        """Make sure of all that was done before a newer roster: whom it removes sends nothing of that again."""
        version = (self._post.offered() or self._post.roster).version
        if version != self._roster_seen:
            self._roster_seen = version
            self.checkpoint_now()

    def _late(
        self, tag: Tag, links: Links, known: list[Decision]
    ) -> tuple[tuple[LateBody, ...], list[Decision]]:
        """Parcels of the same mixing of earlier rounds, which were given up and have come since."""
        if not self._lates:
            return (), []
        wanted = {(decision.row, decision.of) for decision in known if decision.kind == "late"}
        sources = {
            self._peers[links.src[link]]: int(link)
            for link in np.flatnonzero(links.dst == self._row)
        }
        seen = 0
        while True:
            for peer in sources:
                self._overdue += [
                    (sources[peer], parcel)
                    for parcel in self._post.late(peer)
                    if self._matters(parcel)
                ]
            here = [(link, parcel) for link, parcel in self._overdue if parcel.mix_index == tag[1]]
            there = {
                (int(links.src[link]), (parcel.round, parcel.mix_index)) for link, parcel in here
            }
            if wanted <= there:
                break
            seen = self._post.wait_for_arrivals(
                seen, 1.0
            )  # an earlier process had them: they are sent again
        if known or tag[0] <= self._again:  # that round is done as it was done before
            here = [
                (link, p)
                for link, p in here
                if (int(links.src[link]), (p.round, p.mix_index)) in wanted
            ]
        self._overdue = [entry for entry in self._overdue if entry[1] not in [p for _, p in here]]
        here.sort(key=lambda entry: (entry[0], entry[1].round))
        late = tuple(self._handed_over(int(links.src[link]), link, p) for link, p in here)
        return late, [
            Decision("late", *tag, int(links.src[link]), (p.round, p.mix_index)) for link, p in here
        ]

    def _matters(self, parcel: Parcel) -> bool:
        """Whether a late parcel is to be handed over: if it is mass, or answers one of ours where the mean must stay."""
        return (
            self._pushes or (self._rows[parcel.peer], (parcel.round, parcel.mix_index)) in self._own
        )

    def _handed_over(self, row: int, link: int, parcel: Parcel) -> LateBody:
        tag = (parcel.round, parcel.mix_index)
        return LateBody(tag, link, parcel.body, self._own.pop((row, tag), None))

    def _crowded(self, row: int) -> bool:
        """Whether too much is under way to a row; without a deadline this peer then waits for room instead."""
        peer = self._peers[row]
        under_way = self._under_way[peer]
        while under_way and under_way[0].outcome != "pending":
            under_way.popleft()
        if len(under_way) < AHEAD:
            return False
        if self._deadline is None:
            self._post.settle([under_way[0]], _LONG)
            return False
        # What is sent again after a start is no sign of a slow neighbour: it gets one deadline's
        # time to take all of it.
        repeated = self._repeated.pop(peer, None)
        return (
            repeated is None
            or not self._post.settle([repeated], self._deadline)
            or self._crowded(row)
        )

    def _send(self, sent: Sent, repeat: bool = False) -> None:
        peer = self._peers[sent.row]
        receipt = self._post.send(
            peer, Parcel(sent.mix_index, sent.round, sent.mix_index, sent.body), repeat=repeat
        )
        self._under_way[peer].append(receipt)
        self._log.add(sent, receipt)
        if repeat:
            self._repeated[peer] = receipt


def reached_memory(t: int) -> Pieces:
    """What a checkpoint holds of the round that the processes so far may have got to."""
    return {"reached": [np.array([t], np.int64)]}


def reached_in(memory: Memory) -> int:
    """That round; 0 where nothing is known of it."""
    return int(memory["reached"][0]) if "reached" in memory else 0


def _stacked(what: str, entries: list[tuple[Place, Body]]) -> Pieces:
    """Hundreds of small arrays would take longer to write than all their numbers: two arrays for all, and none twice."""
    pieces, starts, end = list[Body](), dict[int, int](), 0
    for _, body in entries:
        if id(body) not in starts:
            pieces.append(body)
            starts[id(body)], end = end, end + len(body)
    about = np.array(
        [(*place, starts[id(body)], len(body)) for place, body in entries], np.int64
    ).reshape(-1, 5)
    return {f"{what}-about": [about], what: pieces or [np.empty(0, np.uint8)]}


def _unstacked(what: str, memory: Memory) -> Iterator[tuple[Place, Body]]:
    bodies: dict[tuple[int, int], Body] = {}
    if what in memory:
        memory[what].flags.writeable = False
    for row, round, mix_index, start, length in (
        memory[f"{what}-about"].tolist() if f"{what}-about" in memory else ()
    ):
        yield (
            (row, round, mix_index),
            bodies.setdefault((start, length), memory[what][start : start + length]),
        )


def _about(decisions: list[Decision]) -> set[tuple[str, int]]:
    return {(decision.kind, decision.row) for decision in decisions}


def _known(decisions: list[Decision], row: int, tag: Tag) -> Skipped | None:
    return Skipped(tag[0]) if ("skipped", row) in _about(decisions) else None

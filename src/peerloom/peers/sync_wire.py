"""The wire of synchronous rounds between peers: one parcel per live link and mixing."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..core import Body, ByteDelivery, LateBody, Links
from ..errors import PeerError
from ..transport import Parcel, Receipt, Roster, Skipped, Transport, Wanted
from .away import Away
from .decisions import Decision, Journal, Tag
from .late import LateParcels
from .sent import Sent, SentLog
from .sent_files import SentFiles
from .wire_memory import Memory, Pieces, reached_in, stack_bodies, unstack_bodies
from .wire_plan import WirePlan

__all__ = ["SyncWire"]

_LONG = 7 * 86400.0  # seconds

Ids = NDArray[np.int64]


class SyncWire:
    """Exchanges the parcels of synchronous rounds: each arrives, in order, exactly once.

    Both ends know from the schedule who sends in which round, so silence needs no message. Without
    a deadline a peer waits for a neighbour until its link has been down for longer than the
    transport waits; then it stops, and keeps all it has. With a deadline the round goes on without
    late neighbours, and what they sent is handed over when it comes, so that no mass is lost. If a
    share of them is enough, it goes on as soon as so many have come, those that came first. Such
    decisions are written to the journal before anything follows from them.

    Where the mean must stay, both ends of a link move or neither: a row that sent j nothing ignores
    what j sent in that mixing, and a row that missed what j sent keeps what it sent itself
    (`_own`), to move by the difference when it comes.

    `began` is the roster with which the run began: its members are the rows. A link that a newer
    roster removes is silent from then on, where the rule allows that; otherwise the peer stops.
    """

    def __init__(
        self,
        transport: Transport,
        row: int,
        plan: WirePlan,
        began: Roster,
        journal: Journal | None = None,
        files: SentFiles | None = None,
    ) -> None:
        self._transport, self._row, self._deadline = transport, row, plan.deadline
        self._pushes, self._keeps_mean, self._ahead = plan.pushes, plan.keeps_mean, plan.ahead
        self._enough = plan.enough
        self._plan, self._began, self._peers = plan, began, [member.id for member in began.members]
        self._rows = {peer: row for row, peer in enumerate(self._peers)}
        self._journal, self._files = journal or Journal(None), files
        # The first and last round that an earlier process may have begun or done already.
        self._first = self._again = -1
        self._promised = -1  # the last round of which nothing more comes, as neighbours were told
        self._lates = plan.deadline is not None  # whether parcels may come that were given up
        # With one, now or in earlier processes, neighbours may hold back what they had.
        self._had_deadline = plan.deadline is not None
        self._under_way: defaultdict[str, deque[Receipt]] = defaultdict(deque)
        self._overdue = LateParcels(transport, self._peers, files)
        # Versions, in use and offered, when a layer's links were last checked.
        self._rosters: dict[Links, tuple[int, int]] = {}
        self._log = SentLog(plan.kept)
        self._repeated: dict[str, Receipt] = {}  # the last parcel that each peer is sent again
        # Writes a checkpoint of the last round that was done; set by the owner of the session.
        self.checkpoint_now: Callable[[], None] = lambda: None
        self._roster_seen = 0  # the newest roster before which one was written
        # What was sent to a row in a mixing in which its own parcel was missed.
        self._own: dict[tuple[int, Tag], Body] = {}
        # The mixing whose parcel came last from a row, before it was last asked what came late.
        self._newest: dict[int, Tag] = {}
        self._away = Away(transport, self._peers, self._journal, plan)

    def resume(self, t: int, memory: Memory) -> None:
        """Go on after round t: send again what neighbours may lack, expect what is still owed.

        Earlier processes may have reached a later round. Neighbours have seen what they did there,
        so those rounds are repeated with the same decisions.
        """
        self._first, self._again = t + 1, max(t + 1, reached_in(memory))
        self._had_deadline |= "had-deadline" in memory or bool(self._journal.every())
        self._roster_seen = (self._transport.offered() or self._transport.roster).version
        self._overdue.resume(memory)
        owed = self._overdue.missing(self._journal.outstanding(t + 1))
        gaps = self._overdue.narrowed(self._away.resume(t + 1))
        self._transport.expect(t + 1, owed, gaps)
        self._lates |= bool(owed) or bool(gaps)
        for key, body in unstack_bodies("sent", memory, self._files):
            self._send(Sent(*key, body), repeat=True)
        for (to, round, mix_index), body in unstack_bodies("own", memory, self._files):
            self._own[to, (round, mix_index)] = body
        self._promise_silence(t)

    def memory(self, t: int) -> Callable[[], Pieces]:
        """Return what a checkpoint after round t must hold; put together when one is written."""
        own = [((row, *tag), body) for (row, tag), body in self._own.items()]
        # What was sent up to round t stays in the log for many rounds: it can be listed later.
        return lambda: (
            stack_bodies("sent", [(e[:3], e.body) for e in self._log.until(t)], self._files)
            | stack_bodies("own", own, self._files)
            | self._overdue.memory(t)
            | ({"had-deadline": [np.ones(1, np.int64)]} if self._had_deadline else {})
        )

    def saved(self, t: int) -> None:
        """Note that a checkpoint after round t is written."""
        self._overdue.saved(t)

    def files_needed(self) -> set[int]:
        """Return the numbers of files with rows that a neighbour may still need."""
        if self._files is None:
            return set()
        bodies = [*self._log.bodies(), *self._own.values(), *self._overdue.bodies()]
        return {file.number for body in bodies if (file := self._files.of(body)) is not None}

    def exchange(
        self, tag: Tag, links: Links, out: Ids, bodies: Sequence[Body], into: Ids
    ) -> ByteDelivery:
        """One parcel to each receiver, one from each sender."""
        self._close(tag, links)
        if self._promised < tag[0] - 1 <= self._again:
            self._promise_silence(tag[0] - 1)
        gone, known = self._journal.gone(tag), self._journal.at(tag)
        sources = links.src[links.dst == self._row].tolist()
        away = self._away.rows(tag, sources, decides=tag[0] > self._again)
        silent = away | {row for kind, row in gone if kind == "untold"}
        acked, sent, made = self._send_all(tag, links.dst[out].tolist(), bodies, known, silent)
        deaf = {decision.row for decision in made} if self._keeps_mean else set()
        came, arrived = list[Body](), np.zeros(len(into), bool)
        there = [
            (k, row)
            for k, row in enumerate(links.src[into].tolist())
            if ("unheard", row) not in gone
        ]
        heard = [(k, row) for k, row in there if row not in away]
        needed = self._needed(len(there))
        answers = self._answers(tag, [row for _, row in heard], known, needed, deaf)
        for (k, row), answer in zip(heard, answers, strict=True):
            if row in deaf:
                continue
            if isinstance(answer, Parcel):
                came.append(answer.body)
                arrived[k] = True
            elif isinstance(answer, Skipped):
                made.append(Decision("skipped", *tag, row))
            else:
                made.append(Decision("missed", *tag, row))
        if self._keeps_mean:
            self._own |= {
                (d.row, tag): sent[d.row] for d in made if d.kind == "missed" and d.row in sent
            }
        late, noted = self._late(tag, links, known)
        if self._own:
            self._let_go()
        self._away.note([row for _, row in heard], made)
        self._journal.add([*made, *noted])
        return ByteDelivery(came, arrived, acked, late)

    def _send_all(
        self,
        tag: Tag,
        receivers: list[int],
        bodies: Sequence[Body],
        known: list[Decision],
        silent: set[int],
    ) -> tuple[NDArray[np.bool_], dict[int, Body], list[Decision]]:
        """Send to each receiver; return which were sent, the bodies by row, and what was held."""
        before, held = _about(known), list[Decision]()
        owed = Counter(row for row, _ in self._own)
        acked, sent = np.ones(len(receivers), bool), dict[int, Body]()
        with self._transport.together():
            for k, (to, body) in enumerate(zip(receivers, bodies, strict=True)):
                if to in silent:
                    acked[k] = False
                # An earlier process may have sent in this round: then only what the journal says is
                # held back.
                elif ("held", to) in before or (
                    not known
                    and tag[0] > self._again
                    and (owed[to] >= self._plan.most_owed or self._crowded(to, tag))
                ):
                    held.append(Decision("held", *tag, to))
                    acked[k] = False
                else:
                    sent[to] = body
                    self._send(Sent(to, *tag, body))
        self._log.forget()
        return acked, sent, held

    def _let_go(self) -> None:
        """Drop `_own` entries whose counterpart never comes: parcels arrive in order.

        Two peers that both hold back for what the other owes would do so for ever, so a later
        parcel counts here also if it was of no use itself.
        """
        here = {
            (self._rows[parcel.peer], (parcel.round, parcel.mix_index))
            for _, parcel in self._overdue.waiting()
        }
        gone = [
            (row, place)
            for row, place in self._own
            if place < self._newest.get(row, place) and (row, place) not in here
        ]
        for key in gone:
            del self._own[key]

    def _answers(
        self, tag: Tag, rows: list[int], known: list[Decision], needed: int, deaf: set[int]
    ) -> list[Parcel | Skipped | None]:
        """Return what each row sent for this mixing, as known decisions say where there are any.

        In a round that no earlier process began, the first that are `needed` will do. Those to
        whom this row is `deaf` are waited for all the same, or rounds would rush ahead, but not if
        the others are enough: nobody is shut out by what is not used.
        """
        gone = {
            row
            for kind, row in _about(known)
            if kind in ("missed", "skipped", *(["held"] if self._keeps_mean else []))
        }
        wanted = {row: Wanted(self._peers[row], *tag) for row in rows if row not in gone}
        patience = _LONG if self._deadline is None or tag[0] <= self._again else self._deadline
        enough = needed if patience < _LONG else len(wanted)
        last = deaf if enough < len(wanted) else set()
        answers = dict[Wanted, Parcel | Skipped | None]()
        for group in (wanted.keys() - last, wanted.keys() & last):
            while missing := [wanted[row] for row in group if wanted[row] not in answers]:
                here = sum(isinstance(answer, Parcel) for answer in answers.values())
                answers |= self._transport.receive_all(
                    missing, patience, self._roster_seen, patience < _LONG, enough - here
                )
                self._watch_roster()
                self._make_room(tag)
        found = [answers[wanted[row]] if row in wanted else _known(known, row, tag) for row in rows]
        for row, answer in zip(rows, found, strict=True):
            if row in wanted and not isinstance(answer, Parcel):
                self._check_missing(tag[0], row, answer)
        return found

    def _needed(self, senders: int) -> int:
        """How many of so many senders are enough for a mixing to go on."""
        return senders if self._enough is None else math.ceil(self._enough * senders - 1e-9)

    def _check_missing(self, round: int, row: int, answer: Skipped | None) -> None:
        """Refuse to go on without what this row should have sent, where the rule needs it."""
        peer, name = self._peers[row], self._began.members[row].name
        # An earlier process sent for later rounds what followed from what came in this one. Without
        # a deadline it may have come nowhere near: what it went on without is in the journal.
        repeated = self._deadline is not None and self._first < round <= self._again
        binding = repeated and not self._plan.outlasts
        allowed = self._had_deadline or (answer is not None and answer.promised)
        if self._transport.closed("in", peer):
            self._plan.check_outlasts(name)
        elif (self._deadline is None or binding) and answer is None:
            words = [
                word.removeprefix("by_peer_")
                for word in self._transport.refusals()
                if word.startswith("by_peer_")
            ]
            refused = f" Neighbours refuse this peer: {', '.join(words)}." if words else ""
            raise PeerError(
                f"{name} is down, and round {round} needs it.{refused} Nothing is lost: start it, "
                "then this peer again. With a deadline, rounds go on without those who are late."
            )
        elif (binding or not allowed) and not self._plan.outlasts:
            why = (
                f"{name} no longer has what it sent for round {round}, and {self._plan.rule} needs "
                "every message: this peer went back too far, to an old checkpoint, or it has no "
                "deadline where that one does. Let all begin anew: remove this run's folder below "
                "state."
            )
            error = PeerError(why)
            self._transport.halt(error, "too_far_behind")
            raise error

    def _close(self, tag: Tag, links: Links) -> None:
        """Note which links a newer roster has removed since the last mixing over this layer."""
        rosters = (
            self._transport.roster.version,
            (self._transport.offered() or self._transport.roster).version,
        )
        if self._rosters.get(links) == rosters:
            return
        self._watch_roster()
        self._rosters[links] = rosters
        sources, targets = links.src[links.dst == self._row], links.dst[links.src == self._row]
        gone = self._journal.gone(tag)
        closed = [
            Decision("unheard", *tag, row)
            for row in sources.tolist()
            if self._transport.closed("in", self._peers[row])
        ]
        closed += [
            Decision("untold", *tag, row)
            for row in targets.tolist()
            if self._transport.closed("out", self._peers[row])
        ]
        for decision in closed:
            if (decision.kind, decision.row) not in gone:
                self._plan.check_outlasts(self._began.members[decision.row].name)
                self._journal.add([decision])

    def _watch_roster(self) -> None:
        """Write a checkpoint before a newer roster: peers it removes send nothing again."""
        version = (self._transport.offered() or self._transport.roster).version
        if version != self._roster_seen:
            self._roster_seen = version
            self.checkpoint_now()

    def _make_room(self, tag: Tag) -> None:
        """Save what came late where it leaves none for what is awaited.

        A neighbour far behind sends again all that was given up while there was a deadline. Whether
        what was given up in this mixing matters is not known before its end.
        """

        def may_matter(parcel: Parcel) -> bool:
            return (parcel.round, parcel.mix_index) == tag or self._matters(parcel)

        if self._transport.crowded():
            for row in self._rows.values():
                self._overdue.collect(row, may_matter)
            for _ in range(2):  # neighbours keep parcels for the older checkpoint too
                self.checkpoint_now()

    def _late(
        self, tag: Tag, links: Links, known: list[Decision]
    ) -> tuple[tuple[LateBody, ...], list[Decision]]:
        """Return parcels of earlier rounds that were given up and have come, and decisions on them.

        Only those of the same mixing of the round, since they are combined like its rows.
        """
        if not self._lates:
            return (), []
        wanted = {(decision.row, decision.of) for decision in known if decision.kind == "late"}
        sources = {
            int(links.src[link]): int(link) for link in np.flatnonzero(links.dst == self._row)
        }
        seen = 0
        while True:
            asked = {row for row, _ in wanted} | {row for row, _ in self._own}
            self._newest = {row: self._last_of(row) for row in asked}
            for row in sources:
                self._overdue.collect(row, self._matters)
            here = {
                (row, (parcel.round, parcel.mix_index)): parcel
                for row, parcel in self._overdue.waiting()
                if parcel.mix_index == tag[1]
            }
            wanted = {each for each in wanted if each in here or self._may_come(*each)}
            if wanted <= here.keys():
                break
            # An earlier process had them, so they are sent again.
            seen = self._transport.wait_for_arrivals(seen, 1.0)
        if known or tag[0] <= self._again:  # this round is repeated as it was done before
            here = {each: parcel for each, parcel in here.items() if each in wanted}
        self._overdue.hand_over(tag[0], here)
        chosen = sorted(here, key=lambda each: (sources[each[0]], each[1]))
        late = tuple(
            LateBody(place, sources[row], here[row, place].body, self._own.pop((row, place), None))
            for row, place in chosen
        )
        return late, [Decision("late", *tag, row, place) for row, place in chosen]

    def _last_of(self, row: int) -> Tag:
        """The mixing whose parcel came last from a row, be it taken, late or of no use."""
        last = [self._transport.newest(self._peers[row], mixing) for mixing in self._plan.parts]
        return max([(each.round, each.mix_index) for each in last if each], default=(-1, 0))

    def _may_come(self, row: int, place: Tag) -> bool:
        """Whether a row may still send again what an earlier process had of it.

        Not if a later parcel came, nor once its link is gone or down for too long.
        """
        links = [
            link
            for link in self._transport.links()
            if link.direction == "in" and link.peer == self._peers[row]
        ]
        there = any(link.up or link.since < self._transport.wait for link in links)
        return there and self._newest[row] <= place

    def _matters(self, parcel: Parcel) -> bool:
        """Whether a late parcel counts: it is mass, or the counterpart of an `_own` entry."""
        return (
            self._pushes or (self._rows[parcel.peer], (parcel.round, parcel.mix_index)) in self._own
        )

    def _promise_silence(self, t: int) -> None:
        """Say that nothing more comes of rounds up to t, where a deadline has been taken away.

        Who waits without one would wait without end for what was held back before.
        """
        self._promised = t
        if self._deadline is None and self._had_deadline:
            self._transport.skip(t)

    def _crowded(self, row: int, tag: Tag) -> bool:
        """Whether too much is under way to a row; without a deadline, wait until it is not."""
        peer = self._peers[row]
        under_way = self._under_way[peer]
        while under_way and under_way[0].outcome != "pending":
            under_way.popleft()
        if len(under_way) < self._ahead:
            return False
        if self._deadline is None:
            while not self._transport.settle([under_way[0]], _LONG, self._roster_seen):
                self._watch_roster()
                self._make_room(tag)
            return False
        # What is sent again after a start is no sign of a slow neighbour: it gets one deadline to
        # acknowledge all of it.
        repeated = self._repeated.pop(peer, None)
        return (
            repeated is None
            or not self._transport.settle([repeated], self._deadline)
            or self._crowded(row, tag)
        )

    def _send(self, sent: Sent, repeat: bool = False) -> None:
        peer = self._peers[sent.row]
        receipt = self._transport.send(
            peer, Parcel(sent.mix_index, sent.round, sent.mix_index, sent.body), repeat=repeat
        )
        self._under_way[peer].append(receipt)
        self._log.add(sent, receipt)
        if repeat:
            self._repeated[peer] = receipt


def _about(decisions: list[Decision]) -> set[tuple[str, int]]:
    return {(decision.kind, decision.row) for decision in decisions}


def _known(decisions: list[Decision], row: int, tag: Tag) -> Skipped | None:
    return Skipped(tag[0]) if ("skipped", row) in _about(decisions) else None

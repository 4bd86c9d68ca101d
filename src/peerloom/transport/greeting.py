"""Greetings: which peer may use a new connection, and which stays when both sides dial.

Either side of a pair may dial. The dialler sends HELLO, the other answers HELLO_OK or REFUSE. Each
says which process it is, how often it has dialled, what it has of the other's parcels, and how
much room it has for more.

TLS has agreed on the form of the greeting (`tls.greeting_of`); the greeting agrees on the version.
HELLO names the lowest and the highest that its sender speaks, HELLO_OK the one that both use from
then on, the highest in common.

A later process of a peer is greeted only when the connection of the known one is gone, and if it
goes on where that one ended (see `lives`). While that connection is open it is asked by a PING: if
it answers, the later process runs on a copy of the folder. If a copy was greeted while the original
could not be reached, the original proves it by coming back: the folder's lock lets no process begin
while the one before it runs.

If both dial at once, the connection of the lower id stays: the lower id refuses a HELLO while its
own is unanswered, and the higher id gives up its own. A HELLO may also come so late that the other
connection is up already. Therefore HELLO_OK names the last attempt of its sender: a HELLO of that
attempt, or of an earlier one, is void.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .budget import Budget
from .frames import FrameError
from .lives import KnownLife, Life
from .reasons import bounded
from .schemas import GREETING
from .types import RefusedError

if TYPE_CHECKING:
    from .conversation import Conversation
    from .links import LinkTable

__all__ = ["PAUSES", "Greetings", "RefusedByPeerError"]


_MOST_COPIES = 8  # of one peer that are remembered as such
PAUSES = {
    "too_fast": (5.0, "too_fast"), "internal": (1.0, "paused"),
    "roster": (5.0, "paused"), "card": (5.0, "paused"),  # reading one costs more than sending it
}  # fmt: skip
"""By why a connection ended: seconds in which the peer is not greeted, and the word it is told."""


class RefusedByPeerError(ConnectionError):
    """The other side refuses this connection; `why` is its reason."""

    def __init__(self, why: str) -> None:
        super().__init__(f"refused by the other side: {why}")
        self.why = bounded(why)


@dataclass
class _Pair:
    """The connections with one peer, as this process knows them."""

    current: Conversation | None = None
    attempts: int = 0  # how often we have dialled
    awaits: int = 0  # our attempt whose HELLO has no answer yet; 0 if there is none
    theirs: int = 0  # the last attempt of the peer's process that needs no answer
    suspect: Life | None = None  # a later process that came while the known one was connected
    asked: float = 0.0  # when the known one was therefore asked whether it is there
    elder: tuple[Life, int] | None = None  # the process before the known one, and its attempt
    held: tuple[float, str] = (0.0, "")  # until when the peer is not greeted, and why
    budget: Budget | None = None
    copies: deque[Life] = field(default_factory=lambda: deque(maxlen=_MOST_COPIES))


class Greetings:
    """The conversation with each peer. Call everything with the table's lock held."""

    def __init__(self, table: LinkTable) -> None:
        self._table = table
        self._pairs: dict[str, _Pair] = {}
        self.open = True  # False: the endpoint stops, and new connections are refused

    def current(self, peer: str) -> Conversation | None:
        """The conversation that carries the links of a peer."""
        pair = self._pairs.get(peer)
        return None if pair is None else pair.current

    def all(self) -> list[Conversation]:
        """Every conversation that carries links."""
        return [pair.current for pair in self._pairs.values() if pair.current is not None]

    def hello(self, talk: Conversation) -> dict[str, Any]:
        """The HELLO to a peer that we have dialled."""
        table, pair = self._table, self._pair(talk.peer)
        pair.attempts += 1
        pair.awaits = pair.attempts
        run, roster = table.run, table.newest
        ours = {"versions": talk.versions, "run": run.run_id, "agreement": run.agreement}
        theirs = {"roster": roster.hash, "roster_version": roster.version}
        return {**ours, **theirs, **self._side(talk)}

    def accept(self, talk: Conversation, hello: Mapping[str, Any]) -> dict[str, Any]:
        """Accept a HELLO and return the HELLO_OK, or raise `RefusedError`."""
        peer, pair = talk.peer, self._pair(talk.peer)
        version = _common(talk.versions, hello["versions"])
        if version is None:
            raise RefusedError("protocol_version")
        why = self._objection(talk, hello) or self._crossed(peer, hello)
        if why:
            raise RefusedError(why)
        self._charge(peer)
        pair.awaits = 0  # our own attempt is void
        pair.theirs = hello["attempt"]
        self._begin(talk, hello)
        versions = {"version": version, "roster_version": self._table.newest.version}
        return {**versions, **self._side(talk)}

    def accepted(self, talk: Conversation, answer: Mapping[str, Any], attempt: int) -> None:
        """Take the HELLO_OK to our HELLO; raises `RefusedError` if it is not acceptable."""
        pair = self._pair(talk.peer)
        if pair.awaits != attempt:
            raise RefusedError("crossed")
        pair.awaits = 0
        why = self._impostor(talk, answer)
        if why:
            raise RefusedError(why)
        pair.theirs = answer["attempt"]
        self._begin(talk, answer)
        self.confirm(talk.peer)

    def confirm(self, peer: str) -> None:
        """Note that a peer has greeted this process for certain."""
        self._table.lives.confirm(peer, self._table.life)

    def over(self, talk: Conversation, attempt: int) -> bool:
        """Note that a conversation has ended; whether it carried the links."""
        pair = self._pairs.get(talk.peer)
        if pair is None:
            return False
        if attempt and pair.awaits == attempt:
            pair.awaits = 0
        if pair.current is not talk:
            return False
        pair.current = None
        return True

    def hold(self, peer: str, seconds: float, why: str) -> None:
        """Do not greet a peer for a while."""
        self._pair(peer).held = (self._table.clock() + seconds, why)

    def held(self, peer: str) -> float:
        """How many seconds a peer is not greeted from now on."""
        pair = self._pairs.get(peer)
        return 0.0 if pair is None else max(0.0, pair.held[0] - self._table.clock())

    def budget(self, peer: str) -> Budget:
        """What a peer may cost, over all its connections."""
        pair, table = self._pair(peer), self._table
        if pair.budget is None:
            pair.budget = Budget(table.settings, table.longest)
        return pair.budget

    def forget(self, peer: str) -> None:
        """Forget all about this peer."""
        self._pairs.pop(peer, None)
        self._table.lives.forget(peer)

    def _pair(self, peer: str) -> _Pair:
        return self._pairs.setdefault(peer, _Pair())

    def _side(self, talk: Conversation) -> dict[str, Any]:
        """What either greeting says of this side."""
        table, peer = self._table, talk.peer
        inbox, edge = table.inboxes.get(peer), table.edges.get(("in", peer))
        if edge is not None and edge.part is not None:
            talk.offered = edge.part.place
        table.lives.begin(table.life, [peer])
        return {
            "incarnation": table.life.incarnation,
            "process_nonce": table.life.nonce,
            "attempt": self._pair(peer).attempts,
            "last": [0, 0] if inbox is None else list(inbox.last),
            "want": 0 if inbox is None else inbox.want,
            "parents": table.lives.parents(peer, table.life),
            "part": talk.offered,
        }

    def _begin(self, talk: Conversation, said: Mapping[str, Any]) -> None:
        """Let this conversation carry the links from now on."""
        table, pair = self._table, self._pair(talk.peer)
        if not self.open:
            raise ConnectionError("stopped")
        if not talk.fits():
            raise ConnectionError("the roster changed during the greeting")
        known, old = table.lives.known(talk.peer), pair.current
        life = _life_of(said)
        if known is not None and life in known.parents:
            self._reinstate(talk.peer, pair, known.life)
        pair.current, pair.suspect, pair.elder = talk, None, None
        if known is None or known.life != life or known.version != talk.version:
            parents = tuple(Life(*pair) for pair in said.get("parents", ()))
            table.lives.learn(talk.peer, KnownLife(life, talk.version, parents))
        if old is not None:
            old.replaced()

    def _reinstate(self, peer: str, pair: _Pair, copy: Life) -> None:
        """Go back to the process from whose folder the one that was greeted last was copied."""
        table, inbox = self._table, self._table.inboxes.get(peer)
        pair.copies.append(copy)
        if inbox is not None:
            inbox.forget_order()
        name = table.name(peer)
        text = f"{name} runs twice: a copy of its folder was greeted, and is refused from now on"
        table.alarm(peer, "runs_twice", text)

    def _charge(self, peer: str) -> None:
        """Refuse a peer that greets and hangs up, again and again, and brings nothing."""
        try:
            self.budget(peer).charge("greeting", self._table.clock())
        except FrameError as error:
            self.hold(peer, *PAUSES[error.reason])
            raise RefusedError(error.reason) from None

    def _crossed(self, peer: str, hello: Mapping[str, Any]) -> str:
        pair = self._pair(peer)
        if pair.awaits and self._table.me < peer:
            return "crossed"
        known = self._table.lives.known(peer)
        same = known is not None and hello["process_nonce"] == known.life.nonce
        return "crossed" if same and hello["attempt"] <= pair.theirs else ""

    def _objection(self, talk: Conversation, hello: Mapping[str, Any]) -> str:
        table, known = self._table, self._table.newest
        if hello["run"] != table.run.run_id:
            return "wrong_run"
        if hello["agreement"] != table.run.agreement:
            return "wrong_spec"
        if not table.linked(talk.peer):
            return "not_a_neighbour"
        if self.held(talk.peer):
            return self._pair(talk.peer).held[1]
        if hello["roster_version"] == known.version and hello["roster"] != known.hash:
            return "roster_fork"
        return self._impostor(talk, hello)

    def _impostor(self, talk: Conversation, said: Mapping[str, Any]) -> str:
        """Why this is not the process we know under this id, or a later one; empty if it is."""
        table, pair, life = self._table, self._pair(talk.peer), _life_of(said)
        known, inbox = table.lives.known(talk.peer), table.inboxes.get(talk.peer)
        if known is None or life == known.life:
            return ""
        if life in pair.copies or life.incarnation == known.life.incarnation:
            return "identity_conflict"
        if life in known.parents:
            return self._elder(talk, life, said["attempt"])
        heard = 0 if inbox is None else inbox.last[0]
        if life.incarnation < max(known.life.incarnation, heard):
            return "old_incarnation"
        if pair.current is not None:
            return self._ask_the_known(pair, life, pair.current)
        told = min(known.version, talk.version) >= GREETING
        goes_on = not told or list(known.life) in said["parents"]
        return "" if goes_on else "identity_conflict"

    def _elder(self, talk: Conversation, life: Life, attempt: int) -> str:
        """Why a process that should have ended before the known one is refused, if it is.

        Its HELLO may lie here unread since before its end, so it has to come a second time; one
        that answers is there.
        """
        pair = self._pair(talk.peer)
        before, pair.elder = pair.elder, (life, attempt)
        again = before is not None and before[0] == life and attempt > before[1]
        return "" if again or talk.attempt else "second_process"

    def _ask_the_known(self, pair: _Pair, life: Life, current: Conversation) -> str:
        """Why a later process is refused while the known one is connected."""
        if pair.suspect != life:
            pair.suspect, pair.asked = life, self._table.clock()
        if current.proved >= pair.asked:
            return "identity_conflict"
        current.prove()  # once more each time: a PING may have left while this was decided
        return "second_process"


def _life_of(said: Mapping[str, Any]) -> Life:
    return Life(said["incarnation"], said["process_nonce"])


def _common(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    """The highest version within both ranges; None if there is none.

    >>> _common((6, 7), (7, 9)), _common((6, 7), (8, 9))
    (7, None)
    """
    highest = min(ours[1], theirs[1])
    return highest if highest >= max(ours[0], theirs[0]) else None

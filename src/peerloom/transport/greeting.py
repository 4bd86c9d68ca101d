"""Greetings: which peer may use a new connection, and which stays when both sides dial.

Either side of a pair may dial. The dialler sends HELLO, the other answers HELLO_OK or REFUSE. Each
says which process it is, how often it has dialled, what it has of the other's parcels, and how
much room it has for more.

If both dial at once, the connection of the lower id stays: the lower id refuses a HELLO while its
own is unanswered, and the higher id gives up its own. A HELLO may also come so late that the other
connection is up already. Therefore HELLO_OK names the last attempt of its sender: a HELLO of that
attempt, or of an earlier one, is void.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .frames import VERSION
from .reasons import bounded
from .types import RefusedError

if TYPE_CHECKING:
    from .conversation import Conversation
    from .links import LinkTable

__all__ = ["Greetings", "RefusedByPeerError"]


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
    incarnation: int = 0  # of the peer's process when we last greeted it, with its nonce
    process_nonce: int = 0
    theirs: int = 0  # the last attempt of that process that needs no answer


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

    def hello(self, peer: str) -> dict[str, Any]:
        """The HELLO to a peer that we have dialled."""
        table, pair = self._table, self._pair(peer)
        pair.attempts += 1
        pair.awaits = pair.attempts
        run, roster = table.run, table.newest
        ours = {"versions": [VERSION, VERSION], "run": run.run_id, "agreement": run.agreement}
        return {**ours, "roster": roster.hash, "roster_version": roster.version, **self._side(peer)}

    def accept(self, talk: Conversation, hello: Mapping[str, Any]) -> dict[str, Any]:
        """Accept a HELLO and return the HELLO_OK, or raise `RefusedError`."""
        peer, pair = talk.peer, self._pair(talk.peer)
        why = self._objection(peer, hello) or self._crossed(peer, hello)
        if why:
            raise RefusedError(why)
        pair.awaits = 0  # our own attempt is void
        pair.theirs = hello["attempt"]
        self._begin(talk, hello)
        return {"roster_version": self._table.newest.version, **self._side(peer)}

    def accepted(self, talk: Conversation, answer: Mapping[str, Any], attempt: int) -> None:
        """Take the HELLO_OK to our HELLO; raises `RefusedError` if it is not acceptable."""
        pair = self._pair(talk.peer)
        if pair.awaits != attempt:
            raise RefusedError("crossed")
        pair.awaits = 0
        why = self._impostor(talk.peer, answer)
        if why:
            raise RefusedError(why)
        pair.theirs = answer["attempt"]
        self._begin(talk, answer)

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

    def forget(self, peer: str) -> None:
        """Forget all about this peer."""
        self._pairs.pop(peer, None)

    def _pair(self, peer: str) -> _Pair:
        return self._pairs.setdefault(peer, _Pair())

    def _side(self, peer: str) -> dict[str, Any]:
        """What either greeting says of this side."""
        table, inbox = self._table, self._table.inboxes.get(peer)
        return {
            "incarnation": table.incarnation,
            "process_nonce": table.process_nonce,
            "attempt": self._pair(peer).attempts,
            "last": [0, 0] if inbox is None else list(inbox.last),
            "want": 0 if inbox is None else inbox.want,
        }

    def _begin(self, talk: Conversation, said: Mapping[str, Any]) -> None:
        """Let this conversation carry the links from now on."""
        table, pair = self._table, self._pair(talk.peer)
        if not self.open:
            raise ConnectionError("stopped")
        if not talk.fits():
            raise ConnectionError("the roster changed during the greeting")
        old, again = pair.current, pair.incarnation == said["incarnation"]
        pair.current = talk
        pair.incarnation, pair.process_nonce = said["incarnation"], said["process_nonce"]
        if old is not None:
            old.replaced()
            if not again:
                name = table.name(talk.peer)
                text = f"{name} was started a second time while its first link was open"
                table.tell("alarm", talk.peer, text)

    def _crossed(self, peer: str, hello: Mapping[str, Any]) -> str:
        pair = self._pair(peer)
        if pair.awaits and self._table.me < peer:
            return "crossed"
        same = hello["process_nonce"] == pair.process_nonce
        return "crossed" if same and hello["attempt"] <= pair.theirs else ""

    def _objection(self, peer: str, hello: Mapping[str, Any]) -> str:
        table, known = self._table, self._table.newest
        lowest, highest = hello["versions"]
        if not lowest <= VERSION <= highest:
            return "protocol_version"
        if hello["run"] != table.run.run_id:
            return "wrong_run"
        if hello["agreement"] != table.run.agreement:
            return "wrong_spec"
        if not table.linked(peer):
            return "not_a_neighbour"
        if hello["roster_version"] == known.version and hello["roster"] != known.hash:
            return "roster_fork"
        return self._impostor(peer, hello)

    def _impostor(self, peer: str, said: Mapping[str, Any]) -> str:
        """Why this is not the process we know under this id, or a later one; empty if it is."""
        pair, inbox = self._pair(peer), self._table.inboxes.get(peer)
        if said["incarnation"] == pair.incarnation and said["process_nonce"] != pair.process_nonce:
            return "identity_conflict"
        heard = 0 if inbox is None else inbox.last[0]
        return "old_incarnation" if said["incarnation"] < max(pair.incarnation, heard) else ""

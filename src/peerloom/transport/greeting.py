"""Greetings: who may speak over a new connection, and which of two stays when both sides dial at once.

Either side of a pair may dial. The dialler says HELLO, the other answers HELLO_OK or REFUSE; each says of itself which
process it is, how often it has dialled, what it has of the other's parcels, and how much room it has for more.

If both dial at once, the connection of the lower id stays. The lower one refuses a HELLO while its own awaits its
answer; the higher one gives up its own. A HELLO may also come so late that the other connection is up already. So HELLO_OK
names the last attempt of whoever says it: a HELLO of that attempt, or of one before it, is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .frames import VERSION
from .types import RefusedError

if TYPE_CHECKING:
    from .conversation import Conversation
    from .links import LinkTable

__all__ = ["Greetings"]


@dataclass
class _Pair:
    """What is known of the connections with one peer, in one process of ours."""

    current: Conversation | None = None
    attempts: int = 0  # how often we have dialled
    awaits: int = 0  # the attempt whose HELLO has no answer yet
    incarnation: int = 0  # theirs, with the number that their process drew, when we last greeted it
    process_nonce: int = 0
    theirs: int = 0  # the last attempt of that process which needs no answer any more


class Greetings:
    """Who speaks with whom. Call everything with the table's lock held."""

    def __init__(self, table: LinkTable) -> None:
        self._table = table
        self._pairs: dict[str, _Pair] = {}
        self.open = True  # False: everything ends, and nobody is let in any more

    def current(self, peer: str) -> Conversation | None:
        """The conversation that carries the links of a peer."""
        pair = self._pairs.get(peer)
        return None if pair is None else pair.current

    def all(self) -> list[Conversation]:
        """Every conversation that carries links."""
        return [pair.current for pair in self._pairs.values() if pair.current is not None]

    def hello(self, peer: str) -> dict[str, Any]:
        """What to say first to a peer that we have dialled."""
        table, pair = self._table, self._pair(peer)
        pair.attempts += 1
        pair.awaits = pair.attempts
        run, roster = table.run, table.newest
        ours = {"versions": [VERSION, VERSION], "run": run.run_id, "agreement": run.agreement}
        return {**ours, "roster": roster.hash, "roster_version": roster.version, **self._side(peer)}

    def accept(self, talk: Conversation, hello: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a HELLO: what to say in HELLO_OK, or `RefusedError`."""
        peer, pair = talk.peer, self._pair(talk.peer)
        why = self._objection(peer, hello) or self._crossed(peer, hello)
        if why:
            raise RefusedError(why)
        pair.awaits = 0  # an attempt of ours that is under way is over
        pair.theirs = hello["attempt"]
        self._begin(talk, hello)
        return {"roster_version": self._table.newest.version, **self._side(peer)}

    def accepted(self, talk: Conversation, answer: Mapping[str, Any], attempt: int) -> None:
        """Our HELLO was answered by HELLO_OK; raises `RefusedError` if we go no further."""
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
        """A conversation has ended; whether it was the one that carried the links."""
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
        """Nothing is known of this peer any more."""
        self._pairs.pop(peer, None)

    def _pair(self, peer: str) -> _Pair:
        return self._pairs.setdefault(peer, _Pair())

    def _side(self, peer: str) -> dict[str, Any]:
        """What we say of ourselves in either greeting."""
        table, inbox = self._table, self._table.inboxes.get(peer)
        return {
            "incarnation": table.incarnation,
            "process_nonce": table.process_nonce,
            "attempt": self._pair(peer).attempts,
            "last": [0, 0] if inbox is None else list(inbox.last),
            "want": 0 if inbox is None else inbox.want,
        }

    def _begin(self, talk: Conversation, said: Mapping[str, Any]) -> None:
        """This conversation carries the links from now on."""
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
                text = f"{table.name(talk.peer)} was started a second time while its first link was open"
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
        """Why this cannot be the process, or a later one, that we know under this name."""
        pair, inbox = self._pair(peer), self._table.inboxes.get(peer)
        if said["incarnation"] == pair.incarnation and said["process_nonce"] != pair.process_nonce:
            return "identity_conflict"
        heard = 0 if inbox is None else inbox.last[0]
        return "old_incarnation" if said["incarnation"] < max(pair.incarnation, heard) else ""

"""Cards: what every member says of itself, signed, passed on from neighbour to neighbour.

A card travels as it was signed, so nobody speaks for another. Of every member the newest is kept,
by (incarnation, n), and forgotten after a day or when the member goes.

However often members sign, a connection carries few cards: of each member one in four seconds is
taken here, and only what was taken is passed on. What a connection may cost (`Budget`) is twice as
much, so that no member can make two others cut each other off.
"""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .buckets import Bucket
from .certificate import certificate_verifies
from .frames import FrameError
from .json_files import COUNT, NUMBER, TEXT, Each, Optional, check_form
from .roster import Roster
from .schemas import LARGEST_BODY, Kind

__all__ = ["LONGEST_CARD", "Cards", "Known", "Passing", "entries"]

LONGEST_CARD = 1024  # bytes, without its signature
_LONGEST_SIGNATURE = 128  # characters; those of P-256 have 96
# In a frame: every quote and backslash of the text doubled, and what is around it.
_LONGEST_ENTRY = 2 * LONGEST_CARD + _LONGEST_SIGNATURE + 12
_PURPOSE = "card"
_KEPT = 86400.0  # seconds
_PACE = 0.25, 4.0  # cards that are taken of one member: a second, at once
_TOGETHER = 1.0  # seconds in which cards gather before they go over a connection
_MOST = 64  # cards in one frame
_LARGEST = 1e12  # seconds, or rounds a second: more is no time, and no column of a table
_FORM = {
    "member": TEXT, "n": COUNT, "at": NUMBER, "incarnation": COUNT, "run": TEXT, "round": COUNT,
    "rounds_per_second": NUMBER, "status": TEXT, "links": Each(Each(TEXT)), "version": TEXT,
    "roster": COUNT, "loss": Optional(NUMBER), "audit": Optional(TEXT),
}  # fmt: skip


class Known(NamedTuple):
    """A card as it was signed, what it says, and when it came."""

    text: str
    signature: str
    facts: Mapping[str, Any]
    came: float

    @property
    def order(self) -> tuple[int, int]:
        """A later card of the same member compares greater."""
        return self.facts["incarnation"], self.facts["n"]


class Cards:
    """The newest card of every member in one run. Call everything with the table's lock held.

    `sign` makes this peer's own signatures; without it no card is made here.
    """

    def __init__(
        self,
        run: str,
        clock: Callable[[], float],
        sign: Callable[[str, bytes], bytes] | None = None,
        today: Callable[[], float] = time.time,
    ) -> None:
        self._run, self._clock, self._sign, self._today = run, clock, sign, today
        self._known: dict[str, Known] = {}
        self._paces: dict[str, Bucket] = {}
        self._count = 0
        self.version = 0  # grows with every new card

    def share(self, facts: Mapping[str, Any]) -> None:
        """Make this peer's next card; links are left out from the end until it is short enough.

        None is made while those before it came too fast: nobody would take it.
        """
        if self._sign is None or not self._in_time(facts["member"]):
            return
        self._count += 1
        card = {**facts, "n": self._count, "at": round(self._today(), 3)}
        while len(text := json.dumps(card, sort_keys=True)) > LONGEST_CARD and card["links"]:
            card["links"] = card["links"][:-1]
        signature = base64.b64encode(self._sign(_PURPOSE, text.encode())).decode()
        self._keep(Known(text, signature, card, self._clock()))

    def take(
        self, cards: list[tuple[str, str]], roster: Roster
    ) -> list[tuple[str, tuple[int, int]]]:
        """Take cards with their signatures; which of members. `FrameError` if one is forged.

        Cards of others than the roster's members, those that are known, and those of a member that
        makes too many are read past; so are those of other runs, in which a member counts anew:
        shown again, an old one would hide every new one.
        """
        found = [self._take(text, signature, roster) for text, signature in cards]
        return [each for each in found if each is not None]

    def _take(
        self, text: str, signature: str, roster: Roster
    ) -> tuple[str, tuple[int, int]] | None:
        facts = _facts(text)
        member, card = facts["member"], Known(text, signature, facts, self._clock())
        if facts["run"] != self._run or not roster.has(member):
            return None
        known = self._known.get(member)
        newer = known is None or card.order > known.order
        if newer and self._in_time(member):
            try:
                signed = base64.b64decode(signature, validate=True)
            except ValueError:
                signed = b""
            certificate = roster.member(member).certificate.encode()
            if not certificate_verifies(certificate, _PURPOSE, text.encode(), signed):
                self._paces[member].earn(1)  # nobody uses up what another may say
                raise FrameError("card", "its member did not sign it")
            self._keep(card)
        return member, card.order

    def _in_time(self, member: str) -> bool:
        """Whether one more card of this member is taken now."""
        return self._paces.setdefault(member, Bucket(*_PACE)).spare(1, self._clock())

    def missing(self, there: dict[str, tuple[int, int]]) -> bytes:
        """A body with cards that the other side is not known to have; empty if it has all.

        Notes in `there` that it has them.
        """
        pieces, size = list[bytes](), 0
        for member, card in self._known.items():
            if card.order > there.get(member, (-1, -1)):
                piece = json.dumps([card.text, card.signature]).encode()
                size += len(piece) + 2
                if len(pieces) == _MOST or size > LARGEST_BODY[Kind.CARDS]:
                    break
                pieces.append(piece)
                there[member] = card.order
        return b"[" + b", ".join(pieces) + b"]" if pieces else b""

    def all(self, roster: Roster) -> list[tuple[Known, float]]:
        """The newest card of every member of the roster, with its age in seconds.

        The age is by the clock of the member that signed it, but at least the time since it came:
        neither a clock that is ahead nor a restart here makes a card look young.
        """
        self._forget(roster)
        now, today = self._clock(), self._today()
        return [
            (card, max(now - card.came, today - card.facts["at"], 0.0))
            for _, card in sorted(self._known.items())
        ]

    def _keep(self, card: Known) -> None:
        self._known[card.facts["member"]] = card
        self.version += 1

    def _forget(self, roster: Roster) -> None:
        now = self._clock()
        for member, card in list(self._known.items()):
            if now - card.came > _KEPT or not roster.has(member):
                del self._known[member]
        for member in [member for member in self._paces if not roster.has(member)]:
            del self._paces[member]


class Passing:
    """Which cards go over one connection: each once, and those of a second together.

    Hold the table's lock.
    """

    def __init__(self, cards: Cards) -> None:
        self._cards = cards
        self._there: dict[str, tuple[int, int]] = {}  # that the other side is known to have
        self._seen = 0  # the version of our cards when they were last compared with it
        self._giving, self._from = False, -math.inf  # the next ones go from then on

    def has(self, found: list[tuple[str, tuple[int, int]]]) -> None:
        """Note which cards the other side has brought."""
        for member, order in found:
            self._there[member] = max(order, self._there.get(member, order))

    @property
    def due(self) -> float:
        """When to ask for the next body; never, if there is none."""
        return math.inf if self._seen == self._cards.version else self._from

    def body(self, now: float) -> bytes:
        """The next body; empty if there is none now."""
        if now < self.due:
            return b""
        found = self._cards.missing(self._there)
        if not found:
            self._seen = self._cards.version
            self._from = now + _TOGETHER if self._giving else self._from
        self._giving = bool(found)
        return found


def entries(body: bytes) -> list[tuple[str, str]]:
    """The cards and signatures of a frame; `FrameError` if it holds anything else."""
    try:
        found = json.loads(body)
        check_form(found, Each(Each(TEXT)))
        if type(found) is not list:
            raise ValueError("no list")
        pairs = [(text, signature) for text, signature in found]
    except (ValueError, TypeError, RecursionError):
        raise FrameError("card", "not a list of cards") from None
    # A budget counts cards, so that nothing else may come with them.
    if len(pairs) > _MOST or len(body) > 2 + _LONGEST_ENTRY * len(pairs):
        raise FrameError("card", "more than a frame may hold")
    if any(len(signature) > _LONGEST_SIGNATURE for _, signature in pairs):
        raise FrameError("card", "longer than a signature may be")
    return pairs


def _facts(text: str) -> dict[str, Any]:
    if len(text) > LONGEST_CARD or not text.isascii():
        raise FrameError("card", "longer than a card may be")
    try:
        facts = json.loads(text, parse_constant=_refuse)
        check_form(facts, _FORM)
        _check_values(facts)
    except (ValueError, RecursionError):
        raise FrameError("card", "not of the agreed form") from None
    found: dict[str, Any] = facts
    return found


def _check_values(facts: dict[str, Any]) -> None:
    """Refuse, with ValueError, what would spoil a table: it is shown to people, elsewhere."""
    links = facts["links"]
    if type(links) is not list or any(type(link) is not list or len(link) != 2 for link in links):
        raise ValueError("links")
    words = [facts["status"], facts["version"], facts["run"], facts["audit"] or ""]
    words += [word for link in links for word in link]
    numbers = [facts["at"], facts["rounds_per_second"], facts["loss"] or 0.0]
    if (
        max(map(abs, numbers[:2])) > _LARGEST
        or not all(word.isascii() and (word.isprintable() or not word) for word in words)
        or not all(map(math.isfinite, numbers))
    ):
        raise ValueError("values")


def _refuse(word: str) -> float:
    raise ValueError(word)

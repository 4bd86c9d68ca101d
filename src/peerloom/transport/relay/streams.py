"""Streams through a relay: halves that wait for each other by token, and pairs that are joined."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..buckets import Bucket
from ..frames import FrameError
from .joined import End, Joined
from .limits import Limits
from .messages import GO, TOKEN

__all__ = ["Members", "Streams"]

Members = tuple[str, str]  # caller and callee; a newcomer that calls has no id yet


@dataclass(eq=False)
class _Meeting:
    """Two that are to be joined; `ends` fills up as their halves come."""

    members: Members
    until: float
    tokens: tuple[bytes, ...] = ()
    ends: dict[int, End] = field(default_factory=dict)


class Streams:
    """All streams of one relay, open and half open."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.joined: dict[Joined, Members] = {}
        self.bytes = self.total = 0  # copied, joined since the start
        self.tokens: dict[bytes, tuple[_Meeting, int]] = {}
        self._rates: dict[str, Bucket] = {}

    def announce(self, caller: str, callee: str) -> tuple[bytes, bytes]:
        """Tokens for the halves of a stream that both will open, the caller's first."""
        meeting = self._meeting(caller, callee)
        return self._token(meeting, 0), self._token(meeting, 1)

    def visit(self, end: End, host: str) -> bytes:
        """The token for the other half of a newcomer's stream. Refuses one too many."""
        if self.between("", host) >= self._limits.visits:
            raise FrameError("too_many")
        meeting = self._meeting("", host)
        meeting.ends[0] = end
        return self._token(meeting, 1)

    def arrived(self, token: bytes, end: End) -> None:
        """Take half a stream whose token is right. Refuses any other."""
        if token not in self.tokens:
            raise FrameError("wrong_token")
        meeting, side = self.tokens.pop(token)
        meeting.ends[side] = end
        if len(meeting.ends) == 2:
            self._join(meeting)

    def between(self, one: str, other: str) -> int:
        """How many streams these two have, whoever called: joined, or waiting for a half."""
        pair = {one, other}
        waiting = sum(set(meeting.members) == pair for meeting in self._meetings())
        return waiting + sum(set(members) == pair for members in self.joined.values())

    def sweep(self, now: float) -> None:
        """Close what was silent for too long, and forget halves that wait in vain."""
        for meeting in self._meetings():
            if meeting.until < now:
                self._part(meeting)
        for pair in list(self.joined):
            if pair.heard < now - self._limits.silence:
                pair.close("silent")

    def close(self, why: str) -> None:
        """Close all of them."""
        self.restrict(lambda caller, callee: False, lambda who: False, why)

    def restrict(
        self, allowed: Callable[[str, str], bool], known: Callable[[str], bool], why: str
    ) -> None:
        """Close streams of those who may not meet, and forget budgets of those not known."""
        for pair, members in list(self.joined.items()):
            if not allowed(*members):
                pair.close(why)
        for meeting in self._meetings():
            if not allowed(*meeting.members):
                self._part(meeting)
        self._rates = {who: rate for who, rate in self._rates.items() if known(who)}

    def _meetings(self) -> set[_Meeting]:
        return {meeting for meeting, _ in self.tokens.values()}

    def _meeting(self, caller: str, callee: str) -> _Meeting:
        return _Meeting((caller, callee), time.monotonic() + self._limits.token_life)

    def _token(self, meeting: _Meeting, side: int) -> bytes:
        token = secrets.token_bytes(TOKEN)
        self.tokens[token] = (meeting, side)
        meeting.tokens += (token,)
        return token

    def _join(self, meeting: _Meeting) -> None:
        ends = (meeting.ends[0], meeting.ends[1])
        members = meeting.members
        try:
            for end in ends:
                end.write(memoryview(GO))
        except OSError:
            self._part(meeting)
            return

        def ended(why: str) -> None:
            self.joined.pop(pair, None)

        def charge(side: int, count: int) -> float:
            self.bytes += count
            rate = self._limits.rate
            if rate is None:
                return 0.0
            budget = self._rates.setdefault(members[side], Bucket(rate, rate))
            return budget.take(count, time.monotonic())

        pair = Joined(ends, self._limits.chunk, charge, ended)
        self.joined[pair] = members
        self.total += 1

    def _part(self, meeting: _Meeting) -> None:
        """Forget a meeting that does not take place."""
        for token in meeting.tokens:
            self.tokens.pop(token, None)
        for end in meeting.ends.values():
            end.close()

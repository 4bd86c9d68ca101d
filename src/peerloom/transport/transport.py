"""What an engine may ask of a transport, whatever carries the parcels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from ..errors import PeerError
from .roster import Roster
from .types import Gap, LinkState, Mode, Parcel, Receipt, Skipped, Wanted

__all__ = ["Transport"]


class Transport(Protocol):
    """What an engine needs of a transport. `Endpoint` is one, over TLS or any other driver.

    All methods may be called from any thread. Peers are named by their id (see `Roster.member`).
    """

    @property
    def me(self) -> str:
        """The id of this peer."""

    @property
    def roster(self) -> Roster:
        """The roster in use."""

    @property
    def incarnation(self) -> int:
        """How often this peer was started on its state directory."""

    @property
    def wait(self) -> float:
        """A peer whose link is down for this many seconds is no longer waited for."""

    def start(self) -> None:
        """Open the links; returns at once."""

    def close(self) -> None:
        """Say goodbye and end every thread."""

    def together(self) -> AbstractContextManager[None]:
        """Send the parcels of a block when it ends, or when something is waited for."""

    def send(
        self, peer: str, parcel: Parcel, mode: Mode = "ordered", repeat: bool = False
    ) -> Receipt:
        """Queue a parcel for a neighbour; returns at once.

        Without a link the receipt is refused ('no_link').
        'ordered': all arrive, in order, exactly once per process of the receiver. Raises
        `OutboxFullError` if too many wait; a `repeat`, sent before by an earlier process, does not
        count.
        'latest': a parcel that is not yet under way is replaced by the next one of its channel,
        and counted superseded.
        """

    def skip(self, round: int, peer: str | None = None) -> None:
        """Tell a neighbour, or all, that nothing more is sent for rounds up to this one."""

    def withdraw(self, peer: str, before_round: int) -> int:
        """Drop unsent parcels of older rounds (counted superseded); how many there were."""

    def settle(
        self,
        receipts: list[Receipt] | None,
        deadline_seconds: float,
        known: int | None = None,
    ) -> bool:
        """Wait until none of these, or with None nothing, is pending; False at the deadline.

        With `known`, the version of the roster that the caller knows, also False when there is a
        newer one, or when it is `crowded`.
        """

    def take(
        self, peer: str, round: int, mix_index: int, deadline_seconds: float
    ) -> Parcel | Skipped | None:
        """The parcel of this place, once.

        None: it is late, or the link is down for longer than `Settings.wait`. Rounds and their
        mixings are taken in order. What lies before the place asked for is dropped; what arrives
        after None was returned waits in `late`.
        """

    def receive_all(
        self,
        wanted: list[Wanted],
        deadline_seconds: float,
        known: int | None = None,
        paced: bool = False,
        enough: int | None = None,
    ) -> dict[Wanted, Parcel | Skipped | None]:
        """`take` for many at once: returns as soon as each is there, skipped or given up.

        With `known`, the version of the roster that the caller knows, it also returns when there
        is a newer one, or when it is `crowded`: places without an answer are then left out, to be
        asked for again. With `paced`, a peer that was given up before and is behind is given up at
        once where it has done two rounds for each one here since then: it catches up without being
        waited for. Once `enough` parcels are there, those that came first, all others are given up.
        """

    def crowded(self) -> bool:
        """Whether what came late and is not covered leaves a peer no room for what is awaited."""

    def late(self, peer: str) -> list[Parcel]:
        """What came after it was given up, in order, each once."""

    def cover(self, peer: str, count: int) -> None:
        """Give the room of so many late parcels back: they are not needed again.

        Until then they count as untaken, for the sender keeps no more to send again.
        """

    def expect(
        self,
        round: int,
        missed: Mapping[str, Iterable[tuple[int, int]]] | None = None,
        gaps: Mapping[str, Iterable[Gap]] | None = None,
    ) -> None:
        """Go on at this round: older parcels are stale, and neighbours repeat what they retained.

        `missed` are places (round, mix_index) given up by an earlier process, by peer, and `gaps`
        whole stretches of them: what comes for them goes to `late`.
        """

    def expect_late(self, peer: str, gap: Gap) -> None:
        """Go on after a gap in which this peer was not asked for: what it sent then is late."""

    def newest(self, peer: str, channel: int) -> Parcel | None:
        """The newest parcel that came on a channel; it stays there."""

    def wait_for_arrivals(self, seen: int, deadline_seconds: float) -> int:
        """Wait until more than `seen` parcels and skips have arrived in all; the count now.

        Start with 0.
        """

    def links(self) -> list[LinkState]:
        """Every directed link of this peer."""

    def connected(self, peer: str) -> bool:
        """Whether a link with this peer is up."""

    def lost(self, peer: str) -> bool:
        """Whether its link was up and is down, or has been down for longer than `wait`.

        A peer that was not there yet is not lost: it may be starting.
        """

    def refusals(self) -> dict[str, int]:
        """Connections and frames refused here, by reason, peers and strangers together."""

    def share(self, facts: Mapping[str, Any]) -> None:
        """Sign a card with these facts of this peer, and pass it on."""

    def cards(self) -> list[tuple[Mapping[str, Any], float]]:
        """What the newest card of every member says, and its age in seconds."""

    def offered(self) -> Roster | None:
        """A newer roster of the founder that neighbours brought and that waits for `adopt`."""

    def adopt(self, roster: Roster) -> None:
        """Use a newer roster.

        Links of removed members close at once; a new epoch makes all older parcels stale.
        """

    def consider(self, roster: Roster) -> None:
        """Consider a roster that came by another way than the links.

        It is used if it is newer and of this epoch, and offered if it is of a later one. Raises
        `RosterForkError` if it and the one in use cannot both be valid.
        """

    def unasked(self) -> list[str]:
        """Names of neighbours that have not said which roster they have, or not brought it yet."""

    @property
    def roster_unsaved(self) -> bool:
        """Whether the roster in use, or one that was offered, is not on disk."""

    def save_roster(self) -> None:
        """Write down the newest roster if it is not on disk; OSError if that fails.

        Called before every checkpoint, which must not take the room that a roster needs.
        """

    def refuse(self, why: str, detail: str, peer: str = "") -> None:
        """Count and report that something was refused: of a peer, or of this peer's own folder."""

    def closed(self, direction: Literal["in", "out"], peer: str) -> bool:
        """Whether the newest roster has no such link: nothing is sent or awaited there."""

    def raise_if_stopped(self) -> None:
        """Raise what ends this run, if something does: a stop that was requested, or a halt.

        Every wait does so; this is for rounds that wait for nobody.
        """

    def request_stop(self) -> None:
        """Let every wait, now or later, raise `StopRequested`.

        Any thread, or a signal handler, may call this.
        """

    def halt(self, error: PeerError, word: str = "stopped") -> None:
        """Let every wait or send, now or later, raise this error; neighbours hear `word`."""

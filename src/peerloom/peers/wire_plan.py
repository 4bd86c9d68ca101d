"""What a run sends over its links, as every peer derives it from the experiment."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..core import MODELS, Codec, Part
from ..errors import PeerError
from ..experiment import Experiment
from ..runtime import trace
from ..runtime.dry_run import Part as TracedPart
from ..transport import Channel, Settings
from .coded import coded_channel
from .floats import float_channel

__all__ = ["LARGE", "WirePlan"]

CHECKPOINT_EVERY = 50  # rounds, at the most; what neighbours may need of the rounds before is kept,
KEPT_BYTES = 64 << 20  # but never more than this per link
LARGE = 64 << 20  # bytes from which on rows lie in files, where peers wait for each other
AHEAD, AHEAD_LARGE = 8, 2  # parcels that may be on their way to one neighbour
INBOX_LARGE = 2  # parcels of one neighbour that may lie untaken


@dataclass(frozen=True)
class WirePlan:
    """What travels in each mixing of a round, and how peers wait for each other.

    `flows`: models are mixed symmetrically, so peers that do not wait must move differences to keep
    the mean. `keeps_mean`: they must do so also where a message is late, since the rule counts on
    it. `outlasts`: the rule sends models and remembers nothing of its neighbours, so one of them
    may leave for good, and its link is silent from then on. Trackers and copies of neighbours do
    not allow that.
    """

    rule: str
    parts: dict[int, tuple[Part, ...]]
    layers: dict[int, str]  # over which layer of links each mixing goes
    codec: Codec
    dtype: str
    flows: bool
    keeps_mean: bool = False
    outlasts: bool = False
    deadline: float | None = None
    enough: float | None = None  # the share of neighbours with which a round goes on before that
    free: bool = False  # peers wait for nobody
    largest_norm: float | None = None  # longer vectors of neighbours are refused here
    large: int = LARGE  # the same everywhere: neighbours keep what the others may ask for again

    @classmethod
    def of(
        cls,
        exp: Experiment,
        deadline: float | None = None,
        free: bool = False,
        largest_norm: float | None = None,
        enough: float | None = None,
    ) -> WirePlan:
        """Derive the plan from the trace of the experiment's rule."""
        mixings = trace(exp.algorithm).mixings
        parts = {
            mix_index: tuple(_part(part, exp.problem.n) for part in mixing.parts)
            for mix_index, mixing in enumerate(mixings, start=1)
        }
        layers = {mix_index: mixing.layer for mix_index, mixing in enumerate(mixings, start=1)}
        needs = exp.algorithm.needs
        outlasts = needs.links == "any" and needs.accepts == MODELS
        name, travels = type(exp.algorithm).__name__, (parts, layers, exp.message, exp.dtype)
        return cls(
            name,
            *travels,
            needs.symmetric,
            needs.keeps_mean,
            outlasts,
            deadline,
            enough,
            free,
            largest_norm,
        )

    def check_outlasts(self, name: str) -> None:
        """Refuse to go on without a removed peer under a rule that counts on it."""
        if not self.outlasts:
            raise PeerError(
                f"The founder took {name}, or a link with it, from the roster, and {self.rule} "
                "cannot go on without: what it remembers of the others would be wrong from now on. "
                "What this peer has is kept. Agree on an experiment for those who stay (`peerloom "
                "peer roster graph FILE` at the founder) and start that."
            )

    @property
    def mixings(self) -> int:
        """Mixings in a round, at the most."""
        return max(self.parts, default=1)

    @property
    def pushes(self) -> bool:
        """Whether mass travels, which must not be lost."""
        return any(part.pushed for parts in self.parts.values() for part in parts)

    @property
    def channels(self) -> dict[int, Channel]:
        """What may travel: every mixing of a round has its own."""
        if self.free:
            return {
                mix_index: float_channel(
                    "float64",
                    [self.free_width(mix_index)],
                    self.largest_norm,
                    -1,
                    self._models(mix_index),
                )
                for mix_index in self.parts
            }
        return {
            mix_index: coded_channel(self.codec, parts, self.dtype, mix_index, self.largest_norm)
            for mix_index, parts in self.parts.items()
        }

    def free_width(self, mix_index: int) -> int:
        """Numbers of a parcel where peers wait for nobody: flows add what was moved so far."""
        parts = self.parts[mix_index]
        return sum(part.width * (2 if self.flows and not part.pushed else 1) for part in parts)

    def _models(self, mix_index: int) -> list[tuple[int, int]]:
        """Where the models are in a parcel of peers that wait for nobody; the rest are sums."""
        found, at = list[tuple[int, int]](), 0
        for part in self.parts[mix_index]:
            if not part.pushed:
                found.append((at, at + part.width))
            at += part.width * (2 if self.flows and not part.pushed else 1)
        return found

    @property
    def checkpoint_every(self) -> int:
        """Rounds between checkpoints: what neighbours can keep parcels of; 1 with a deadline."""
        if self.deadline is not None or self.maps_rows:
            return 1
        return max(1, min(CHECKPOINT_EVERY, KEPT_BYTES // (2 * self._largest * self.mixings)))

    @property
    def _largest(self) -> int:
        return max(channel.longest for channel in self.channels.values())

    @property
    def maps_rows(self) -> bool:
        """Whether rows lie in files. The running sums of peers that wait for nobody never do."""
        return not self.free and self._largest >= self.large

    @property
    def ahead(self) -> int:
        """Parcels that may be on their way to one neighbour before this peer waits for it.

        One more than the last: under a deadline a parcel that is still on its way when the next
        round begins must not silence the link.
        """
        return AHEAD_LARGE if self.maps_rows else AHEAD

    @property
    def inbox(self) -> int:
        """Parcels of one neighbour that may lie untaken."""
        return INBOX_LARGE if self.maps_rows else 2 * AHEAD

    @property
    def most_owed(self) -> int:
        """Parcels that may wait for what a neighbour sent in the same mixing.

        An honest one that does nothing has acknowledged no more, and the next are on their way.
        """
        return self.inbox + self.ahead

    @property
    def remember(self) -> int:
        """Rounds that a neighbour may be behind.

        The age of its older checkpoint, should the newest be damaged, and what may wait in its
        inbox.
        """
        return 2 * self.checkpoint_every + self.inbox + 2

    @property
    def kept(self) -> int:
        """Acknowledged parcels kept per neighbour, in case it goes back to a checkpoint."""
        return self.remember * self.mixings

    def settings(self, base: Settings) -> Settings:
        """Settings under which a neighbour that starts again gets all that it has not seen.

        A peer that waits for nobody never drives the links itself: they have threads of their own.
        """
        return replace(
            base,
            retain=self.kept,
            outbox=self.kept + 64,
            inbox=INBOX_LARGE if self.maps_rows else base.inbox,
            # Twice what may be on its way: when all of that has come late, the next has room.
            unsaved=2 * self.ahead,
            keeps_late=self.pushes or self.keeps_mean,
            mapped=self.large,
            large=0 if self.free else base.large,
        )


def _part(traced: TracedPart, n: int) -> Part:
    """Return a traced offer for a model of n numbers; which `compress` made it is irrelevant."""
    return Part(traced.width.at(n), traced.pushed, 1 if traced.compressed else None, traced.silent)

"""What a site decides for itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..code import Loader
from ..transport import Settings
from ..transport.outbound import Outbound
from .overview import EVERY, Share

__all__ = ["Site"]


@dataclass(frozen=True)
class Site:
    """What a site decides for itself. Only `free` must be the same everywhere."""

    data: str = ""
    """Its samples: a .csv or .npz file, or module:function."""
    label: str = ""
    """The label's column in a CSV."""
    listen: str = ""
    """Where to listen, host:port; by default the peer's first address, nowhere if it has none."""
    deadline: float | None = None
    """Seconds to wait for a neighbour in a round."""
    enough: float | None = None
    """With a deadline: the share of neighbours with which a round goes on at once."""
    free: bool = False
    """Wait for nobody."""
    settings: Settings = field(default_factory=Settings)
    """Times and limits of the links."""
    history: bool = False
    """Keep every event of every link."""
    metrics: str = ""
    """Serve metrics there, host:port."""
    largest_norm: float | None = None
    """Refuse rows of neighbours whose Euclidean norm exceeds this."""
    pause: int | None = None
    """Stop after this round: where all sites do, their checkpoints make a whole."""
    outbound: Outbound = field(default_factory=Outbound)
    """How to dial out."""
    disk: int | None = None
    """Bytes that the run may take; by default as `site.toml` says, or any number."""
    judged: int | None = 4
    """How many evaluated models are kept, the best and the newest; None keeps all."""
    code: Loader | None = None
    """Loads code that the experiment names; by default as the site's own `site.toml` says."""
    device: str = "cpu"
    """Where gradients are computed; rows stay in the machine's memory."""
    metrics_file: Path | None = None
    """Write metrics there, for a collector that reads files."""
    clock: Callable[[], float] = time.time
    """The time of day, by which rosters expire."""
    share: Share = ""
    """Share this peer's status with all members, or its loss, too; nothing by default."""
    share_every: float = EVERY
    """Seconds between two cards."""

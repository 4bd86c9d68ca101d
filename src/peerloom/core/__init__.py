"""The vocabulary of Peerloom: rows, links, draws, offers, the port and the ledger."""

import warnings

from ..errors import Caution, CheckpointError, ConfigError, DataError, DivergedError, PeerloomError, nearest
from .algorithm import (
    DIFFERENCES,
    MASS,
    MEAN,
    MODELS,
    STEADY,
    Algorithm,
    CyclePlan,
    Plan,
    Requirements,
    check_links,
    check_message,
    check_needs,
)
from .checkpoint import Checkpoint, DamagedError
from .draw import Draws, uniform, words
from .ledger import Ledger
from .network import Links, Network
from .offers import Offer, Packed, average, drift, pull, push, share
from .port import Port
from .ports import (
    Activity,
    Cargo,
    Delivery,
    Evaluation,
    Fit,
    Late,
    LocalProblem,
    MeasuredMessage,
    MemoryWire,
    Message,
    Placement,
    Problem,
    Schedule,
    Trip,
    Wire,
)
from .rates import HasRate, InverseSqrt, Pieces, Rate, check_rate, rate_at
from .rule import RULES, Card, preset, rule

__all__ = [
    "DIFFERENCES",
    "MASS",
    "MEAN",
    "MODELS",
    "RULES",
    "STEADY",
    "Activity",
    "Algorithm",
    "Card",
    "Cargo",
    "Caution",
    "Checkpoint",
    "CheckpointError",
    "ConfigError",
    "CyclePlan",
    "DamagedError",
    "DataError",
    "Delivery",
    "DivergedError",
    "Draws",
    "Evaluation",
    "Fit",
    "HasRate",
    "InverseSqrt",
    "Late",
    "Ledger",
    "Links",
    "LocalProblem",
    "MeasuredMessage",
    "MemoryWire",
    "Message",
    "Network",
    "Offer",
    "Packed",
    "PeerloomError",
    "Pieces",
    "Placement",
    "Plan",
    "Port",
    "Problem",
    "Rate",
    "Requirements",
    "Schedule",
    "Trip",
    "Wire",
    "average",
    "check_links",
    "check_message",
    "check_needs",
    "check_rate",
    "drift",
    "nearest",
    "preset",
    "pull",
    "push",
    "rate_at",
    "rule",
    "share",
    "uniform",
    "words",
]


_RENAMED = {"Needs": "Requirements", "Net": "Port"}  # since Peerloom 0.1; users' rules may import them


def __getattr__(name: str) -> object:
    """The thing that an old name meant, with a warning."""
    if name not in _RENAMED:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    new = _RENAMED[name]
    warnings.warn(f"peerloom.core.{name} is now called {new}: rename it in your rule.", Caution, stacklevel=2)
    return globals()[new]

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
from .codec import Body, Codec, Decoded, Envelope, Fit, envelope_of_rows
from .coded_wire import CodedWire, LocalWire
from .draw import Draws, uniform, words
from .ledger import Ledger
from .network import Links, Network
from .offers import Compressed, Offer, Part, average, drift, pull, push, share
from .port import Port
from .ports import Activity, Evaluation, LocalProblem, Placement, Problem, Schedule
from .rates import HasRate, InverseSqrt, Pieces, Rate, check_rate, rate_at
from .rule import RULES, Card, preset, rule
from .wire import ByteDelivery, ByteWire, Carried, Delivery, LateBody, LateRow, Rows, RowWire, Tag

__all__ = [
    "DIFFERENCES",
    "MASS",
    "MEAN",
    "MODELS",
    "RULES",
    "STEADY",
    "Activity",
    "Algorithm",
    "Body",
    "ByteDelivery",
    "ByteWire",
    "Card",
    "Carried",
    "Caution",
    "Checkpoint",
    "CheckpointError",
    "Codec",
    "CodedWire",
    "Compressed",
    "ConfigError",
    "CyclePlan",
    "DamagedError",
    "DataError",
    "Decoded",
    "Delivery",
    "DivergedError",
    "Draws",
    "Envelope",
    "Evaluation",
    "Fit",
    "HasRate",
    "InverseSqrt",
    "LateBody",
    "LateRow",
    "Ledger",
    "Links",
    "LocalProblem",
    "LocalWire",
    "Network",
    "Offer",
    "Part",
    "PeerloomError",
    "Pieces",
    "Placement",
    "Plan",
    "Port",
    "Problem",
    "Rate",
    "Requirements",
    "RowWire",
    "Rows",
    "Schedule",
    "Tag",
    "average",
    "check_links",
    "check_message",
    "check_needs",
    "check_rate",
    "drift",
    "envelope_of_rows",
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

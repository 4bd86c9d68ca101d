"""The vocabulary of Peerloom: rows, links, draws, offers, the port and the ledger."""

from ..aliases import former_names
from ..errors import (
    Caution,
    CheckpointError,
    ConfigError,
    DataError,
    DivergedError,
    PeerloomError,
    nearest,
)
from .checkpoint import Checkpoint, DamagedError
from .codec import Body, Codec, Decoded, Envelope, Fit, envelope_of_rows
from .coded_wire import CodedWire, LocalWire
from .draw import Draws, uniform, words
from .ledger import Ledger
from .network import Links, Network
from .offers import Compressed, Offer, Part, average, drift, equal_average, pull, push
from .port import Port
from .protocols import Activity, Evaluation, LocalProblem, Placement, Problem, Schedule
from .rates import HasRate, InverseSqrt, Pieces, Rate, check_rate, rate_at
from .registration import REGISTERED, Card, preset, rule
from .rule import (
    DIFFERENCES,
    MASS,
    MEAN,
    MODELS,
    STEADY,
    CyclePlan,
    Plan,
    Requirements,
    Rule,
    check_links,
    check_message,
    check_needs,
)
from .wire import ByteDelivery, ByteWire, Carried, Delivery, LateBody, LateRow, Rows, RowWire, Tag

__all__ = [
    "DIFFERENCES",
    "MASS",
    "MEAN",
    "MODELS",
    "REGISTERED",
    "STEADY",
    "Activity",
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
    "Rule",
    "Schedule",
    "Tag",
    "average",
    "check_links",
    "check_message",
    "check_needs",
    "check_rate",
    "drift",
    "envelope_of_rows",
    "equal_average",
    "nearest",
    "preset",
    "pull",
    "push",
    "rate_at",
    "rule",
    "uniform",
    "words",
]

# Since Peerloom 0.1; users' rules may import them.
__getattr__ = former_names(
    __name__,
    {"Algorithm": "Rule", "Needs": "Requirements", "Net": "Port", "share": "equal_average"},
)

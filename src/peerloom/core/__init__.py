"""The vocabulary of Peerloom: rows, links, draws, offers, the port and the ledger."""

from ..errors import Caution, ConfigError, DataError, DivergedError, PeerloomError, nearest
from .algorithm import Algorithm, CyclePlan, Needs, Plan, check_needs
from .draw import Draws, uniform, words
from .ledger import Ledger
from .net import Net
from .network import Links, Network
from .offers import Offer, Packed, average, pull, push, share
from .ports import (
    Activity,
    Delivery,
    Evaluation,
    Fit,
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

__all__ = [
    "Activity",
    "Algorithm",
    "Caution",
    "ConfigError",
    "CyclePlan",
    "DataError",
    "Delivery",
    "DivergedError",
    "Draws",
    "Evaluation",
    "Fit",
    "HasRate",
    "InverseSqrt",
    "Ledger",
    "Links",
    "LocalProblem",
    "MeasuredMessage",
    "MemoryWire",
    "Message",
    "Needs",
    "Net",
    "Network",
    "Offer",
    "Packed",
    "PeerloomError",
    "Pieces",
    "Placement",
    "Plan",
    "Problem",
    "Rate",
    "Schedule",
    "Trip",
    "Wire",
    "average",
    "check_needs",
    "check_rate",
    "nearest",
    "pull",
    "push",
    "rate_at",
    "share",
    "uniform",
    "words",
]

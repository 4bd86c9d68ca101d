"""Who computes and which links fire, as pure functions of the round."""

from ..core import Schedule
from . import distributions
from .bernoulli import Bernoulli, BernoulliActivity
from .fixed import Always, Cycle, Every, Explicit
from .hub_rounds import HubRounds
from .measured import NOTHING_TO_MEASURE, Measured, from_seconds, is_measured, with_measured
from .participation import Participation
from .planned import check_settings_act, plan_of, planned
from .random_links import Epidemic, OneEdge, OneNode, OnePeer, RandomPairs
from .refresh import Refresh
from .replay import Record, Replay
from .sampled import Sampled, Split
from .waiting import Waiting

__all__ = [
    "NOTHING_TO_MEASURE",
    "SCHEDULES",
    "Always",
    "Bernoulli",
    "BernoulliActivity",
    "Cycle",
    "Epidemic",
    "Every",
    "Explicit",
    "HubRounds",
    "Measured",
    "OneEdge",
    "OneNode",
    "OnePeer",
    "Participation",
    "RandomPairs",
    "Record",
    "Refresh",
    "Replay",
    "Sampled",
    "Split",
    "Waiting",
    "check_settings_act",
    "distributions",
    "from_seconds",
    "is_measured",
    "plan_of",
    "planned",
    "with_measured",
]

SCHEDULES: dict[str, type[Schedule]] = {
    "Always": Always,
    "Bernoulli": Bernoulli,
    "Cycle": Cycle,
    "Epidemic": Epidemic,
    "Every": Every,
    "Explicit": Explicit,
    "HubRounds": HubRounds,
    "OneEdge": OneEdge,
    "OneNode": OneNode,
    "OnePeer": OnePeer,
    "Participation": Participation,
    "RandomPairs": RandomPairs,
    "Refresh": Refresh,
    "Replay": Replay,
    "Sampled": Sampled,
    "Split": Split,
    "Waiting": Waiting,
    "measured": Measured,
}

"""Who computes and which links fire, as pure functions of the round."""

from ..core import Schedule
from . import laws
from .bernoulli import Bernoulli, BernoulliActivity
from .fixed import Always, Cycle, Every, Explicit
from .hub_rounds import HubRounds
from .planned import planned
from .random_links import Epidemic, OneEdge, OneNode, OnePeer
from .replay import Record, Replay
from .sampled import Sampled, Split
from .waiting import Waiting

__all__ = [
    "SCHEDULES",
    "Always",
    "Bernoulli",
    "BernoulliActivity",
    "Cycle",
    "Epidemic",
    "Every",
    "Explicit",
    "HubRounds",
    "OneEdge",
    "OneNode",
    "OnePeer",
    "Record",
    "Replay",
    "Sampled",
    "Split",
    "Waiting",
    "laws",
    "planned",
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
    "Replay": Replay,
    "Sampled": Sampled,
    "Split": Split,
    "Waiting": Waiting,
}

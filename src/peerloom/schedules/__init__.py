"""Who computes and which links fire, as pure functions of the round."""

from ..core import Schedule
from . import laws
from .bernoulli import Bernoulli, BernoulliActivity
from .fixed import Always, Cycle, Every, Explicit
from .hub_rounds import HubRounds
from .planned import planned
from .random_links import Epidemic, OneEdge, OnePeer
from .sampled import Sampled, Split

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
    "OnePeer",
    "Sampled",
    "Split",
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
    "OnePeer": OnePeer,
    "Sampled": Sampled,
    "Split": Split,
}

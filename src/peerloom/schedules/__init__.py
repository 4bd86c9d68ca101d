"""Who computes and which links fire, as pure functions of the round."""

from ..core import Schedule
from . import laws
from .bernoulli import Bernoulli, BernoulliActivity
from .fixed import Always, Cycle, Every, Explicit
from .hub_rounds import HubRounds
from .planned import planned
from .sampled import Sampled, Split

__all__ = [
    "SCHEDULES",
    "Always",
    "Bernoulli",
    "BernoulliActivity",
    "Cycle",
    "Every",
    "Explicit",
    "HubRounds",
    "Sampled",
    "Split",
    "laws",
    "planned",
]

SCHEDULES: dict[str, type[Schedule]] = {
    "Always": Always,
    "Bernoulli": Bernoulli,
    "Cycle": Cycle,
    "Every": Every,
    "Explicit": Explicit,
    "HubRounds": HubRounds,
    "Sampled": Sampled,
    "Split": Split,
}

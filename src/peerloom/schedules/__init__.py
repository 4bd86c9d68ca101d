"""Who computes and which links fire, as pure functions of the round."""

from ..core import Schedule
from . import laws
from .bernoulli import Bernoulli, BernoulliActivity
from .fixed import Always, Cycle, Every, Explicit
from .planned import planned

__all__ = ["SCHEDULES", "Always", "Bernoulli", "BernoulliActivity", "Cycle", "Every", "Explicit", "laws", "planned"]

SCHEDULES: dict[str, type[Schedule]] = {
    "Always": Always,
    "Bernoulli": Bernoulli,
    "Cycle": Cycle,
    "Every": Every,
    "Explicit": Explicit,
}

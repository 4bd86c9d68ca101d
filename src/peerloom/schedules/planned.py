"""How a preset uses the schedule it is given (see `core.Plan`)."""

from __future__ import annotations

from dataclasses import replace

from ..core import Plan, Schedule
from .bernoulli import Bernoulli, has_coins
from .fixed import Always, Cycle

__all__ = ["planned"]


def planned(schedule: Schedule, plan: Plan) -> Schedule:
    """The schedule that runs, when a rule with this plan is given this one."""
    if plan.cycle is not None and isinstance(schedule, Always | Bernoulli):
        return Cycle.planned(plan.cycle, resources=schedule)
    if not isinstance(schedule, Bernoulli):
        return schedule
    return replace(
        schedule,
        nodes=1.0 if plan.nodes == "always" and has_coins(schedule.nodes) else schedule.nodes,
        links=1.0 if plan.links == "always" and has_coins(schedule.links) else schedule.links,
    )

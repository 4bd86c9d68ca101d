"""How a preset uses the schedule it is given (see `core.Plan`)."""

from __future__ import annotations

from dataclasses import replace

from ..core import Plan, Schedule
from .bernoulli import Bernoulli, has_coins
from .fixed import Always, Cycle, Every
from .hub_rounds import HubRounds

__all__ = ["planned"]


def planned(schedule: Schedule, plan: Plan, resources: Schedule | None = None) -> Schedule:
    """Return the schedule that runs when a rule with this plan is given this one."""
    free = isinstance(schedule, Always) or (
        isinstance(schedule, Bernoulli) and has_coins(schedule.nodes) and has_coins(schedule.links)
    )
    if plan.cycle is not None and free:
        return Cycle.planned(plan.cycle, resources=resources or schedule)
    if isinstance(schedule, Always) and plan.quiet_start:
        return Every(1)
    if isinstance(schedule, HubRounds) and plan.nodes == "always":
        return replace(schedule, nodes=1.0)
    if not isinstance(schedule, Bernoulli):
        return schedule
    return replace(
        schedule,
        nodes=1.0 if plan.nodes == "always" and has_coins(schedule.nodes) else schedule.nodes,
        links=1.0 if plan.links == "always" and has_coins(schedule.links) else schedule.links,
    )

"""How a preset uses the schedule it is given (see `core.Plan`)."""

from __future__ import annotations

from copy import copy
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

from ..core import ConfigError, Plan, Rule, Schedule
from .bernoulli import Bernoulli, has_coins
from .fixed import Always, Cycle, Every
from .hub_rounds import HubRounds
from .measured import Measured
from .refresh import Refresh
from .replay import Replay
from .sampled import Split

__all__ = ["check_settings_act", "plan_of", "planned"]


def plan_of(rule: Rule) -> Plan:
    """How a rule uses the schedule it is given; as it is, where the rule says nothing."""
    return getattr(rule, "plan", Plan())


def planned(schedule: Schedule, plan: Plan, resources: Schedule | None = None) -> Schedule:
    """Return the schedule that runs when a rule with this plan is given this one."""
    if plan.cycle is not None and _leaves_periods_open(schedule):
        return Cycle.planned(plan.cycle, resources=resources or schedule)
    if plan.refresh is not None:
        nodes = Refresh(plan.refresh, resources=resources or schedule)
        return nodes if _leaves_periods_open(schedule) else Split(nodes, schedule)
    if isinstance(schedule, Always) and plan.quiet_start:
        return Every(1)
    if isinstance(schedule, HubRounds) and plan.nodes == "always":
        return replace(schedule, nodes=1.0)
    if not isinstance(schedule, Bernoulli):
        return schedule
    all_compute = plan.nodes == "always" and has_coins(schedule.nodes)
    return replace(
        schedule,
        nodes=1.0 if all_compute else schedule.nodes,
        nodes_follow=None if all_compute else schedule.nodes_follow,
        links=1.0 if plan.links == "always" and has_coins(schedule.links) else schedule.links,
    )


def check_settings_act(rule: Rule, schedule: Schedule) -> None:
    """Refuse settings that act through a rule's cycle where the schedule leaves it no say.

    So are those that act where a client skips a round (`for_skippers`), where the plan lets none.
    A replay repeats what fired in a run under these very settings, so they may stand.
    """
    _check_someone_skips(rule, schedule)
    if _leaves_periods_open(schedule) or isinstance(schedule, Measured | Replay):
        return
    if plan_of(rule).cycle is None or not (idle := _settings_of_plan(rule)):
        return
    given = " and ".join(f"{name} = {value!r}" for name, value in idle.items())
    them = "it" if len(idle) == 1 else "them"
    raise ConfigError(
        f"{type(rule).__name__} has {given}, which would have no effect: the schedule "
        f"{type(schedule).__name__} says itself when links fire. Leave {them} out, or give the "
        "schedule Always, or Bernoulli with probabilities."
    )


def _check_someone_skips(rule: Rule, schedule: Schedule) -> None:
    plan, names = plan_of(rule), getattr(rule, "for_skippers", ())
    if plan.cycle is not None:
        always = plan.cycle.sgd_while_aggregating and _leaves_periods_open(schedule)
    else:
        coins = isinstance(schedule, Bernoulli) and has_coins(schedule.nodes)
        always = plan.nodes == "always" and (coins or isinstance(schedule, Always))
    if not always:
        return
    known: Any = rule
    for field in fields(known):
        value = getattr(rule, field.name)
        if field.name in names and value != field.default:
            raise ConfigError(
                f"{type(rule).__name__}.{field.name} = {value!r} would have no effect: it is for "
                "clients that skip rounds, and under this rule all compute in every round. Leave "
                "it out, or use SpodGT or SporadicKGT."
            )


def _leaves_periods_open(schedule: Schedule) -> bool:
    """Whether a schedule only says who is able to act, so that a cycle may say when."""
    return isinstance(schedule, Always) or (
        isinstance(schedule, Bernoulli) and has_coins(schedule.nodes) and has_coins(schedule.links)
    )


def _settings_of_plan(rule: Rule) -> dict[str, Any]:
    """The settings of a rule without which its plan would be another."""
    found: dict[str, Any] = {}
    known: Any = rule
    for field in fields(known) if is_dataclass(known) else ():
        if field.default is not MISSING:
            without = copy(rule)
            object.__setattr__(without, field.name, field.default)
            if plan_of(without) != plan_of(rule):
                found[field.name] = getattr(rule, field.name)
    return found

"""How often links fire and clients compute under the schedule that really runs."""

from __future__ import annotations

from ..core import Draws
from ..experiment import Experiment
from ..schedules.rates import ActivityRates, Span, rates_of

__all__ = ["OBSERVED", "ActivityRates", "activity_rates"]

OBSERVED = 200  # first rounds that are looked at where a schedule cannot be put in numbers


def activity_rates(exp: Experiment, start: int = 1) -> ActivityRates:
    """The rates of an experiment's schedule, with the probabilities in force in round `start`."""
    span = Span(start, min(OBSERVED, exp.rounds))
    return rates_of(exp.active_schedule, exp.graph, Draws(exp.seed), span)

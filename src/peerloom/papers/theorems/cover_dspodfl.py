"""DSpodFL's theorems against a run, and the exact floor where there is one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ...core import InverseSqrt, Rate, largest_rate
from ...experiment import Experiment
from ...problems.properties import properties_of
from ...theory.activity_rates import ActivityRates
from ...theory.bound import Bound
from ...theory.constants import Constants, quadratics_of
from ...theory.contraction import Contraction
from ...theory.coverage import Coverage
from ...theory.exact import Floor, Linear
from . import dspodfl
from . import dspodfl_nonconvex as nonconvex

__all__ = ["cover", "exact_floor"]

_EXACT_UP_TO = 40  # numbers in all models together, up to which floors are exact


def cover(exp: Experiment, rates: ActivityRates, mixing: Contraction, k: Constants) -> Coverage:
    """Theorem 4.11 (strongly convex) if it applies, else 4.12 (non-convex), else what fails.

    A step that shrinks is held to appendices I and K instead.
    """
    rule: Any = exp.algorithm
    alpha = largest_rate(rule.lr, exp.rounds)
    found, largest = exact_floor(exp, rates) or (None, None)
    both = "DSpodFL, Theorems 4.11 and 4.12"
    if rates.cycle:
        why = (
            "clients and links follow a cycle, where the theorems want coins: between talks "
            "rho tilde is 1"
        )
        return Coverage(both, False, (why,), alpha)
    rising = rates.nodes_follow is not None
    if mixing.per_round is None or rates.coins is None or not (rates.fair or rising):
        return Coverage(both, False, ("links or clients are not independent coins",), alpha)
    if mixing.per_round >= 1 - 1e-12:
        return Coverage(both, False, ("disagreement does not shrink (rho tilde = 1)",), alpha)
    s = dspodfl.Setting(
        exp.graph.clients,
        mixing.per_round,
        k.smoothness.value,
        k.convexity.value,
        k.slope.value,
        k.diversity.value,
        k.noise.value,
        float(rates.nodes.min()),
        1.0 if rising else float(rates.nodes.max()),
    )
    if not math.isfinite(s.beta):
        fails = ["the losses are not smooth"] + (
            [] if s.mu > 0 else ["they are not strongly convex"]
        )
        return Coverage(both, False, tuple(fails), alpha)
    if isinstance(rule.lr, Rate):
        return _diminishing(s, alpha, rule.lr, rates.nodes_follow)
    return replace(_constant(s, alpha, k.gradient.value), exact=found, exact_step=largest)


def _constant(s: dspodfl.Setting, alpha: float, gradient: float) -> Coverage:
    step, fails = dspodfl.convex_step(s), []
    if s.mu > 0:
        if step.truth is not None and alpha < step.truth:
            error, apart = dspodfl.convex_gap(s, alpha)
            floor = {
                "|mean model - optimum|^2": error.truth or 0.0,
                "consensus": (apart.truth or 0.0) / s.m,
            }
            notes = (
                ()
                if step.holds
                else (f"by the recursion itself; the printed bound does not apply: {step.why}",)
            )
            title = "DSpodFL, Theorem 4.11 (strongly convex)"
            return Coverage(title, True, (), alpha, step.printed, step.truth, floor, notes=notes)
        fails.append(f"Theorem 4.11: {_why_not(step, alpha)}")
    # The non-convex theorem words diversity as |grad F_i| <= delta + zeta |grad F|: ours with zeta
    # = 1, or with zeta = 0 and the largest gradient for delta, which may leave a floor above that
    # gradient, and so say nothing.
    for even in (replace(s, zeta=1.0), replace(s, zeta=0.0, delta=gradient)):
        rough = nonconvex.nonconvex_step(even)
        if rough.printed is None or alpha >= rough.printed:
            fails.append(f"Theorem 4.12 with zeta = {even.zeta:g}: {_why_not(rough, alpha)}")
            continue
        left = nonconvex.nonconvex_gap(even, alpha).best or 0.0
        if left < gradient**2 or gradient == 0:
            title = "DSpodFL, Theorem 4.12 (non-convex)"
            return Coverage(
                title, True, (), alpha, rough.printed, None, {"mean |gradient|^2": left}
            )
        vacuous = (
            f"its floor of |gradient|^2, {left:.3g}, exceeds the largest there is, "
            f"{gradient**2:.3g}"
        )
        fails.append(f"Theorem 4.12 with zeta = {even.zeta:g}: {vacuous}")
    printed, allowed = (step.printed, step.truth) if s.mu > 0 else (rough.printed, None)
    return Coverage("DSpodFL", False, tuple(fails), alpha, printed, allowed)


def _diminishing(
    s: dspodfl.Setting, alpha: float, rate: Any, nodes_follow: Rate | None
) -> Coverage:
    title = "DSpodFL, appendices I and K (diminishing step)"
    found = (
        nonconvex.diminishing_convex_step(s, alpha)
        if s.mu > 0
        else nonconvex.diminishing_step(s, alpha)
    )
    fails = [] if found.holds else [found.why]
    if s.d_min < 1 and nodes_follow is None:
        fails.append(
            "they let every client's probability rise to 1 as steps shrink; here it stays below 1 "
            "(Bernoulli.nodes_follow lets it rise)"
        )
    elif s.d_min < 1 and not _alike(rate, nodes_follow):
        fails.append("clients' probabilities rise with another rate than that of the steps")
    if not isinstance(rate, InverseSqrt):
        fails.append("they are for steps that shrink like 1 / sqrt(1 + k / gamma)")
    return Coverage(title, not fails, tuple(fails), alpha, found.printed, found.truth)


def _alike(rate: Any, other: Any) -> bool:
    """Whether two rates shrink alike, wherever they start."""
    both = isinstance(rate, InverseSqrt) and isinstance(other, InverseSqrt)
    return both and rate.gamma == other.gamma


def _why_not(step: Bound, alpha: float) -> str:
    if step.why and (step.printed is None or step.truth is None):
        return step.why
    limit = step.truth if step.truth is not None else step.printed
    return f"the step {alpha:.3g} is not below {limit:.3g}" + (
        f"; {step.why}" if step.why and not step.holds else ""
    )


def exact_floor(exp: Experiment, rates: ActivityRates) -> tuple[Floor | None, float] | None:
    """Where DSpodFL settles on small quadratics, and the largest step for which it does.

    For exact gradients or normal noise; None where the run is not of that kind.
    """
    rule: Any = exp.algorithm
    facts = properties_of(exp.problem, exp.graph.clients, exp.seed)
    square = quadratics_of(facts, exp.graph.clients, exp.problem.n)
    steady = facts.full_batch or facts.noise is not None
    if square is None or not steady or square[1].size > _EXACT_UP_TO or isinstance(rule.lr, Rate):
        return None
    if (
        rates.coins is None
        or rates.common_period > 1
        or not rates.fair
        or exp.message.fit != "whole"
    ):
        return None
    A, b = square
    if np.linalg.matrix_rank(A.mean(axis=0)) < exp.problem.n:
        return None
    noise = facts.noise or 0.0
    coins = rates.coins["peers"]

    def model(alpha: float) -> Linear:
        return Linear(exp.graph.peers, coins, A, b, rates.nodes, alpha, noise)

    low, high = 0.0, 4 / float(np.linalg.eigvalsh(A).max())
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if model(middle).settles() else (low, middle)
    return model(float(rule.lr)).floor(), low

"""The theorems of Spod-GT, MLL-SGD, DEPOSITUM and PaME against a run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core import Rate, largest_rate
from ...experiment import Experiment
from ...problems.properties import properties_of
from ...theory.activity_rates import ActivityRates
from ...theory.constants import Constants
from ...theory.contraction import Contraction, hub_matrix
from ...theory.coverage import Coverage, step_of
from ...theory.matrices import expected, second_modulus
from ...theory.rule_facts import carried_share
from . import depositum, mll_sgd, pame
from . import spod_gt_recursion as recursion
from .spod_gt import Mixing

__all__ = ["cover_depositum", "cover_mll_sgd", "cover_nids", "cover_pame", "cover_spod_gt"]

_UTILITY_UP_TO = 120  # clients for whom Spod-GT's edge utility is counted


def cover_spod_gt(
    exp: Experiment, rates: ActivityRates, mixing: Contraction, k: Constants
) -> Coverage:
    """Spod-GT, Theorem 4.10: on any real network it wants links that all but always fire."""
    rule: Any = exp.algorithm
    title, m = "Spod-GT, Theorem 4.10", exp.graph.clients
    own = rule.lr if isinstance(rule.lr, tuple) else (rule.lr,)
    eta = np.broadcast_to([largest_rate(one, exp.rounds) for one in own], m)
    fails = [] if math.isfinite(k.smoothness.value) else ["the losses are not smooth"]
    if rule.skip == "hold":
        fails.append('skip="hold" keeps old gradients, which the theorem does not know')
    if any(isinstance(one, Rate) for one in own):
        fails.append("the step changes, and the theorem wants a constant one")
    if rates.nodes_follow is not None:
        fails.append("clients' probabilities rise, and the theorem wants constant ones")
    if rates.cycle or rates.coins is None:
        fails.append("links are not independent coins in every round")
        return Coverage(title, False, tuple(fails), float(eta.max()))
    if mixing.per_round is None or mixing.per_round >= 1 - 1e-12:
        fails.append("disagreement does not shrink")
        return Coverage(title, False, tuple(fails), float(eta.max()))
    if m > _UTILITY_UP_TO:
        fails.append(f"not checked further: counting paths over {m:,} clients takes too long")
        return Coverage(title, False, tuple(fails), float(eta.max()))
    net = Mixing(exp.graph.peers, rates.coins["peers"])
    fails += _links_that_fail(net)
    if not math.isfinite(k.smoothness.value):
        return Coverage(title, False, tuple(fails), float(eta.max()))
    who = _clients(exp, rates, k)
    step = recursion.step_bound(net, who)
    exact = f"at most {net.trackers().truth:.4g} of the trackers' squared error, exactly"
    notes = [f"a round leaves {exact}"]
    if step.truth is not None and eta.max() >= step.truth:
        fails.append(f"Proposition 4.8: the step {eta.max():.3g} is not below {step.truth:.3g}")
    if not fails:
        checks = recursion.participation(net, who, eta, np.full(m, math.inf))
        fails += [
            f"Proposition 4.9: {one.why}"
            for name, one in checks.items()
            if not one.holds and name != "batch"
        ]
    floor = None
    if not fails:
        gap = recursion.final_bound(net, who, float(eta.max()), 10**18, 0.0)
        floor = {"mean |gradient|^2": gap.best or 0.0}
        notes.append(
            "the paper's recursion drops terms of its own lemmas; its floor is reported, not proved"
        )
    run = float(eta.max())
    return Coverage(
        title, not fails, tuple(fails), run, step.printed, step.truth, floor, notes=tuple(notes)
    )


def _links_that_fail(net: Mixing) -> list[str]:
    """What Proposition 4.9 and Lemma B.4 want of the links, where these do not have it."""
    fails = []
    if net.ph.min() < 1:
        sure = min(net.least_probability())
        fails.append(
            "Proposition 4.9 wants every link to fire with a probability of at least 1 - "
            f"10^{sure:.1f}; the least is {net.ph.min():.3g}"
        )
    both = (net.models(), net.trackers())
    return fails + [f"Lemma B.4: {one.why}" for one in both if not one.holds]


def _clients(exp: Experiment, rates: ActivityRates, k: Constants) -> recursion.Clients:
    """The clients of Spod-GT's theorem, with |grad F_i|^2 <= 2 delta^2 + 2 |grad F|^2.

    k.noise is that of the noisiest batch; larger ones have less.
    """
    m = exp.graph.clients
    found = properties_of(exp.problem, m, exp.seed).noise_shares
    shares = np.ones(m) if found is None else found()
    less = np.sqrt(shares / max(shares.max(), 1e-300))
    alike = 1.0 if k.diversity.value == 0 else math.sqrt(2)
    return recursion.Clients(
        p=rates.nodes,
        L=np.full(m, k.smoothness.value),
        sigma0=k.noise.value * less,
        sigma1=np.zeros(m),
        delta0=np.full(m, math.sqrt(2) * k.diversity.value),
        delta1=np.full(m, alike),
        e=np.ones(m),
    )


def cover_mll_sgd(
    exp: Experiment, rates: ActivityRates, mixing: Contraction, k: Constants
) -> Coverage:
    """MLL-SGD, Theorem 1: condition (12), and data that look alike."""
    rule: Any = exp.algorithm
    title = "MLL-SGD, Theorem 1"
    eta = largest_rate(rule.lr, exp.rounds)
    if rates.coins is None or any(p.min(initial=1.0) < 1 for p in rates.coins.values()):
        why = "layers do not fire at fixed intervals, as under HubRounds, so there are no tau and q"
        return Coverage(title, False, (why,), eta)
    tau = rates.period["up"]
    q = rates.period["across"] // tau
    given = exp.graph.recipe.get("weights")
    w = np.ones(exp.graph.clients) if given is None else np.asarray(given, np.float64)
    s = mll_sgd.Setting(
        mll_sgd.zeta(*hub_matrix(exp)),
        tau,
        q,
        w / w.sum(),
        rates.nodes,
        k.smoothness.value,
        k.noise.value,
    )
    step = mll_sgd.step(s)
    fails = (
        []
        if k.alike
        else ["workers' data differ, and the theorem wants every gradient unbiased for the whole"]
    )
    if isinstance(rule.lr, Rate):
        fails.append("the step changes, and the theorem wants a constant one")
    if step.truth is None:
        fails.append(f"condition (12): {step.why}")
    elif eta > step.truth:
        fails.append(f"condition (12): the step {eta:.3g} exceeds {step.truth:.3g}")
    floor = None if fails else {"mean |gradient|^2": mll_sgd.gap(s, eta).printed or 0.0}
    return Coverage(title, not fails, tuple(fails), eta, step.printed, step.truth, floor)


def cover_depositum(
    exp: Experiment, rates: ActivityRates, mixing: Contraction, k: Constants
) -> Coverage:
    """DEPOSITUM, Theorem 1: its limits of alpha and beta."""
    rule: Any = exp.algorithm
    title, n, L = "DEPOSITUM, Theorem 1", exp.graph.clients, k.smoothness.value
    links, T0 = exp.graph.peers, rates.period["peers"]
    if rates.coins is None or rates.coins["peers"].min(initial=1.0) < 1 or rates.nodes.min() < 1:
        return Coverage(
            title,
            False,
            ("clients or links are sporadic; it wants all of them, every T0 rounds",),
            rule.alpha,
        )
    lam = second_modulus(expected(links, np.ones(len(links))))
    rho = properties_of(exp.problem, n, exp.seed).weak_convexity
    alphas = depositum.alpha_limit(L, rule.gamma, rho, rule.nesterov)
    betas = depositum.beta_limit(n, lam, T0, rule.gamma, rule.alpha * rho, rule.nesterov)
    fails = []
    if alphas.printed is None or rule.alpha > alphas.printed:
        fails.append(
            f"alpha = {rule.alpha:.3g} exceeds {alphas.printed:.3g}"
            if alphas.printed
            else alphas.why
        )
    if betas.truth is None or rule.beta > betas.truth:
        fails.append(
            f"beta = {rule.beta:.3g} exceeds {betas.truth:.3g} (the printed limit is "
            f"{betas.printed:.3g})"
            if betas.truth is not None and betas.printed is not None
            else betas.why
        )
    floor = None
    if not fails:
        gap = depositum.theorem(
            n,
            lam,
            T0,
            rule.alpha,
            rule.beta,
            10**18,
            0.0,
            k.noise.value,
            gamma=rule.gamma,
            rho=rho,
            L=L,
            nesterov=rule.nesterov,
        )
        floor = {"stationarity per client": gap.best or 0.0}
    notes: tuple[str, ...] = ()
    if rule.beta != 1:
        times = f"{rule.beta:g} times the mean gradient"
        notes = (f"with beta = {rule.beta:g} the proof's mean tracker is {times}",)
    return Coverage(
        title, not fails, tuple(fails), rule.alpha, alphas.printed, None, floor, notes=notes
    )


def cover_pame(
    exp: Experiment, rates: ActivityRates, mixing: Contraction, k: Constants
) -> Coverage:
    """PaME, Theorems 2 to 4: a regular graph, not bipartite, and growth below what C_1 allows."""
    rule: Any = exp.algorithm
    title, links = "PaME, Theorems 2 to 4", exp.graph.peers
    share = carried_share(exp)
    share = 1.0 if share is None else float(np.min(share))
    if rates.sampling is not None:
        heard, kappa = rates.sampling.heard["peers"], int(rates.sampling.period.max())
    elif rates.coins is not None and rates.coins["peers"].min(initial=1.0) == 1:
        heard, kappa = links.in_degree, rates.period["peers"]
    else:
        why = "it wants neighbours that are drawn evenly, as Sampled does without resources"
        return Coverage(title, False, (why,))
    # Of settings that differ the paper takes the least: min sigma_i, min gamma_i, min s_i.
    sigma, growth = float(np.min(rule.sigma)), float(np.min(rule.growth))
    limit = pame.growth(links, heard, share, kappa)
    fails = [] if limit.holds else [limit.why]
    if growth <= 1:
        fails.append("growth = 1 keeps the step constant, and the theorems want it to shrink")
    elif limit.truth is not None and growth >= limit.truth:
        fails.append(f"growth = {growth:g} is not below {limit.truth:.5g}")
    t = int(heard.min())
    path = pame.path_length(sigma, growth, t)
    notes = ["they say that models converge geometrically, not that the limit is a minimum"]
    if math.isfinite(path):
        notes.append(
            f"all steps together sum to at most {path:.3g}, so no model gets further than that "
            "times its gradients"
        )
    step = 1 / (sigma * t)
    return Coverage(title, not fails, tuple(fails), step, growth=limit.truth, notes=tuple(notes))


def cover_nids(
    exp: Experiment, rates: ActivityRates, mixing: Contraction, k: Constants
) -> Coverage:
    """NIDS allows steps below 2 / L whatever the graph (Li, Shi and Yan 2019)."""
    why = "NIDS is not their rule, and of its own theory only the step is built in"
    limit = 2 / k.smoothness.value if math.isfinite(k.smoothness.value) else None
    return Coverage("None of the five papers", False, (why,), step_of(exp), printed=limit)

"""LocalSGDM, LocalAdamW and DAdam: plain loops from their equations, and torch.optim itself."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom import codecs, graphs
from peerloom.core import ConfigError, Draws, rates_at
from peerloom.core.rates import Cosine, Pieces, Warmup
from peerloom.experiment import Experiment
from peerloom.problems import Classification
from peerloom.rules import DSGD, DAdam, DFedAvgM, LocalAdamW, LocalSGDM
from peerloom.runtime import build_port, iterate
from peerloom.schedules import Bernoulli, distributions
from peerloom.testing import check_rule
from tests.builders import check_refuses_unequal_links, experiment, final, paths, quadratic, starts
from tests.oracles import check_runs_agree, check_states, fired_matrix, gradient, metropolis

COINS = Bernoulli(nodes=distributions.Uniform(), links=distributions.Beta(0.5, 0.5))
SILENT = Bernoulli(nodes=0.6, links=0.0)
GRAPH = graphs.geometric(6, radius=0.5, seed=1)
OWN = (0.1, Cosine(0.2, rounds=9, end=0.02), 0.05, Pieces((0.1, 0.01), (1, 5)), 0.1, Warmup(4, 0.3))


def sporadic(rule, schedule=COINS, **options):
    """A run in which clients and links act by chance."""
    options = {"rounds": 14, "problem": quadratic(6), "x0": starts(6), **options}
    return experiment(GRAPH, rule, schedule=schedule, **options)


def mixed(rows, R, fired):
    """x_i + sum_j r_ij vhat_ij (x_j - x_i), for lists of numbers."""
    m, n = len(rows), len(rows[0])
    return [
        [
            rows[i][c]
            + sum(R[i][j] * (rows[j][c] - rows[i][c]) for j in range(m) if j != i and fired[i][j])
            for c in range(n)
        ]
        for i in range(m)
    ]


def rounds_of(exp):
    """t, who computes, which links fire, and every client's step, round by round."""
    activity, m = exp.schedule.bind(exp.graph, Draws(exp.seed)), exp.graph.rows
    for t in itertools.count(1):
        lr = rates_at(exp.algorithm.lr, t)
        yield (
            activity.nodes(t),
            fired_matrix(exp.graph, activity.links(t, "peers")),
            lr if isinstance(lr, list) else [lr] * m,
        )


def adamw_in_loops(exp):
    """Loshchilov and Hutter's Algorithm 2, number by number, then mixing."""
    rule, m, n = exp.algorithm, exp.graph.rows, exp.problem.n
    (b1, b2), R = rule.betas, metropolis(exp.graph)
    x = exp.start(range(m)).tolist()
    first, second, counts = [[0.0] * n for _ in x], [[0.0] * n for _ in x], [0] * m
    for v, fired, lr in rounds_of(exp):
        yield {"x": x, "m": first, "v": second, "k": [[k] for k in counts]}
        for i, _ in itertools.product(np.flatnonzero(v), range(rule.K)):
            g = gradient(exp.problem.A[i].tolist(), exp.problem.b[i].tolist(), x[i])
            if rule.clip is not None:
                g = [each * min(1.0, rule.clip / (math.hypot(*g) + 1e-6)) for each in g]
            counts[i] += 1
            first[i] = [b1 * a + (1 - b1) * each for a, each in zip(first[i], g, strict=True)]
            second[i] = [b2 * a + (1 - b2) * each**2 for a, each in zip(second[i], g, strict=True)]
            x[i] = [
                (1 - lr[i] * rule.weight_decay) * old
                - lr[i]
                * (a / (1 - b1 ** counts[i]))
                / (math.sqrt(b / (1 - b2 ** counts[i])) + rule.eps)
                for old, a, b in zip(x[i], first[i], second[i], strict=True)
            ]
        x = mixed(x, R, fired)
        if rule.moments == "mixed":
            second = mixed(second, R, fired)


def sgd_in_loops(exp):
    """Momentum, number by number: b <- momentum b + g + decay x; then mixing."""
    rule, m, n = exp.algorithm, exp.graph.rows, exp.problem.n
    R, x = metropolis(exp.graph), exp.start(range(m)).tolist()
    buffers = [[0.0] * n for _ in x]
    for v, fired, lr in rounds_of(exp):
        yield {"x": x, "b": buffers}
        for i, _ in itertools.product(np.flatnonzero(v), range(rule.K)):
            g = gradient(exp.problem.A[i].tolist(), exp.problem.b[i].tolist(), x[i])
            g = [each + rule.weight_decay * old for each, old in zip(g, x[i], strict=True)]
            buffers[i] = [rule.momentum * b + each for b, each in zip(buffers[i], g, strict=True)]
            along = (
                [each + rule.momentum * b for each, b in zip(g, buffers[i], strict=True)]
                if rule.nesterov
                else buffers[i]
            )
            x[i] = [old - lr[i] * each for old, each in zip(x[i], along, strict=True)]
        x = mixed(x, R, fired)
        if rule.buffers == "mixed":
            buffers = mixed(buffers, R, fired)


def dadam_in_loops(exp):
    """The authors' dadam.m, number by number; a client that does not compute only mixes."""
    rule, m, n = exp.algorithm, exp.graph.rows, exp.problem.n
    (b1, b2, b3), R = rule.betas, metropolis(exp.graph)
    x = exp.start(range(m)).tolist()
    first, second, largest = ([[0.0] * n for _ in x] for _ in range(3))
    counts = [0] * m
    for v, fired, lr in rounds_of(exp):
        yield {"x": x, "m": first, "v": second, "u": largest}
        after = mixed(x, R, fired)
        for i in np.flatnonzero(v):
            g = gradient(exp.problem.A[i].tolist(), exp.problem.b[i].tolist(), x[i])
            counts[i] += 1
            first[i] = [b1 * a + (1 - b1) * each for a, each in zip(first[i], g, strict=True)]
            second[i] = [b2 * a + (1 - b2) * each**2 for a, each in zip(second[i], g, strict=True)]
            for c in range(n):
                hat = second[i][c] / (1 - b2 ** counts[i])
                largest[i][c] = b3 * largest[i][c] + (1 - b3) * max(largest[i][c], hat)
                step = first[i][c] / (1 - b1 ** counts[i])
                after[i][c] -= lr[i] * step / (math.sqrt(largest[i][c]) + rule.eps)
        x = after


RULES_IN_LOOPS = [
    (LocalAdamW(0.05), adamw_in_loops),
    (LocalAdamW(OWN, K=3, betas=(0.7, 0.9), clip=1.5, weight_decay=0.3), adamw_in_loops),
    (LocalAdamW(0.05, K=2, moments="mixed"), adamw_in_loops),
    (LocalSGDM(0.05), sgd_in_loops),
    (LocalSGDM(OWN, K=3, momentum=0.5, nesterov=True, weight_decay=0.2), sgd_in_loops),
    (LocalSGDM(0.05, K=2, buffers="mixed"), sgd_in_loops),
    (DAdam(0.05), dadam_in_loops),
    (DAdam(OWN, betas=(0.5, 0.8, 0.6), eps=1e-8), dadam_in_loops),
]


@paths
@pytest.mark.parametrize(("rule", "loops"), RULES_IN_LOOPS)
def test_a_rule_is_its_equation(rule, loops, path):
    exp = sporadic(rule)
    check_states(exp, path, loops(exp))


# -- torch.optim, where no link fires

PROBLEM = Classification("mlp", batch=4)


def beside_torch(rule, optimizer, dtype, rounds=9, clip=None):
    """Our models and those of torch's optimizer on the same gradients, for every client."""
    exp = Experiment(
        graphs.ring(3), PROBLEM, rule, schedule=SILENT, rounds=rounds, dtype=dtype, seed=7
    )
    port, activity = build_port(exp, mixer="links"), exp.schedule.bind(exp.graph, Draws(exp.seed))
    theirs = exp.start(range(3)).to(exp.torch_dtype).unbind()
    made = [optimizer([x]) for x in theirs]
    *_, last = iterate(exp, path="links")
    for t in range(1, rounds + 1):
        port.t = t
        v, lr = activity.nodes(t), rates_at(rule.lr, t)
        for batch in range(rule.K):
            found = port.grad(torch.stack(theirs), batch=batch)
            for i in np.flatnonzero(v):
                theirs[i].grad = found[i].clone()
                if clip is not None:
                    torch.nn.utils.clip_grad_norm_([theirs[i]], clip)
                made[i].param_groups[0]["lr"] = lr[i] if isinstance(lr, list) else lr
                made[i].step()
    return last, torch.stack(theirs), made


LRS = st.sampled_from(
    [0.03, Warmup(4, Cosine(0.1, rounds=5)), (0.1, Cosine(0.2, rounds=9), Warmup(3, 0.07))]
)
DTYPES = st.sampled_from(["float32", "float64"])


@settings(max_examples=25)
@given(
    lr=LRS, K=st.integers(1, 3), decay=st.sampled_from([0.0, 0.01, 0.3]), dtype=DTYPES,
    betas=st.sampled_from([(0.9, 0.999), (0.5, 0.9), (0.0, 0.3)]), eps=st.sampled_from([1e-8, 0.1]),
)  # fmt: skip
def test_without_links_local_adamw_is_torchs_bit_for_bit(lr, K, decay, dtype, betas, eps):
    rule = LocalAdamW(lr, K, betas=betas, eps=eps, weight_decay=decay)
    last, theirs, made = beside_torch(
        rule, lambda x: torch.optim.AdamW(x, betas=betas, eps=eps, weight_decay=decay), dtype
    )
    assert torch.equal(last.x, theirs)
    for i, state in enumerate(next(iter(one.state.values())) for one in made if one.state):
        assert torch.equal(last.state.m[i], state["exp_avg"])
        assert torch.equal(last.state.v[i], state["exp_avg_sq"])
        assert last.state.k[i] == state["step"]


@settings(max_examples=25)
@given(
    lr=LRS, K=st.integers(1, 3), decay=st.sampled_from([0.0, 0.01, 0.3]), dtype=DTYPES,
    momentum=st.sampled_from([0.0, 0.5, 0.9]), nesterov=st.booleans(),
)  # fmt: skip
def test_without_links_local_sgdm_is_torchs_bit_for_bit(lr, K, decay, dtype, momentum, nesterov):
    nesterov = nesterov and momentum > 0
    rule = LocalSGDM(lr, K, momentum=momentum, nesterov=nesterov, weight_decay=decay)
    last, theirs, _ = beside_torch(
        rule,
        lambda x: torch.optim.SGD(
            x, lr=1.0, momentum=momentum, nesterov=nesterov, weight_decay=decay
        ),
        dtype,
    )
    assert torch.equal(last.x, theirs)


def test_rows_are_clipped_as_torch_clips():
    """Not to the bit: torch takes the norm of its parameters' norms."""
    rule = LocalAdamW(0.05, K=2, clip=0.3)
    last, theirs, _ = beside_torch(rule, torch.optim.AdamW, "float64", clip=0.3)
    np.testing.assert_allclose(last.x, theirs, rtol=1e-11)
    free = beside_torch(replace(rule, clip=None), torch.optim.AdamW, "float64")[0]
    assert (free.x - last.x).abs().max() > 1e-4


# -- what follows from the equations


def test_without_momentum_local_sgdm_is_what_there_was_before():
    check_runs_agree(sporadic(LocalSGDM(0.05, momentum=0.0)), sporadic(DSGD(0.05)))
    every = Bernoulli()
    check_runs_agree(
        sporadic(LocalSGDM(0.05, K=3, momentum=0.0), every),
        sporadic(DFedAvgM(0.05, K=3, theta=0.0), every),
    )


def test_mixed_second_moments_pull_unlike_clients_nearer_to_the_optimum():
    """Two clients whose slopes differ tenfold: scaled each by itself, they count alike."""
    problem = quadratic(2, n=2)
    problem = replace(problem, A=np.stack([np.eye(2), 10 * np.eye(2)]), b=problem.b * [[1], [10]])
    away = {}
    for moments in ("own", "mixed"):
        rule = LocalAdamW(Cosine(0.05, 2000), moments=moments, weight_decay=0.0, eps=1e-4)
        exp = experiment(graphs.complete(2), rule, problem=problem, rounds=2000)
        away[moments] = np.linalg.norm(final(exp).x.numpy().mean(axis=0) - problem.solution())
    assert away["mixed"] < 0.3 * away["own"]


def test_a_run_that_goes_on_has_the_moments_and_counts_it_had():
    from peerloom.runtime import Session

    for rule in (LocalAdamW(OWN, K=2), LocalSGDM(OWN), DAdam(OWN)):
        exp = sporadic(rule)
        kept = [one.checkpoint() for one in Session(exp, build_port(exp)) if one.t == 6]
        *_, last = Session(exp, build_port(exp), resume=kept[0])
        for found, wanted in zip(last.state, final(exp).state, strict=True):
            assert torch.equal(found, wanted)


@pytest.mark.parametrize("rule", [LocalAdamW(0.1), LocalSGDM(0.1), DAdam(0.1)])
def test_links_must_be_symmetric(rule):
    check_refuses_unequal_links(rule)


def test_mixed_moments_are_not_rounded():
    rule = LocalAdamW(0.05, moments="mixed")
    for message in (codecs.Coordinates(0.4), codecs.Coordinates(0.4, per_pair=True)):
        check_rule(rule, message=message)
    with pytest.raises(ConfigError, match=r"LocalAdamW cannot use .*, which rounds"):
        check_rule(rule, message=codecs.Dense("float16"))
    for other in (LocalAdamW(0.05), LocalSGDM(0.05, buffers="mixed")):
        check_rule(other, message=codecs.Dense("float16"))


def test_every_client_has_its_own_step_and_no_fewer():
    with pytest.raises(ConfigError, match=r"LocalAdamW\.lr has 2 entries for 6 clients"):
        sporadic(LocalAdamW((0.1, 0.2)))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LocalAdamW(0.0), "LocalAdamW.lr must be a number above 0"),
        (lambda: LocalAdamW((0.1, -1.0)), "LocalAdamW.lr must be"),
        (lambda: LocalAdamW(0.1, K=0), "LocalAdamW.K must be at least 1 local step, found 0"),
        (lambda: LocalAdamW(0.1, betas=(0.9, 1.0)), r"LocalAdamW.betas must be .* below 1, found"),
        (lambda: LocalAdamW(0.1, betas=(0.9,)), "LocalAdamW.betas must be"),
        (lambda: LocalAdamW(0.1, eps=0.0), "LocalAdamW.eps must be above 0, found 0.0"),
        (lambda: LocalAdamW(0.1, weight_decay=-0.1), "LocalAdamW.weight_decay must be at least 0"),
        (lambda: LocalAdamW(0.1, clip=0.0), "LocalAdamW.clip must be above 0, or left out"),
        (lambda: LocalAdamW(0.1, clip=math.inf), "LocalAdamW.clip must be above 0, or left out"),
        (lambda: LocalAdamW(0.1, moments="none"), "LocalAdamW.moments must be 'own' or 'mixed'"),
        (lambda: LocalSGDM(0.1, momentum=1.0), "LocalSGDM.momentum must be from 0 to below 1"),
        (lambda: LocalSGDM(0.1, K=0), "LocalSGDM.K must be at least 1"),
        (lambda: LocalSGDM(0.1, weight_decay=math.nan), "LocalSGDM.weight_decay must be"),
        (
            lambda: LocalSGDM(0.1, momentum=0.0, nesterov=True),
            "LocalSGDM.nesterov = True would have no effect",
        ),
        (
            lambda: LocalSGDM(0.1, momentum=0.0, buffers="mixed"),
            "LocalSGDM.buffers = 'mixed' would have no effect",
        ),
        (lambda: DAdam(0.1, betas=(0.9, 0.999)), "DAdam.betas must be"),
        (lambda: DAdam(0.1, betas=(0.9, 0.999, -0.1)), "DAdam.betas must be"),
        (lambda: DAdam(0.1, eps=math.inf), "DAdam.eps must be above 0"),
    ],
)
def test_what_cannot_be_is_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()

"""The contracts that rules and codecs keep, for yours as well as for ours.

`check_rule(MyRule(lr=0.1))`, `check_codec(MyCodec())`; and whether a training loop of one's own
repeats itself: `check_loop(experiment, train)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import numpy as np
import torch
from torch import Tensor

from .aliases import former_names
from .codecs import Dense
from .codecs.laws import check_codec
from .core import Codec, Draws, Network, Rule, Schedule
from .experiment import Experiment
from .graphs import from_edges, hubs, random_digraph, ring, small_world
from .live.alone import Alone
from .live.run import Run
from .problems import Quadratic
from .runtime import Path, Session, build_port, iterate
from .runtime.shards import run_sharded
from .schedules import Bernoulli, Explicit

__all__ = ["check_codec", "check_loop", "check_rule", "graph_for", "random_quadratic"]

__getattr__ = former_names(__name__, {"check_algorithm": "check_rule"})


def random_quadratic(clients: int, n: int, seed: int = 0) -> Quadratic:
    """Different, strongly convex quadratics, with eigenvalues from 0.5 to about 2.5."""
    u = Draws(seed).once("testing/quadratic", np.arange(clients), lanes=n * n + n) - 0.5
    factor = u[:, : n * n].reshape(clients, n, n)
    A = 0.5 * np.eye(n) + factor @ factor.transpose(0, 2, 1) * (6 / n)
    return Quadratic(A, 4 * u[:, n * n :])


def check_rule(
    algorithm: Rule,
    graph: Network | None = None,
    message: Codec | None = None,
    rounds: int = 12,
    seed: int = 0,
) -> None:
    """Put a rule through the contract; an AssertionError says which clause it breaks.

    1. Its state is a named tuple of row tensors, x first.
    2. A step changes nothing in place.
    3. Nothing is random but the draws, and nothing is remembered outside the state.
    4. Rows meet only in `port.mix`.
    5. One process or many give the same bits and the same ledger.
    6. Link by link or as a matrix, the numbers are the same.

    `graph` is the network to try it on, by default a small one of the kind the rule needs;
    `message` is the codec, by default whole rows.

    >>> from peerloom.rules import DSpodFL
    >>> check_rule(DSpodFL(lr=0.1))
    """
    if isinstance(algorithm, type):
        raise TypeError(
            f"check_rule takes a rule with its arguments, such as {algorithm.__name__}(lr=0.1), "
            "not the class."
        )
    if graph is None:
        graph = graph_for(algorithm)
    codec = Dense() if message is None else message
    exp = _experiment(algorithm, graph, Bernoulli(nodes=0.6, links=0.5), codec, rounds, seed)
    _check_state(exp)
    _check_purity(exp)
    _check_memory(exp)
    if algorithm.needs.links == "any" and not algorithm.needs.common_start:
        _check_rows_apart(
            _experiment(algorithm, graph, _silence(graph, rounds), codec, rounds, seed)
        )
    _check_shards(exp)
    if codec.fit == "whole":
        _check_paths(exp)


def check_loop(
    exp: Experiment,
    loop: Callable[[Run], object],
    *,
    client: int = 0,
    rounds: int = 3,
    batches: int | None = None,
) -> None:
    """Run a training loop twice, alone, and compare every gradient; an AssertionError says where.

    A loop that passes has the same bits in one process and between peers, after kills too if it
    tells `opt.checkpoint` all that it draws from. What is found: shuffling, dropout and first
    models without a seed, the time, what the first run left behind. What is not: what differs
    between machines, or comes up after these rounds.

    `loop` is the whole script as a function of the run that it gives to `pl.live.optimizer`.
    `batches` is as in `pl.live.rows`.
    """
    runs = [Alone(exp, client, rounds, batches) for _ in range(2)]
    for run in runs:
        try:
            loop(run)
            assert run.done == rounds, (
                f"the loop ended after round {max(0, run.done)} of {rounds}; let it run until "
                "`opt.finished`"
            )
        finally:
            run.close()
    first, second = runs
    k = first.differs(second)
    if k is None:
        return
    started = "its first model" if k == 0 and not first.starts_as(second) else None
    at = first.told[min(k, len(first.told) - 1)].question
    where = started or f"gradient {k}, of round {at.round}, batch {at.batch}"
    raise AssertionError(
        f"the loop does not repeat itself: {where}, is another the second time. Seed what draws "
        "(the model, shuffling, dropout, augmentation) inside the function, or draw batches by "
        "pl.live.Batches, and let nothing depend on the time or on an earlier run"
    )


def graph_for(algorithm: Rule) -> Network:
    """A small network of the kind a rule needs."""
    if algorithm.needs.one_hub:
        return hubs(from_edges(1, []), workers=[5])
    if "up" in algorithm.needs.layers:
        return hubs(ring(3), workers=[2, 3, 1])
    return (
        small_world(7, degree=4, rewire=0.3)
        if algorithm.needs.symmetric
        else random_digraph(7, p=0.4)
    )


def _check_state(exp: Experiment) -> None:
    for snapshot in iterate(exp):
        state = snapshot.state
        fields = getattr(state, "_fields", None)
        assert fields, f"the state must be a named tuple, but it is {type(state).__name__}"
        assert fields[0] == "x", (
            f"the first field of the state must be x, the model, but it is {fields[0]}"
        )
        for name, value in zip(fields, state, strict=True):
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            assert isinstance(value, Tensor) and len(value) == exp.graph.rows, (  # noqa: PT018
                f"state.{name} must be a tensor with one row per client, but it is {shape}"
            )
            assert value.dtype == exp.torch_dtype, (
                f"state.{name} must stay {exp.dtype}, but it is {value.dtype}"
            )
        assert state.x.shape == (exp.graph.rows, exp.problem.n), (
            f"state.x has shape {tuple(state.x.shape)}"
        )


def _check_purity(exp: Experiment) -> None:
    """Whatever `init` and `step` are given must be afterwards as it was before."""
    handed: list[tuple[Tensor, Tensor]] = []

    class Handing(Experiment):
        def start(self, rows: Sequence[int]) -> Tensor:
            """The first models, which are remembered here."""
            x = super().start(rows)
            handed.append((x, x.clone()))
            return x

    given = Handing(**{field.name: getattr(exp, field.name) for field in fields(exp)})
    session = Session(given, build_port(exp, mixer="links"))
    session.start()
    assert all(torch.equal(x, kept) for x, kept in handed), (
        "init changed its argument in place; return new tensors"
    )
    while session.finished is None:
        state = session.state
        before = [value.clone() for value in state]
        session.step()
        for name, value, old in zip(state._fields, state, before, strict=True):
            assert torch.equal(value, old), (
                f"round {session.t}: step changed state.{name} in place; return new tensors"
            )


def _check_memory(exp: Experiment) -> None:
    """A restart in the middle must give the same bits: all memory is in the state."""
    before, middle = torch.get_rng_state(), exp.rounds // 2
    whole = Session(exp, build_port(exp, mixer="links"))
    kept = [snapshot.checkpoint() for snapshot in whole if snapshot.t == middle]
    assert torch.equal(before, torch.get_rng_state()), (
        "the rule draws from torch's own generator; use port.uniform"
    )
    again = Session(exp, build_port(exp, mixer="links"), resume=kept[0])
    for _ in again:
        pass
    for name, value, expected in zip(whole.state._fields, again.state, whole.state, strict=True):
        assert torch.equal(value, expected), (
            f"a run continued from round {middle} ends with another state.{name}; "
            "keep all memory in the state"
        )


def _check_rows_apart(exp: Experiment) -> None:
    """Where no link ever fires, a row must not feel the others."""
    start = exp.start(range(exp.graph.clients))
    moved = start.clone()
    moved[0] += 10
    first, second = (_last(replace(exp, x0=x)) for x in (start, moved))
    assert torch.equal(first[1:], second[1:]), (
        "no link fired, yet a change of row 0 reached other rows; rows may meet in port.mix only"
    )


def _check_shards(exp: Experiment) -> None:
    rows = exp.graph.rows
    expected = torch.stack([snapshot.state.x for snapshot in iterate(exp, path="links")])
    ledger = list(iterate(exp, path="links"))[-1].ledger
    for shards in ([[i] for i in range(rows)], [list(range(0, rows, 2)), list(range(1, rows, 2))]):
        found = run_sharded(exp, shards)
        for t in range(exp.rounds + 1):
            assert torch.equal(found.path[t], expected[t]), (
                f"round {t}: rows in {len(shards)} shards give other bits than rows in one"
            )
        for name, values in ledger.arrays().items():
            assert np.array_equal(found.ledger.arrays()[name], values), (
                f"{len(shards)} shards have another ledger: {name}"
            )


def _check_paths(exp: Experiment) -> None:
    by_matrix, by_links = _last(exp, "matrix"), _last(exp, "links")
    worst = float((by_matrix - by_links).abs().max() / by_links.abs().max().clamp_min(1))
    assert worst <= 1e-10, f"the matrix path and the link path differ by {worst:.1e}"


def _experiment(
    algorithm: Rule, graph: Network, schedule: Schedule, codec: Codec, rounds: int, seed: int
) -> Experiment:
    """Build a run on quadratics whose rows start apart: equal rows would hide too much."""
    problem = random_quadratic(graph.clients, 5, seed)
    x0 = Draws(seed).once("testing/start", graph.workers, lanes=5) + 0.5
    first = x0[0] if algorithm.needs.common_start else x0
    return Experiment(
        graph, problem, algorithm, schedule, codec, rounds, seed, first, dtype="float64"
    )


def _silence(graph: Network, rounds: int) -> Explicit:
    return Explicit(links=np.zeros((rounds + 1, graph.rows, graph.rows), bool))


def _last(exp: Experiment, path: Path = "auto") -> Tensor:
    *_, last = iterate(exp, path=path)
    return last.x

"""What a round of every rule costs in rounds of DGD, and mixing in bare matrix products."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse
import torch

from ..codecs import ANQ, Coordinates, Dense, Quantised, TopK
from ..core import Codec, InverseSqrt, Network, Schedule
from ..experiment import Experiment
from ..graphs import complete, from_edges, hubs, regular
from ..problems import Classification
from ..rules import DGD, RULES
from ..runtime import Session, build_port
from ..schedules import Always, Every, HubRounds, Sampled
from .cases import BATCH, LR, data
from .contenders import Simulator
from .timing import interleaved

__all__ = ["COMPRESSED", "WANTED", "mixing", "rule_rounds"]

_CLIENTS = 100
_TRACKING = (
    "AB", "DSGT", "DSMT", "Depositum", "D2", "EXTRA", "NIDS", "ProxGT", "PushDIGing", "PushPull",
    "SpodGT", "SporadicKGT", "SporadicPushPull", "SynchronousGT",
)  # fmt: skip
COMPRESSED: dict[str, tuple[Codec, ...]] = {
    "ANQNIDS": (ANQ(),),
    "BEER": (TopK(0.1), Quantised(5)),
    "CHOCO": (TopK(0.1), Quantised(5)),
    "DCD": (TopK(0.1), Quantised(5)),
    "QuantisedDFedAvgM": (Quantised(5),),
    "SQuARM": (TopK(0.1),),
}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "AcceleratedDSMT": {"lr": LR, "modulus": 0.8},
    "Alternating": {"rule": DGD(lr=LR), "first": ((0, 10),)},
    "Chebyshev": {"rule": DGD(lr=LR), "K": 2, "modulus": 0.8},
    "Depositum": {"alpha": LR, "beta": 0.5, "gamma": 0.5},
    "DiLoCo": {"lr": LR, "K": 5},
    "NoLoCo": {"lr": LR, "K": 5},
    "PMGTSVRG": {"lr": LR, "q": 10},
    "ProxGTSRE": {"lr": LR, "q": 10},
    "ProxGTSRO": {"lr": LR, "q": 10},
    "PaME": {"sigma": 1 / LR, "growth": 1.0},
    "SubgradientPush": {"lr": InverseSqrt(LR, 100)},
}
_PAME = "PaME, 20 % of the coordinates, its own schedule"
WANTED: dict[str, float] = dict.fromkeys(_TRACKING, 2.2) | {_PAME: 3.0}
"""Rounds of DGD that a round may cost; compressed rules, named with their codec, may cost 4."""


def rule_rounds(seconds: float, only: tuple[str, ...] | None = None) -> dict[str, float]:
    """Return milliseconds per round of every rule, or of some and DGD: softmax, 100 clients."""
    problem = Classification("softmax", data(), batch=BATCH)
    runs: dict[str, Simulator] = {}
    for name in RULES:
        for label, message, schedule in _variants(name):
            if only is None or label in only or name == "DGD":
                rule: Any = RULES[name](**_ARGUMENTS.get(name, {"lr": LR}))
                exp = Experiment(_graph(rule.needs), problem, rule, schedule, message, rounds=10**9)
                runs[label] = Simulator(exp)
    return interleaved({label: run.round for label, run in runs.items()}, seconds)


def _variants(name: str) -> list[tuple[str, Codec, Schedule]]:
    """With every link in every round, or as its paper has it where that is another thing."""
    if name in COMPRESSED:
        return [(f"{name}, {message}", message, Always()) for message in COMPRESSED[name]]
    if name == "PaME":
        sampled = Sampled(3, 0.2, upto=7)  # Table II: kappa from 3 to 7, a fifth of the neighbours
        every = "PaME, 20 % of the coordinates, every link"
        return [
            (_PAME, Coordinates(0.2), sampled),
            (every, Coordinates(0.2), Always()),
            ("PaME, whole rows", Dense(), Always()),
        ]
    if name == "Depositum":
        return [(name, Dense(), Every(1))]
    if "up" in RULES[name].needs.layers and RULES[name].needs.links == "any":
        return [(name, Dense(), HubRounds(1))]
    return [(name, Dense(), Always())]


def _graph(needs: Any) -> Network:
    if "up" in needs.layers:
        return (
            hubs(from_edges(1, []), [_CLIENTS])
            if needs.one_hub
            else hubs(
                complete(10) if needs.hubs_agree else regular(10, degree=4, seed=1), [10] * 10
            )
        )
    return regular(_CLIENTS, degree=6, seed=1)


@torch.no_grad()
def mixing(seconds: float) -> dict[str, float]:
    """Return milliseconds of one `port.mix`, 1,000 rows and 8 neighbours, and of its products."""
    graph = regular(1000, degree=8, seed=1)
    exp = Experiment(graph, Classification("softmax", data(), batch=BATCH), DGD(lr=LR), rounds=1)
    port = build_port(exp)
    session = Session(exp, port)
    session.start()
    session.step()
    x = torch.rand(1000, exp.problem.n)
    matrix = scipy.sparse.csr_array(graph.peers.matrix().astype(np.float32))
    start, column, weight = (
        torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        product = torch.sparse_csr_tensor(
            start, column, weight, size=(1000, 1000), check_invariants=False
        )
    rows = x.numpy()
    return interleaved(
        {
            "mix": lambda: port.mix(x),
            "scipy": lambda: matrix @ rows,
            "torch": lambda: torch.mm(product, x),
        },
        seconds,
    )

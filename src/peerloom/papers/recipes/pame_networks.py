"""PaME's figures 11 and 12, against four other methods on examples 3 and 4: networks."""

from __future__ import annotations

from ...sweeps.readings import Reading
from . import pame_words as words
from .checks import Check
from .claims import Source, ahead
from .claims_curves import over_points
from .pame_rivals import FULL, RIVALS, SAMPLED, compared
from .pame_settings import pame
from .recipe import Changed, Recipe

__all__ = ["PAME_NETWORKS"]

_END = Reading("average_accuracy")
_ALONG, _PER_BYTE = (
    Reading("average_accuracy", "along", axis) for axis in ("communications", "paper_bytes")
)
_LEVEL = ("average_accuracy", 0.6)
_TALKS, _VOLUME = (Reading(name, level=_LEVEL) for name in ("communications", "paper_bytes"))
_CHOSEN = (
    "Where the paper is silent: ten nodes of degree 6, batches of 32, steps of 0.05 for the "
    "baselines, the largest tenth of the entries for BEER, DEPOSITUM's CNN, 1000 iterations of "
    "every method, a common random start. Faster is a higher mean accuracy up to where the first "
    "of all methods ends: in communication rounds, and in bytes. D-PSGD and DFedSAM talk after "
    "every seventh step, which is as often as periods from 5 to 10 come to."
)
_NORM = "ResNet-20 has group norm in place of batch norm."
_PERIOD = 7
_TINY = (
    "problem.data=digits", "problem.model=softmax", "rounds=30", "evaluate.every=10",
    "algorithms.3.rounds=4", "algorithms.4.rounds=4",
)  # fmt: skip
_SEVEN = "seeds=[1, 2, 3, 4, 5, 6, 7]"


def _shorter(rounds: int, every: int) -> tuple[str, ...]:
    local = {"rounds": max(1, rounds // _PERIOD), "every": max(1, every // _PERIOD)}
    return (
        f"rounds={rounds}",
        f"evaluate.every={every}",
        *(f"algorithms.{k}.rounds={local['rounds']}" for k in (3, 4)),
        *(f"algorithms.{k}.evaluate={{every={local['every']}}}" for k in (3, 4)),
    )


_FIT_CNN = Changed(
    "84 iterations in place of 1000, batches of 8 in place of 32, judged on 500 of the 10,000 test "
    "pictures, seven seeds. About three minutes of one core for a seed. It says who is ahead in "
    "the first dozen communications.",
    (
        *_shorter(84, 21),
        "problem.batch=8",
        "problem.data={name='part', of='fashion-mnist', test=500}",
        _SEVEN,
    ),
)
_FIT_RESNET = Changed(
    "42 iterations in place of 1000, batches of 4 in place of 32, judged on 100 of the 10,000 test "
    "pictures, three seeds. About six minutes of one core for a seed. It shows that the recipe "
    "runs, and little about the claims: six communications teach a ResNet next to nothing.",
    (
        *_shorter(42, 21),
        "problem.batch=4",
        "problem.data={name='part', of='cifar10', test=100}",
    ),
)


def _networks(
    title: str,
    model: str,
    data: str,
    varied: str,
    points: dict[str, list[str]],
    says: Source,
    *more: Check,
    note: str = "",
) -> Recipe:
    """Examples 3 and 4."""
    example = pame(0.5, 0.1, 5, 10, 5.0, 1.001)
    table = {
        "rounds": 1000,
        "seeds": [1, 2, 3],
        "graph": {"name": "regular", "clients": 10, "degree": 6},
        "problem": {
            "name": "Classification",
            "model": model,
            "data": data,
            "batch": 32,
            "partition": "IID",
        },
        "evaluate": {"every": 70},
        "algorithms": compared(example, 0.05, _PERIOD, 0.1, rounds=1000, every=70),
    }
    fastest = [
        ahead(
            "PaME",
            _ALONG,
            "PaME is the fastest by communication rounds, against methods that hear as few "
            "neighbours",
            name="fastest, sampled",
            over=SAMPLED,
            **says,
        ),
        ahead(
            "PaME",
            _ALONG,
            "PaME is the fastest by communication rounds, against methods that hear all neighbours",
            name="fastest, all heard",
            over=FULL,
            **says,
        ),
        ahead("PaME", _PER_BYTE, "PaME is the fastest by bytes", name="fastest, bytes", **says),
    ]
    return Recipe(
        title,
        (*fastest, *more),
        table,
        (_ALONG, _PER_BYTE, _TALKS, _VOLUME, _END),
        varied,
        points,
        f"{RIVALS} {note}".strip(),
        _CHOSEN,
        _TINY,
        _FIT_RESNET if model == "resnet20" else _FIT_CNN,
    )


PAME_NETWORKS: dict[str, Recipe] = {
    "fig11": _networks(
        "CNN on Fashion-MNIST, classes per node",
        "cnn",
        "fashion-mnist",
        "classes",
        {str(c): [f"problem.partition={{name='Labels', per_client={c}}}"] for c in (1, 7, 10)},
        words.FASTEST_OF_ALL,
        ahead(
            "PaME", _END, "PaME ends best with one class per node", name="best at 1", only=["1"],
            **words.BEST_AT_ONE,
        ),
        over_points(
            ["PaME", *FULL, *SAMPLED],
            [("10", "7"), ("7", "1")],
            _END,
            "The fewer classes per node, the less accurate all methods",
            name="heterogeneity hurts",
            **words.DEGRADATION,
        ),
    ),
    "fig12": _networks(
        "ResNet-20 on CIFAR-10",
        "resnet20",
        "cifar10",
        "partition",
        {"IID": []}
        | {
            f"Dir({b:g})": [f"problem.partition={{name='Dirichlet', theta={b}}}"]
            for b in (0.6, 0.3)
        },
        words.OUTPERFORMS,
        ahead(
            "PaME", _END, "PaME ends with the highest accuracy", name="best", **words.HIGHEST
        ),
        note=_NORM,
    ),
}  # fmt: skip

"""What a loop of one's own pays for its rule, beside a plain loop with torch's SGD."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from ..core import Network
from ..experiment import Experiment
from ..graphs import from_edges, ring
from ..live import optimizer
from ..live.alone import Alone
from ..live.seam import Asked, Question, Seam
from ..problems import Loop
from ..rules import DSpodFL, SpodGT
from ..runtime import prepare_process
from .timing import turns

__all__ = ["LIVE_SIZES", "handover", "live_steps"]

LIVE_SIZES = (1_000, 1_000_000)
_LR, _BATCH, _WIDTH = 0.001, 8, 10
_ENDLESS = 10**9  # rounds


def handover(seconds: float) -> list[float]:
    """Milliseconds from a question to the loop and back with its answer, of every turn."""
    seam, what = Seam(), Asked(torch.zeros(1), Question(0, 0, 0))

    def ask() -> None:
        while True:
            seam.ask(what)

    def there_and_back() -> None:
        seam.next()
        seam.tell(None)

    seam.start(ask)
    try:
        return turns({"handover": there_and_back}, seconds)["handover"]
    finally:
        seam.leave()


def live_steps(n: int, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of a step with n parameters, of every turn: under SGD, and under rules.

    A step is a forward and a backward pass that cost little, and what the optimizer does. A row
    alone shows what the loop costs; with two neighbours, which are mirrors, mixing comes on top.
    """
    prepare_process()
    alone, amid = from_edges(1, []), ring(3)
    with contextlib.ExitStack() as stack:
        return turns(
            {
                "SGD": _plain(n),
                "DSpodFL": stack.enter_context(_under(DSpodFL(lr=_LR), alone, n)),
                "SpodGT": stack.enter_context(_under(SpodGT(lr=_LR), alone, n)),
                "DSpodFL, two neighbours": stack.enter_context(_under(DSpodFL(lr=_LR), amid, n)),
            },
            seconds,
        )


def _model(n: int) -> nn.Module:
    return nn.Linear(_WIDTH, n // _WIDTH, bias=False)


def _step(model: nn.Module, opt: torch.optim.Optimizer) -> Callable[[], None]:
    x: Tensor = torch.randn(_BATCH, _WIDTH, generator=torch.Generator().manual_seed(1))

    def step() -> None:
        opt.zero_grad()
        model(x).square().mean().backward()
        opt.step()

    return step


def _plain(n: int) -> Callable[[], None]:
    model = _model(n)
    return _step(model, torch.optim.SGD(model.parameters(), lr=_LR))


@contextlib.contextmanager
def _under(rule: DSpodFL | SpodGT, graph: Network, n: int) -> Iterator[Callable[[], None]]:
    exp, model = Experiment(graph, Loop(), rule), _model(n)
    opt = optimizer(model, Alone(exp, client=0, rounds=_ENDLESS, keep=False))
    try:
        yield _step(model, opt)
    finally:
        opt.close()

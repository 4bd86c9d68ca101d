"""All rows in one process: the fast engine for research on one machine, on a CPU or one GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import ConfigError, DivergedError, Draws, Ledger, MemoryWire, Net, Placement, Wire, check_links
from ..experiment import Experiment
from ..runtime import prepare_process
from .memory import caution_of_size

__all__ = ["Checkpoint", "Path", "Snapshot", "build_net", "iterate"]

Path = Literal["auto", "matrix", "links"]


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on: the round, the state, the account so far."""

    t: int
    state: Any
    ledger: Ledger


class Snapshot:
    """The run after round t, to look at. What it hands out are copies: nothing done to them disturbs the run."""

    def __init__(self, t: int, state: Any, net: Net) -> None:
        self.t, self._state, self.net = t, state, net

    @property
    def state(self) -> Any:
        """The algorithm's state, a named tuple of row tensors."""
        return type(self._state)(*(field.clone() for field in self._state))

    @property
    def x(self) -> Tensor:
        """The models of the clients [m, n]."""
        return self._state.x[: self.net.network.clients].clone()  # type: ignore[no-any-return]

    @property
    def ledger(self) -> Ledger:
        """What the run has cost so far. Ask while the run stands here: its account is kept once and goes on."""
        if self.net.t != self.t:
            raise RuntimeError(
                f"The ledger of round {self.t} is gone, the run has reached round {self.net.t}. Take it inside the loop."
            )
        return self.net.ledger.copy()


def build_net(
    exp: Experiment,
    rows: NDArray[np.int64] | None = None,
    *,
    device: str | torch.device = "cpu",
    wire: Wire | None = None,
) -> Net:
    """The port of a process that hosts these rows (all of them by default)."""
    rows = np.arange(exp.graph.rows) if rows is None else rows
    place = Placement(rows, exp.graph.rows, _device(device), exp.torch_dtype)
    workers = place._replace(rows=rows[rows < exp.graph.clients], of=exp.graph.clients)
    draws = Draws(exp.seed)
    activity = exp.active_schedule.bind(exp.graph, draws)
    check_links(exp.algorithm, exp.graph, activity, exp.rounds)
    return Net(
        place,
        exp.graph,
        activity,
        exp.message,
        exp.problem.bind(workers, draws),
        draws,
        resources=exp.able.bind(exp.graph, draws),
        wire=wire,
    )


@torch.no_grad()
def iterate(
    exp: Experiment, *, device: str = "cpu", path: Path = "auto", resume: Checkpoint | None = None
) -> Iterator[Snapshot]:
    """Run an experiment step by step: a snapshot after `init` (t = 0) and after every round.

    `path` is how rows are mixed: as a matrix product, link by link, or whichever fits. Both give the same numbers.
    """
    prepare_process()
    net = build_net(exp, device=device, wire=_wire(exp, path))
    caution_of_size(len(net.place.rows), exp.problem.n, net.place.dtype.itemsize)
    if resume is None:
        x = exp.start(net.place.rows.tolist()).to(net.place.device, net.place.dtype)
        state = exp.algorithm.init(x, net)
    else:
        net.t, state, net.ledger = resume.t, resume.state, resume.ledger.copy()
    guard = Guard(exp, net, state)
    yield Snapshot(net.t, state, net)

    def done() -> bool:
        return net.t >= exp.rounds or (exp.until_delay is not None and net.ledger.delay() >= exp.until_delay)

    while not done():
        net.t += 1
        state = exp.algorithm.step(state, net)
        guard.check(state, last=done())
        yield Snapshot(net.t, state, net)


class Guard:
    """Stops a run as soon as a row is no longer finite.

    Looking at every number of every round would cost as much as mixing them. So the guard looks at the sum of the models,
    now and then, and when that is not finite it repeats the rounds since the last good look to find the first bad one. It
    can, because a round is a pure function of the state before it.
    """

    EVERY = 16

    def __init__(self, exp: Experiment, net: Net, state: Any) -> None:
        self._exp, self._net, self._good, self._good_t = exp, net, state, net.t
        if not torch.isfinite(state.x).all():
            self._stop(state, net.t)

    def check(self, state: Any, last: bool) -> None:
        """Look, if it is time to; always after the last round."""
        net = self._net
        if net.t - self._good_t < self.EVERY and not last:
            return
        # The sum alone may overflow although every number is finite; then the longer look decides.
        if not math.isfinite(state.x.sum().item()) and not torch.isfinite(state.x).all():
            again = self._good
            scratch = build_net(self._exp, device=str(net.place.device), wire=None if net.all_here else net.wire)
            for scratch.t in range(self._good_t + 1, net.t + 1):
                again = self._exp.algorithm.step(again, scratch)
                if not torch.isfinite(again.x).all():
                    self._stop(again, scratch.t)
        self._good, self._good_t = state, net.t

    def _stop(self, state: Any, t: int) -> None:
        row = int(torch.nonzero(~torch.isfinite(state.x).all(dim=1))[0, 0])
        name, rate = self._exp.name, getattr(self._exp.algorithm, "lr", None)
        hint = f" The step size is {rate}; try a tenth of it." if isinstance(rate, float) else " Try smaller steps."
        raise DivergedError(f"{name} diverged: in round {t}, row {row} is no longer finite.{hint}", round=t, row=row)


def _wire(exp: Experiment, path: Path) -> Wire | None:
    if path not in ("auto", "matrix", "links"):
        raise ConfigError(f"path must be 'auto', 'matrix' or 'links', found '{path}'.")
    if path == "matrix" and exp.message.fit != "whole":
        raise ConfigError(f"path 'matrix' needs messages that carry whole rows, which {exp.message!r} does not. Use 'auto'.")
    return MemoryWire() if path == "links" else None


def _device(device: str | torch.device) -> torch.device:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"Device '{device}' cannot be used here ({error}). Use 'cpu', or 'cuda' where there is a GPU."
        ) from error
    return torch.device(device)

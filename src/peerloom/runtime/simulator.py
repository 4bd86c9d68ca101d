"""All rows in one process: the fast engine for research on one machine, on a CPU or one GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ..core import Checkpoint, ConfigError, Draws, Placement, RowWire, check_links
from ..core.events import Observer
from ..experiment import Experiment
from .memory import caution_of_size
from .offload import OffloadedProblem, usable_device
from .port import MixerName, RowPort
from .process import LARGE_BLOCK, prepare_process, return_large_blocks
from .session import Session, Snapshot

__all__ = ["Path", "build_port", "iterate", "simulation"]

Path = MixerName


def build_port(
    exp: Experiment,
    rows: NDArray[np.int64] | None = None,
    *,
    device: str | torch.device = "cpu",
    gradients: str | torch.device | None = None,
    mixer: MixerName = "auto",
    wire: RowWire | None = None,
) -> RowPort:
    """Build the port of a process that hosts these rows, by default all of them.

    A wire needs the mixer "links". Rows live on `device`; `gradients` may name another one on which
    gradients are computed.
    """
    rows = np.arange(exp.graph.rows) if rows is None else rows
    place = Placement(rows, exp.graph.rows, usable_device(device), exp.torch_dtype)
    workers = place._replace(rows=rows[rows < exp.graph.clients], of=exp.graph.clients)
    draws = Draws(exp.seed)
    activity = exp.active_schedule.bind(exp.graph, draws)
    check_links(exp.algorithm, exp.graph, activity, exp.rounds)
    _check_questions(exp)
    problem = (
        exp.problem.bind(workers, draws)
        if gradients is None
        else OffloadedProblem(exp.problem, workers, draws, usable_device(gradients))
    )
    return RowPort(
        place,
        exp.graph,
        activity,
        exp.message,
        problem,
        draws,
        resources=exp.able.bind(exp.graph, draws),
        mixer=mixer,
        wire=wire,
    )


def iterate(
    exp: Experiment, *, device: str = "cpu", path: Path = "auto", resume: Checkpoint | None = None
) -> Iterator[Snapshot]:
    """Run an experiment step by step: a snapshot after `init` (t = 0) and after every round.

    `path` is how rows are mixed: as a matrix product, link by link, or whichever fits. Both give
    the same numbers. The run ends by `rounds` and `until_delay`; `until_settled` needs evaluations,
    which `simulate` makes.
    """
    yield from simulation(exp, device=device, path=path, resume=resume)


def simulation(
    exp: Experiment,
    *,
    device: str = "cpu",
    path: Path = "auto",
    resume: Checkpoint | None = None,
    observers: Sequence[Observer] = (),
) -> Session:
    """A session with all rows in this process."""
    prepare_process()
    if exp.problem.n * exp.torch_dtype.itemsize >= LARGE_BLOCK:
        return_large_blocks()
    _check_mixer(exp, path)
    port = build_port(exp, device=device, mixer=path)
    caution_of_size(len(port.place.rows), exp.problem.n, port.place.dtype.itemsize)
    return Session(exp, port, observers=observers, resume=resume)


def _check_questions(exp: Experiment) -> None:
    """Refuse a rule that asks for several gradients in a round, where each would train anew."""
    if not getattr(exp.problem, "once_a_round", False):
        return
    from .dry_run import trace  # which runs sessions

    found = trace(exp.algorithm)
    if found.whole:
        raise ConfigError(
            f"{exp.name} takes gradients on all samples of a client, which the problem, "
            f"{type(exp.problem).__name__}, has not: it trains as it likes. Use DSGD, DSpodFL or "
            "another rule that asks for one gradient in a round."
        )
    if found.gradients > 1:
        raise ConfigError(
            f"{exp.name} asks for {found.gradients} gradients in a round, and each would train "
            f"once more: {type(exp.problem).__name__} trains once in a round. Use DSGD, DSpodFL or "
            "another rule that asks once, and let the problem take more local steps itself."
        )


def _check_mixer(exp: Experiment, path: Path) -> None:
    if path not in ("auto", "matrix", "links"):
        raise ConfigError(f"path must be 'auto', 'matrix' or 'links', found '{path}'.")
    if path == "matrix" and exp.message.fit != "whole":
        raise ConfigError(
            f"path 'matrix' needs messages that carry whole rows, which {exp.message!r} does not. "
            "Use 'auto'."
        )

"""Trained models as safetensors files, with the names of their nn.Module; adapters as PEFT's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn

from .. import __version__
from ..config import spec_hash
from ..core import ConfigError, DataError, masses, mean_model
from ..experiment import Experiment
from ..language import write_adapter
from ..problems import Classification, Task
from ..problems.layout import RowLayout, trainable
from .store import RunFolder

__all__ = ["export_run", "has_statistics", "named_tensors", "write_model"]


def named_tensors(exp: Experiment, x: NDArray[np.floating]) -> dict[str, Tensor]:
    """Return a model as its module's state_dict, or as one tensor 'x' without a module.

    Buffers and frozen parameters are as the module makes them: peers do not train them (see
    `has_statistics`).
    """
    module = _module(exp, x)
    if module is None:
        return {"x": torch.from_numpy(np.array(x))}
    return {
        name: tensor.detach().clone().contiguous() for name, tensor in module.state_dict().items()
    }


def _module(exp: Experiment, x: NDArray[np.floating]) -> nn.Module | None:
    """The module of a model, in the run's type; None where the problem has none."""
    row, problem = torch.from_numpy(np.array(x)), exp.problem
    if not isinstance(problem, Classification | Task):
        return None
    module = problem.module(exp.seed)
    if not isinstance(problem, Task) or problem.precision == "run":
        module = module.to(row.dtype)
    RowLayout(module).load(row, trainable(module).values())
    return module


def has_statistics(exp: Experiment) -> bool:
    """Whether the module normalises by statistics of batches, which are not exported.

    Whoever uses the model must take them from samples of its own.
    """
    if not isinstance(exp.problem, Classification | Task):
        return False
    return any(
        isinstance(part, nn.modules.batchnorm._BatchNorm)
        for part in exp.problem.module(exp.seed).modules()
    )


def write_model(
    file: Path, exp: Experiment, x: NDArray[np.floating], facts: dict[str, str], peft: bool = False
) -> dict[str, str]:
    """Write a model with what is known of it; return the metadata of the file.

    With `peft`, `file` becomes a folder with the model's adapters, as PEFT reads them.
    """
    about = {
        "format": "pt",  # what other libraries look for
        "peerloom": __version__,
        "algorithm": type(exp.algorithm).__name__,
        "seed": str(exp.seed),
        "experiment": spec_hash(exp),
        **facts,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    if peft:
        write_adapter(_module(exp, x), file)
        (file / "peerloom.json").write_text(json.dumps(about, indent=2) + "\n")
    else:
        save_file(named_tensors(exp, x), file, metadata=about)
    return about


def export_run(
    folder: RunFolder, file: Path, row: int | None, peft: bool = False
) -> dict[str, str]:
    """Export the model of a run folder after its last saved round.

    It is that of one client, `row`, or the averaged model of all clients; `peft` as in
    `write_model`.
    """
    exp, at = folder.experiment(), folder.checkpoint()
    if at is None:
        raise DataError(
            f"{folder.path} has no state yet. Let the run save one, or finish: "
            f"peerloom run --resume {folder.path}"
        )
    x = at.state["x"][: exp.graph.clients]
    mass = masses(exp.algorithm, exp.graph, at.rows, at.state)[: len(x)]
    if row is not None and not 0 <= row < len(x):
        raise ConfigError(f"--row {row}: the run has {len(x)} clients, numbered from 0.")
    who = "mean of all clients" if row is None else f"client {row}"
    mean = mean_model(torch.from_numpy(np.array(x)), mass).numpy().astype(x.dtype)
    return write_model(
        file,
        exp,
        mean if row is None else x[row],
        {"round": str(at.t), "rounds": str(exp.rounds), "model": who},
        peft,
    )

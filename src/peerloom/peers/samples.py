"""A peer's own samples: brought to the experiment at the site, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..errors import ConfigError, DataError
from ..experiment import Experiment
from ..problems import Classification, Dataset
from ..problems.own import fill, read_samples
from ..registry import build

__all__ = ["leaves_data_to_sites", "with_samples"]


def leaves_data_to_sites(exp: Experiment) -> bool:
    """Whether every site is to bring its own samples."""
    return isinstance(exp.problem, Classification) and exp.problem.data.of_site


def with_samples(exp: Experiment, row: int, source: str, label: str = "") -> Experiment:
    """Return the experiment with this site's samples as its data; its hash does not change.

    `source` is a .csv or .npz file, or module:function. Without a source, an experiment that names
    its data, or a row that needs none, stays as it is.
    """
    problem = exp.problem
    if not source:
        if leaves_data_to_sites(exp) and row < exp.graph.clients:
            raise ConfigError(
                "The file leaves the data to every site (data 'own'). Give this site's: --data "
                "FILE.csv, --data FILE.npz or --data module:function"
            )
        return exp
    if not isinstance(problem, Classification) or not problem.data.of_site:
        raise ConfigError(
            "The file names the data itself, so --data would be ignored. Leave it out, or write "
            'data = { name = "own", features = N, classes = K } into the file, the same at every '
            "site."
        )
    if row >= exp.graph.clients:
        raise ConfigError("This peer is a hub, and hubs have no data. Leave --data out.")
    if label and not source.endswith(".csv"):
        raise ConfigError(
            f"--label names a column of a CSV file, and '{source}' is none. Leave it out."
        )
    samples = _load(problem.data, source, label)
    return replace(exp, problem=replace(problem, data=fill(problem.data, samples)))


def _load(declared: Dataset, source: str, label: str) -> Dataset:
    if source.endswith((".csv", ".npz")):
        return read_samples(declared, Path(source), label)
    if ":" not in source:
        raise ConfigError(f"--data '{source}': give a .csv or .npz file, or module:function.")
    made = build("data", source, "--data")
    if isinstance(made, Dataset):
        return made
    if isinstance(made, tuple) and len(made) in (2, 4):
        return Dataset.of(*made)
    raise DataError(
        f"--data {source} gave {type(made).__name__}; it must return a Dataset, or arrays: x, y or "
        "x, y, test_x, test_y."
    )

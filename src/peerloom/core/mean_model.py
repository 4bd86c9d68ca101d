"""The averaged model: how much each row counts in it. All that averages models asks here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .network import Network
from .rule import Rule
from .wire import columns_of

__all__ = ["judged_fields", "masses", "mean_model", "spread"]


def judged_fields(rule: Rule) -> tuple[str, ...]:
    """The fields of a rule's state that judging needs: the model, and how much it counts."""
    field = getattr(rule, "mass", None)
    return ("x",) if field is None else ("x", field)


def masses(
    rule: Rule, network: Network, rows: NDArray[np.int64], state: Mapping[str, Any]
) -> Tensor:
    """How much each of these rows counts in the averaged model, in float64: m_i = w_i s_i.

        averaged model = sum_i m_i x_i / sum_i m_i

    w_i  the graph's weight of the client, 1 in the mean; MLL-SGD's u_k = sum_i a_i x_i has the
         workers' weights. A hub counts nothing
    s_i  the column of the state that the rule names in its class variable `mass`, 1 where it names
         none. What push-sums preserve is the mean of w_i x_i, w the weights that were pushed

    A row's mass needs nothing of other rows, so a peer knows its own. Rules that pull with unequal
    weights, such as AB and Spod-GT, are averaged with equal ones: the Perron vector that their
    analyses average by belongs to the expected links, which no row knows.
    """
    weights = np.ones(network.clients) if network.weights is None else network.weights
    found = np.append(weights, np.zeros(network.hubs))[rows]
    for field in judged_fields(rule)[1:]:
        own = state[field]
        column = own.numpy(force=True) if isinstance(own, Tensor) else np.asarray(own)
        found = found * column[:, 0]
    return torch.from_numpy(found)


def mean_model(x: Tensor, mass: Tensor) -> Tensor:
    """The averaged model of rows with these masses, in float64."""
    mean = x.new_empty(x.shape[1], dtype=torch.float64)
    for columns in columns_of(x):
        mean[columns] = _mean(x[:, columns].double(), mass)
    return mean


def spread(x: Tensor, mass: Tensor) -> float:
    """sum_i m_i |x_i - averaged model|^2 / sum_i m_i: the consensus error."""
    apart = x.new_zeros(len(x), dtype=torch.float64)
    for columns in columns_of(x):
        part = x[:, columns].double()
        apart += (part - _mean(part, mass)).square().sum(dim=1)
    return float(mass.to(x.device) @ apart) / mass.sum().item()


def _mean(x: Tensor, mass: Tensor) -> Tensor:
    return (mass.to(x.device) @ x) / mass.sum().item()

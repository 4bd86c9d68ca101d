"""Any training: a model, a loss of (model, batch), a data set per client, metrics of a model."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import default_collate

from ..arguments import UNSAID, checked
from ..core import ConfigError, Draws, Placement, check_entries, is_number
from .generators import all_seeded, start_seed
from .layout import RowLayout, agreed_on, check_trainable
from .local_task import LocalTask
from .properties import Properties

__all__ = ["Task"]

Ids = NDArray[np.int64]


@checked
@dataclass(frozen=True, eq=False)
class Task:
    """(1/m) sum_i f_i(x), where f_i is the mean of loss(model, batch) over client i's batches.

    model       a function that makes an nn.Module, a new one each time; a row is its parameters
                that require a gradient, tied ones once. What is frozen, and buffers, are held once
                per process
    loss        (model, batch) -> the mean loss of the batch, one number with a gradient
    data        client -> its data set (len and getitem, as torch and Hugging Face have it), or a
                list with one for each client; asked for clients that live here only
    batch       samples per gradient, for all clients or one number for each; "all" takes all
    replace     whether a batch may hold a sample several times
    collate     makes a batch of a list of samples; by default torch's
    test        () -> the data set on which the loss is judged; without it, what clients here hold
    metrics     model -> numbers by name, in evaluation mode and without gradients. "loss" takes the
                place of the loss on `test`, "accuracy" is a share from 0 to 1, and others become
                columns of their own
    precision   "run": parameters and real numbers of batches have the run's type; "own": both are
                as they were made; "bfloat16": float32, computed under torch.autocast. Rows have the
                run's type in any case
    accumulate  parts into which a batch is cut, to be computed one after the other
    clip        gradients that are longer are shortened to this norm
    ahead       have a thread read the batches of the next round while rows mix

    What is drawn (batches, augmentation, dropout, the first model) is a function of seed, round and
    client, if it is drawn by the global generators of torch, NumPy and Python. Buffers that change
    in training are put back after every gradient; statistics of batch norm are taken anew from the
    clients' samples whenever models are judged.
    """

    model: Callable[[], nn.Module]
    loss: Callable[[nn.Module, Any], Tensor]
    data: Callable[[int], Any] | tuple[Any, ...]
    batch: int | Literal["all"] | tuple[int, ...] = 16
    replace: bool = True
    collate: Callable[[list[Any]], Any] = field(default=default_collate, metadata=UNSAID)
    test: Callable[[], Any] | None = None
    metrics: Callable[[nn.Module], Mapping[str, float]] | None = None
    precision: Literal["run", "own", "bfloat16"] = "run"
    accumulate: int = 1
    clip: float | None = None
    ahead: bool = False
    # How a file said it, where a function of the user's own made it.
    recipe: Mapping[str, Any] | None = field(default=None, init=False, repr=False)
    per_client: ClassVar[tuple[str, ...]] = ("batch", "data")

    def __post_init__(self) -> None:
        if isinstance(self.model, nn.Module):
            raise ConfigError(
                "Task.model is a module. Give a function that makes one, so that a seed can start "
                "it."
            )
        if self.batch != "all":
            check_entries(self, "batch", _is_size, 'at least 1 sample, or "all"')
        elif not self.replace:
            raise ConfigError(
                'Task.replace has no effect with batch "all", which holds every sample once. Leave '
                "it out, or give a batch."
            )
        if self.accumulate < 1:
            raise ConfigError(f"Task.accumulate must be at least 1, found {self.accumulate}.")
        if self.batch != "all" and np.min(self.batch) < self.accumulate:
            raise ConfigError(
                f"Task.accumulate is {self.accumulate}, but a batch has {np.min(self.batch)} "
                "samples, and so no more parts than that."
            )
        if self.clip is not None and not self.clip > 0:
            raise ConfigError(f"Task.clip must be above 0, found {self.clip}.")

    def made_by(self, recipe: Mapping[str, Any]) -> Task:
        """The same task, which a file names by this recipe."""
        named = copy.copy(self)
        object.__setattr__(named, "recipe", recipe)
        return named

    def module(self, seed: int) -> nn.Module:
        """The module with its own initialisation, as a function of the seed."""
        with all_seeded(start_seed(seed)):
            module = self.model()
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"Task.model gave {type(module).__name__}, but it must make an nn.Module."
            )
        before: weakref.ref[nn.Module] | None = getattr(self, "_made", None)
        if before is not None and before() is module:
            raise ConfigError(
                "Task.model gave the same module twice. Make a new one each time, such as "
                "copy.deepcopy(model): two runs must not train one another's."
            )
        object.__setattr__(self, "_made", weakref.ref(module))
        check_trainable(module, "Task")
        return module

    @cached_property
    def _layout(self) -> RowLayout:
        return RowLayout(self.module(0))

    @property
    def n(self) -> int:
        """Trainable parameters of the model."""
        return self._layout.n

    def agreed(self, seed: int) -> str:
        """A hash of what peers must have alike beside the experiment's file."""
        return agreed_on(self.module(seed))

    def spans(self, *words: str) -> tuple[tuple[int, int], ...]:
        """Where the parameters lie in a row whose names have one of these words between dots.

        >>> net = Task(lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), print, ((),))
        >>> net.spans("0"), net.spans("bias")
        (((0, 9),), ((6, 9), (12, 13)))
        """
        return self._layout.spans(words)

    def start(self, seed: int) -> Tensor:
        """The trainable parameters as the model initialises them, one start for all clients."""
        return RowLayout.row_of(self.module(seed))

    def bind(self, place: Placement, draws: Draws) -> LocalTask:
        """The clients of `place`."""
        return LocalTask(self, place, draws)

    def batch_sizes(self, clients: int) -> Ids | None:
        """How many samples every client's batch has; None where it is all of them."""
        if self.batch == "all":
            return None
        return np.broadcast_to(np.asarray(self.batch, np.int64), clients)

    def properties(self, clients: int, seed: int = 0) -> Properties:
        """Little is known of a loss of one's own: whether its gradients are on all samples."""
        return Properties(full_batch=self.batch == "all")


def _is_size(batch: Any) -> bool:
    return is_number(batch, least=1) and int(batch) == batch

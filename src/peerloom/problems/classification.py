"""Learning from data: a model, a loss, samples dealt to clients, and mini-batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ..arguments import UNSAID, checked
from ..core import (
    ConfigError,
    Draws,
    Placement,
    check_entries,
    check_lengths,
    is_number,
    nearest,
)
from .data import Dataset, digits
from .generators import seeded, start_seed
from .layout import RowLayout
from .linear import design, linear_curvature, linear_layer, linear_quadratics
from .local import LocalClassification
from .losses import LOSSES, Loss, own_loss
from .models import MODELS, Model
from .partitions import IID, Partition
from .properties import Curvature, Properties, Quadratics
from .regularisers import Regulariser, weak_convexity

__all__ = ["Classification"]

Ids = NDArray[np.int64]
Strategy = Literal["auto", "closed", "vmap", "loop"]


@checked
@dataclass(frozen=True, eq=False)
class Classification:
    """(1/m) sum_i f_i(x) + h(x), where f_i is the mean loss of a model on client i's samples.

    model      a name ("svm", "mlp", "cnn", "resnet18", ...; `peerloom list models`), a Model, or
               your own factory of nn.Module that takes no arguments
    data       a Dataset; `Dataset.of(x, y)` makes one of your arrays
    partition  how samples are dealt to clients
    batch      samples per gradient, for all clients or one number for each; "all" takes all of a
               client's samples
    replace    whether a batch may hold a sample several times; without replacement once at the most
    loss       a name, by default the model's own, or cross-entropy; or your own function of scores
               and labels [batch, ...], which gives their mean loss, or that of each sample
    l2         adds l2/2 |x|^2 to every f_i (a smooth term; `h` is the one with a proximal step)
    strategy   how gradients are computed; "auto" takes the fastest that fits
    outputs    scores per sample, where a paper's model has more than the data have classes, or your
               own loss wants others than the labels suggest
    metrics    your own function of scores and labels, which gives numbers by name

    Models are judged on the data's test part: loss with l2 and h, accuracy where labels are
    classes, and your metrics. Samples with several labels, or targets of any shape, need a loss of
    your own.
    """

    model: str | Model | Callable[[], nn.Module] = "softmax"
    data: Dataset = field(default_factory=digits)
    partition: Partition = field(default_factory=IID)
    # None is "all", as a file cannot say it.
    batch: int | Literal["all"] | tuple[int, ...] | None = 16
    loss: str | Callable[[Tensor, Tensor], Tensor] | None = None
    l2: float = 0.0
    h: Regulariser | None = None
    strategy: Strategy = "auto"
    outputs: int | None = None
    replace: bool = field(default=True, metadata=UNSAID)
    metrics: Callable[[Tensor, Tensor], Mapping[str, float]] | None = None
    per_client: ClassVar[tuple[str, ...]] = ("batch",)

    def __post_init__(self) -> None:
        if self.batch is None:
            object.__setattr__(self, "batch", "all")
        if self.batch != "all":
            check_entries(self, "batch", _is_size, 'at least 1 sample, or "all"')
        elif not self.replace:
            raise ConfigError(
                'Classification.replace has no effect with batch "all", which holds every sample '
                "once. Leave it out, or give a batch."
            )
        if isinstance(self.model, nn.Module):
            raise ConfigError(
                "Classification.model is a module. Give a function that makes one, so that a seed "
                "can start it."
            )
        if self.l2 < 0:
            raise ConfigError(f"Classification.l2 must not be negative, found {self.l2}.")
        for what, name, known in (("model", self.model, MODELS), ("loss", self.loss, LOSSES)):
            if isinstance(name, str) and name not in known:
                raise ConfigError(
                    f"Classification.{what}: there is no {what} '{name}'. {nearest(name, known)}"
                )
        self._check_data()

    def _check_data(self) -> None:
        """Refuse data that do not go with the loss, the partition or the outputs."""
        name = self.loss_name
        if name is not None and self.data.y.ndim > 1:
            raise ConfigError(
                f"Data '{self.data.name}' have {list(self.data.y.shape[1:])} labels for each "
                f"sample, but the loss '{name}' takes one. Give a function of scores and labels."
            )
        if name is not None and not self.data.classes and name != "squared":
            raise ConfigError(
                f"Data '{self.data.name}' have real targets, but the loss is '{name}'. Use model "
                "'least_squares', or a loss of your own."
            )
        if name == "logistic" and self.data.classes != 2:
            raise ConfigError(
                f"The logistic loss needs labels 0 and 1, but '{self.data.name}' has "
                f"{self.data.classes} classes."
            )
        if self.data.of_site and self.partition != IID():
            raise ConfigError(
                "Classification.partition: every site brings its own samples, so there is nothing "
                "to deal."
            )
        if name is None or self.outputs is None:
            return
        if LOSSES[name].one_output:
            raise ConfigError(
                f"Classification.outputs: the loss '{name}' has one score per sample. Leave it out."
            )
        if self.outputs < self.data.classes:
            raise ConfigError(
                f"Classification.outputs is {self.outputs}, but '{self.data.name}' has "
                f"{self.data.classes} classes."
            )

    @property
    def loss_name(self) -> str | None:
        """The name of the loss; None where it is your own."""
        if self.loss is not None:
            return self.loss if isinstance(self.loss, str) else None
        model = MODELS[self.model]() if isinstance(self.model, str) else self.model
        return model.loss if isinstance(model, Model) else "cross_entropy"

    @property
    def loss_in_force(self) -> Loss:
        """The loss itself."""
        if (name := self.loss_name) is not None:
            return LOSSES[name]
        assert not isinstance(self.loss, str | None)
        return own_loss(self.loss, bool(self.data.classes) and self.data.y.ndim == 1)

    @property
    def _outputs(self) -> int:
        """Scores per sample of a model that is built by name."""
        if self.loss_name is not None and LOSSES[self.loss_name].one_output:
            return 1
        return self.outputs or self.data.classes or math.prod(self.data.y.shape[1:])

    @property
    def n(self) -> int:
        """Parameters of the model."""
        return RowLayout(self.module(seed=0)).n

    def module(self, seed: int) -> nn.Module:
        """The module with its own initialisation, as a function of the seed."""
        model = MODELS[self.model]() if isinstance(self.model, str) else self.model
        with seeded(start_seed(seed)):
            module = (
                model.build(self.data.x.shape[1:], self._outputs)
                if isinstance(model, Model)
                else model()
            )
        if not RowLayout(module).n:
            raise ConfigError(f"Model {self.model!r} has no parameters to train.")
        if frozen := [
            name for name, parameter in module.named_parameters() if not parameter.requires_grad
        ]:
            raise ConfigError(
                f"Parameter '{frozen[0]}' of model {self.model!r} is frozen, but a row holds all "
                "parameters and rules move all of them. Register what must not move as a buffer."
            )
        return module

    def start(self, seed: int) -> Tensor:
        """The module's own initialisation, one for all clients."""
        return RowLayout.row_of(self.module(seed))

    def bind(self, place: Placement, draws: Draws) -> LocalClassification:
        """The samples of the rows of `place`."""
        return LocalClassification(self, place, draws)

    def batch_sizes(self, clients: int) -> Ids | None:
        """How many samples every client's batch has; None where it is all of them."""
        if self.batch == "all":
            return None
        check_lengths(self, clients)
        return np.broadcast_to(np.asarray(self.batch, np.int64), clients)

    def with_full_batches(self) -> Classification:
        """The same problem with all samples of a client in every gradient."""
        return self if self.batch == "all" else replace(self, batch="all", replace=True)

    def properties(self, clients: int, seed: int = 0) -> Properties:
        """What the data, their partition and the model tell; closed forms for one linear layer."""
        data, loss, layer = self.data, self.loss_in_force, linear_layer(self.module(seed=0))
        if loss.slope is None:
            layer = None  # of a loss of one's own there is no closed form

        def sides(layer: nn.Linear) -> list[NDArray[np.float64]]:
            return design(layer, data.x, self.deal(clients, Draws(seed)))

        def quadratic(layer: nn.Linear) -> Quadratics:
            targets = [data.y[part].astype(np.float64) for part in self.deal(clients, Draws(seed))]
            return linear_quadratics(sides(layer), targets, self.l2)

        def curvature(layer: nn.Linear) -> Curvature:
            return linear_curvature(sides(layer), loss, self.l2)

        return Properties(
            iid=bool(getattr(self.partition, "iid", False)),
            full_batch=self.batch == "all",
            noise_shares=partial(self._noise_shares, clients, seed)
            if isinstance(self.batch, tuple) or not self.replace
            else None,
            size=data.x.size,
            samples=len(data.y),
            whole=self.with_full_batches(),
            quadratic=partial(quadratic, layer) if layer is not None and loss.quadratic else None,
            curvature=None if layer is None else partial(curvature, layer),
            weak_convexity=weak_convexity(self.h),
        )

    def _noise_shares(self, clients: int, seed: int) -> NDArray[np.float64]:
        """1 / B_i, or (1 - B_i / D_i) / B_i without replacement (Spod-GT, Assumption 4.2)."""
        sizes = self.batch_sizes(clients)
        assert sizes is not None
        if self.replace:
            return 1 / sizes
        held = np.array([len(part) for part in self.deal(clients, Draws(seed))])
        return np.asarray((1 - sizes / held) / sizes)

    def deal(self, clients: int, draws: Draws) -> list[Ids]:
        """The numbers of the samples of every client."""
        data = self.data
        if getattr(self.partition, "by", "labels") == "labels":
            return self.partition.deal(data.y, clients, draws)
        if data.owners is None:
            raise ConfigError(
                f"Partition {type(self.partition).__name__} needs data whose samples have owners, "
                f"which '{data.name}' have not. Use heart-disease or mnist-writers, "
                "Dataset.of(..., owners=...), or another partition."
            )
        return self.partition.deal(data.owners, clients, draws)

    def holdings(self, clients: int, draws: Draws) -> list[list[int]]:
        """By class and client, how many samples are held.

        Nothing where samples have no class, or several, or every site has its own.
        """
        if not self.data.classes or self.data.of_site or self.data.y.ndim > 1:
            return []
        held = [
            np.bincount(self.data.y[part], minlength=self.data.classes)
            for part in self.deal(clients, draws)
        ]
        return np.stack(held, axis=1).tolist()  # type: ignore[no-any-return]


def _is_size(batch: Any) -> bool:
    return is_number(batch, least=1) and int(batch) == batch

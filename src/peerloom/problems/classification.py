"""Learning from data: a model, a loss, samples dealt to clients, and mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..core import ConfigError, Draws, Evaluation, Placement, nearest, uniform
from .data import Dataset, digits
from .gradients import STRATEGIES, BatchNorm, ClosedForm, Seeds, choose, parameter_count
from .linear import design, linear_curvature, linear_layer, linear_quadratics
from .losses import LOSSES
from .models import MODELS, Model
from .partitions import IID, Partition
from .properties import Curvature, Properties, Quadratics
from .regularisers import Regulariser, Zero, weak_convexity

__all__ = ["Classification"]

Ids = NDArray[np.int64]
Strategy = Literal["auto", "closed", "vmap", "loop"]


@dataclass(frozen=True, eq=False)
class Classification:
    """(1/m) sum_i f_i(x) + h(x), where f_i is the mean loss of a model on client i's samples.

    model      a name ("svm", "mlp", "cnn", "resnet18", ...; `peerloom list models`), a Model, or your own factory of
               nn.Module that takes no arguments
    data       a Dataset; `Dataset.of(x, y)` makes one of your arrays
    partition  how samples are dealt to clients
    batch      samples per gradient, drawn with replacement; "all" takes all of a client's samples
    loss       a name; by default the model's own, or cross-entropy
    l2         adds l2/2 |x|^2 to every f_i (a smooth term; `h` is the one with a proximal step)
    strategy   how gradients are computed; "auto" takes the fastest that fits
    outputs    scores per sample, where a paper's model has more than the data have classes

    Models are judged on the data's test part: loss with l2 and h, and accuracy where labels are classes.
    """

    model: str | Model | Callable[[], nn.Module] = "softmax"
    data: Dataset = field(default_factory=digits)
    partition: Partition = field(default_factory=IID)
    batch: int | Literal["all"] | None = 16  # None is "all", as a file cannot say it
    loss: str | None = None
    l2: float = 0.0
    h: Regulariser | None = None
    strategy: Strategy = "auto"
    outputs: int | None = None

    def __post_init__(self) -> None:
        if self.batch is None:
            object.__setattr__(self, "batch", "all")
        if self.batch != "all" and (not isinstance(self.batch, int) or self.batch < 1):
            raise ConfigError(f'Classification.batch must be at least 1 sample, or "all"; found {self.batch!r}.')
        if isinstance(self.model, nn.Module):
            raise ConfigError(
                "Classification.model is a module. Give a function that makes one, so that a seed can start it."
            )
        if self.l2 < 0:
            raise ConfigError(f"Classification.l2 must not be negative, found {self.l2}.")
        for what, name, known in (("model", self.model, MODELS), ("loss", self.loss, LOSSES)):
            if isinstance(name, str) and name not in known:
                raise ConfigError(f"Classification.{what}: there is no {what} '{name}'. {nearest(name, known)}")
        if self.strategy not in ("auto", *STRATEGIES):
            raise ConfigError(f"Classification.strategy '{self.strategy}': {nearest(self.strategy, ['auto', *STRATEGIES])}")
        if not self.data.classes and self.loss_name != "squared":
            raise ConfigError(
                f"Data '{self.data.name}' have real targets, but the loss is '{self.loss_name}'. Use model 'least_squares'."
            )
        if self.loss_name == "logistic" and self.data.classes != 2:
            raise ConfigError(
                f"The logistic loss needs labels 0 and 1, but '{self.data.name}' has {self.data.classes} classes."
            )

        if self.data.of_site and self.partition != IID():
            raise ConfigError("Classification.partition: every site brings its own samples, so there is nothing to deal.")
        if self.outputs is not None and LOSSES[self.loss_name].one_output:
            raise ConfigError(f"Classification.outputs: the loss '{self.loss_name}' has one score per sample. Leave it out.")
        if self.outputs is not None and self.outputs < self.data.classes:
            raise ConfigError(
                f"Classification.outputs is {self.outputs}, but '{self.data.name}' has {self.data.classes} classes."
            )

    @property
    def loss_name(self) -> str:
        """The loss in force."""
        if self.loss is not None:
            return self.loss
        model = MODELS[self.model]() if isinstance(self.model, str) else self.model
        return model.loss if isinstance(model, Model) else "cross_entropy"

    @property
    def n(self) -> int:
        """Parameters of the model."""
        return parameter_count(self.module(seed=0))

    def module(self, seed: int) -> nn.Module:
        """The module with its own initialisation, as a function of the seed."""
        outputs = 1 if LOSSES[self.loss_name].one_output else self.outputs or self.data.classes
        model = MODELS[self.model]() if isinstance(self.model, str) else self.model
        # Modules initialise themselves from torch's generator: give it a seed of ours and put it back afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(uniform(seed, "start", 0, np.zeros(1, np.int64))[0, 0] * 2**53))
            module = model.build(self.data.x.shape[1:], outputs) if isinstance(model, Model) else model()
        if not parameter_count(module):
            raise ConfigError(f"Model {self.model!r} has no parameters to train.")
        if frozen := [name for name, parameter in module.named_parameters() if not parameter.requires_grad]:
            raise ConfigError(
                f"Parameter '{frozen[0]}' of model {self.model!r} is frozen, but a row holds all parameters and rules move "
                "all of them. Register what must not move as a buffer."
            )
        return module

    def start(self, seed: int) -> Tensor:
        """The module's own initialisation, one for all clients."""
        with torch.no_grad():
            return torch.cat([parameter.double().flatten() for parameter in self.module(seed).parameters()])

    def bind(self, place: Placement, draws: Draws) -> LocalClassification:
        """The samples of the rows of `place`."""
        return LocalClassification(self, place, draws)

    def properties(self, clients: int, seed: int = 0) -> Properties:
        """What the data, their partition and the model tell; closed forms for one linear layer."""
        data, loss, layer = self.data, LOSSES[self.loss_name], linear_layer(self.module(seed=0))
        full_batch = self.batch == "all"

        def sides(layer: nn.Linear) -> list[NDArray[np.float64]]:
            return design(layer, data.x, self.deal(clients, Draws(seed)))

        def quadratic(layer: nn.Linear) -> Quadratics:
            targets = [data.y[part].astype(np.float64) for part in self.deal(clients, Draws(seed))]
            return linear_quadratics(sides(layer), targets, self.l2)

        def curvature(layer: nn.Linear) -> Curvature:
            return linear_curvature(sides(layer), loss, self.l2)

        return Properties(
            iid=bool(getattr(self.partition, "iid", False)),
            full_batch=full_batch,
            size=data.x.size,
            samples=len(data.y),
            whole=self if full_batch else replace(self, batch="all"),
            quadratic=partial(quadratic, layer) if layer is not None and loss.quadratic else None,
            curvature=None if layer is None else partial(curvature, layer),
            weak_convexity=weak_convexity(self.h),
        )

    def deal(self, clients: int, draws: Draws) -> list[Ids]:
        """The numbers of the samples of every client."""
        data = self.data
        if getattr(self.partition, "by", "labels") == "labels":
            return self.partition.deal(data.y, clients, draws)
        if data.owners is None:
            raise ConfigError(
                f"Partition {type(self.partition).__name__} needs data whose samples have owners, which '{data.name}' have "
                "not. Use heart-disease or mnist-writers, Dataset.of(..., owners=...), or another partition."
            )
        return self.partition.deal(data.owners, clients, draws)

    def holdings(self, clients: int, draws: Draws) -> list[list[int]]:
        """By class and client, how many samples are held; nothing where there are no classes, or every site has its own."""
        if not self.data.classes or self.data.of_site:
            return []
        held = [np.bincount(self.data.y[part], minlength=self.data.classes) for part in self.deal(clients, draws)]
        return np.stack(held, axis=1).tolist()  # type: ignore[no-any-return]


class LocalClassification:
    """The samples of the rows that live here; the data themselves are held once, whatever the number of rows."""

    _LARGE = 1 << 18  # bytes of a batch from which on rows go one by one (two cores)
    _CALIBRATION_SIZE = 256  # samples of each client that batch norm takes its statistics from at evaluation

    def __init__(self, problem: Classification, place: Placement, draws: Draws) -> None:
        self._problem, self._place, self._draws = problem, place, draws
        data, self._loss = problem.data, LOSSES[problem.loss_name]
        if not len(data.y) and len(place.rows):
            raise ConfigError(
                "The file leaves the data to every site (data 'own'), and none are here. At a site: peerloom peer start "
                "FILE --data SAMPLES. To simulate, name data in the file."
            )
        self._inputs, self._labels = self._tensors(data.x, data.y)
        judged = (data.x, data.y) if data.test_x is None or data.test_y is None else (data.test_x, data.test_y)
        self._test_inputs, self._test_labels = self._tensors(*judged)
        self.parts = self._deal()
        self._sizes = np.array([len(part) for part in self.parts], np.int64)
        self._flat = np.concatenate([np.zeros(0, np.int64), *self.parts])  # a hub has no part
        self._offsets = np.cumsum(self._sizes) - self._sizes
        module = problem.module(draws.seed).to(place.device, place.dtype)
        self._batch = problem.batch if isinstance(problem.batch, int) else None
        batch = self._batch or int(self._sizes.max(initial=1))
        self._check(module, least=self._batch or min(self._sizes.tolist(), default=2))
        self.strategy = choose(problem.strategy, module, self._loss, self._inputs[:1], batch)
        self._gradients = STRATEGIES[self.strategy](module, self._loss)
        self._h = problem.h or Zero()
        large = self._batch is None or self._batch * self._inputs[:1].nbytes >= self._LARGE
        self._one_by_one: ClosedForm | None = None
        if large and isinstance(self._gradients, ClosedForm) and self._gradients.one_layer:
            self._one_by_one = self._gradients
        self._blocks: dict[int, tuple[Tensor, Tensor]] = {}
        self._exact: LocalClassification | None = None  # itself, on all samples

    def grad(self, x: Tensor, on: Ids, t: int, batch: int = 0) -> Tensor:
        """The mean gradient over each row's batch of round t."""
        of = f"/{batch}" if batch else ""
        mine = x if len(on) == x.shape[0] else x[torch.from_numpy(on).to(x.device)]

        def seeds(only: slice = slice(None)) -> list[int]:
            return [int(u * 2**53) for u in self._draws(f"module{of}", t, self._place.rows)[on[only], 0]]

        if self._one_by_one is not None:
            batches = self._whole(on) if self._batch is None else self._drawn(self._picks(on, t, of, self._batch))
            g = self._one_by_one.one_by_one(mine, batches)
        elif self._batch is not None:
            g = self._of(mine, self._picks(on, t, of, self._batch), seeds)
        elif len(set(self._sizes[on])) == 1:
            g = self._of(mine, np.stack([self.parts[i] for i in on]), seeds)
        else:  # all samples, of clients that hold different numbers of them
            each = [slice(k, k + 1) for k in range(len(on))]
            g = torch.cat([self._of(mine[k], self.parts[on[k][0]][None], partial(seeds, k)) for k in each])
        return g.add_(mine, alpha=self._problem.l2) if self._problem.l2 else g

    def whole_gradients(self, x: Tensor) -> Tensor:
        """Each row's gradient on all of its samples."""
        if self._exact is None:
            self._exact = replace(self._problem, batch="all").bind(self._place, self._draws)
        return self._exact.grad(x, np.arange(len(x)), 0)

    def prox(self, z: Tensor, step: float) -> Tensor:
        """Of h."""
        return self._h.prox(z, step)

    @torch.no_grad()
    def evaluate(self, x: Tensor) -> Evaluation:
        """Test loss with l2 and h, and accuracy where there are classes."""
        penalty = self._problem.l2 / 2 * x.square().sum(dim=1) + self._h.value(x)
        losses, rates = [], []
        for scores in self._gradients.scores(x, self._test_inputs, self._calibration):
            losses.append(self._loss.value(scores, self._test_labels).mean())
            if self._loss.correct is not None:
                rates.append(self._loss.correct(scores, self._test_labels).double().mean())
        loss = (torch.stack(losses) + penalty).double().cpu().numpy()
        return Evaluation(loss, torch.stack(rates).cpu().numpy() if rates else None)

    def _check(self, module: nn.Module, least: int) -> None:
        """One sample must give one row of scores, wide enough for the loss; batch norm needs two samples."""
        if least < 2 and any(isinstance(part, BatchNorm) for part in module.modules()):
            raise ConfigError("Batch norm cannot learn from one sample. Use a batch of 2 at least, or group norm.")
        shape = tuple(self._inputs.shape[1:])
        try:
            with torch.no_grad():
                found = tuple(module.eval()(self._inputs[:1]).shape)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise ConfigError(f"The model cannot take samples of shape {shape}: {error}.") from error
        wanted = 1 if self._loss.one_output else self._problem.data.classes
        fits = len(found) == 2 and (found[1] == 1 if self._loss.one_output else found[1] >= wanted)
        if not fits:
            raise ConfigError(
                f"For one sample the model gives scores of shape {list(found)}, "
                f"but loss '{self._loss.name}' needs [1, {wanted}]."
            )

    def _calibration(self) -> list[Tensor]:
        """Some samples of each client; one alone has no variance."""
        some = [part[: self._CALIBRATION_SIZE] for part in self.parts if len(part) > 1]
        return [self._inputs[torch.from_numpy(part)] for part in some]

    def _picks(self, on: Ids, t: int, of: str, batch: int) -> Ids:
        """The numbers of the samples in the batches of rows `on`, [k, batch]."""
        some = slice(None) if len(on) == len(self.parts) else on  # a slice copies nothing
        u = self._draws(f"batch{of}", t, self._place.rows, batch)[some]
        picks: Ids = self._flat[self._offsets[some, None] + (u * self._sizes[some, None]).astype(np.int64)]
        return picks

    def _whole(self, on: Ids) -> Iterator[tuple[Tensor, Tensor]]:
        """All samples of each row, in blocks that are made once."""
        for i in on:
            if i not in self._blocks:
                places = torch.from_numpy(self.parts[i]).to(self._inputs.device)
                self._blocks[i] = self._inputs[places].flatten(1), self._labels[places]
            yield self._blocks[i]

    def _drawn(self, picks: Ids) -> Iterator[tuple[Tensor, Tensor]]:
        """These samples, row after row, each row's in the memory of the one before."""
        places = torch.from_numpy(picks).to(self._inputs.device)
        labels, inputs = self._labels[places], self._inputs.flatten(1)
        held = inputs.new_empty(picks.shape[1], inputs.shape[1])
        for k, chosen in enumerate(places):
            yield torch.index_select(inputs, 0, chosen, out=held), labels[k]

    def _of(self, x: Tensor, picks: Ids, seeds: Seeds) -> Tensor:
        """Gradients on these samples, of all rows at once."""
        flat = torch.from_numpy(picks.reshape(-1)).to(x.device)
        inputs = self._inputs.index_select(0, flat).view(*picks.shape, *self._inputs.shape[1:])
        return self._gradients.gradients(x, inputs, self._labels.index_select(0, flat).view(picks.shape), seeds)

    def _deal(self) -> list[Ids]:
        """The samples of each row here; what a site has brought is all its own."""
        data = self._problem.data
        if data.of_site:
            return [np.arange(len(data.y)) for _ in self._place.rows]
        parts = self._problem.deal(self._place.of, self._draws)
        return [parts[i] for i in self._place.rows]

    def _tensors(self, x: NDArray[np.float32], y: NDArray[np.generic]) -> tuple[Tensor, Tensor]:
        whole = bool(self._problem.data.classes)
        inputs = torch.from_numpy(np.ascontiguousarray(x)).to(self._place.device, self._place.dtype)
        labels = torch.from_numpy(np.ascontiguousarray(y)).to(
            self._place.device, torch.int64 if whole else self._place.dtype
        )
        return inputs, labels

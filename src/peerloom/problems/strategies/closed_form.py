"""Gradients of linear layers with or without ReLU, by batched matrix products."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ...core import ConfigError
from ..losses import Loss
from .gradients import Batches, Seeds
from .row_loop import RowLoop

__all__ = ["ClosedForm", "dense_layers"]


class ClosedForm:
    """A few batched products for all models, written straight into the rows of the gradients.

    Everything between is kept as [k, width, batch]: a batch is longer than the number of classes,
    so products and softmax are faster than the other way round. `bench --case softmax-100` and
    `mlp-100` measure it in whole rounds, `bench --case gradients` against `RowLoop`.
    """

    # Into a target that is not one block of memory, as the weights in the rows are, torch
    # multiplies model after model. For fewer weights per model than this, the calls cost more than
    # one product into a block and a copy.
    COPY_BELOW = 1 << 15
    JUDGED_TOGETHER = 64  # models per product of `scores`: more make it no faster, only larger

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        layers = dense_layers(module)
        if not layers:
            raise ConfigError(
                "strategy 'closed' needs linear layers and ReLU, but the model has more. Use "
                "'vmap', 'loop' or 'auto'."
            )
        if loss.slope is None:
            raise ConfigError(
                f"strategy 'closed' needs a loss whose derivative is known, and '{loss.name}' is "
                "your own. Use 'vmap', 'loop' or 'auto'."
            )
        self._module, self.slope = module, loss.slope
        self._relu = [relu for _, relu in layers]
        self._shapes = [
            (layer.out_features, layer.in_features, layer.bias is not None) for layer, _ in layers
        ]

    def gradients(self, x: Tensor, inputs: Tensor, labels: Tensor, seeds: Seeds) -> Tensor:
        """Scores forward, slopes of the scores backward."""
        if labels.shape == (1, 1):
            # One matrix times one column goes another way through torch, to other roundings.
            x, inputs, labels = (part.expand(2, *part.shape[1:]) for part in (x, inputs, labels))
            return self.gradients(x, inputs, labels, seeds)[:1]
        layers = self.layers_of(x)
        kept = self._forward(layers, inputs.flatten(2).transpose(1, 2))
        slope = self.slope(kept[-1].transpose(1, 2), labels)
        slope = slope.div_(labels.shape[1]).transpose(1, 2)
        g = torch.empty_like(x, memory_format=torch.contiguous_format)
        found = self.layers_of(g)
        for k in reversed(range(len(layers))):
            if self._relu[k]:
                slope *= kept[k + 1] > 0
            self._backward(found[k], slope, kept[k])
            if k:
                slope = torch.bmm(layers[k][0].transpose(1, 2), slope)
        return g

    def _forward(self, layers: list[tuple[Tensor, Tensor | None]], inputs: Tensor) -> list[Tensor]:
        """What goes into every layer, and the scores."""
        kept = [inputs]
        for (weight, bias), relu in zip(layers, self._relu, strict=True):
            out = (
                torch.bmm(weight, kept[-1])
                if bias is None
                else torch.baddbmm(bias.unsqueeze(2), weight, kept[-1])
            )
            kept.append(out.relu_() if relu else out)
        return kept

    def _backward(self, layer: tuple[Tensor, Tensor | None], slope: Tensor, inputs: Tensor) -> None:
        """Write the gradient of one layer's weights and bias."""
        weight, bias = layer
        if weight[0].numel() < self.COPY_BELOW:
            weight.copy_(torch.bmm(slope, inputs.transpose(1, 2)))
        else:
            torch.bmm(slope, inputs.transpose(1, 2), out=weight)
        if bias is not None:
            torch.sum(slope, dim=2, out=bias)

    @property
    def one_layer(self) -> bool:
        """Whether the scores are linear in the row."""
        return self._relu == [False]

    def scores(self, x: Tensor, inputs: Tensor, calibration: Batches) -> Iterator[Tensor]:
        """One matrix product for many linear models; deeper ones model after model."""
        if len(self._shapes) > 1:
            yield from RowLoop(self._module, None).scores(x, inputs, calibration)
            return
        flat = inputs.flatten(1)
        for some in torch.split(x, self.JUDGED_TOGETHER):
            ((weight, bias),) = self.layers_of(some)
            product = weight.reshape(-1, flat.shape[1]) @ flat.T
            # Each class in one block: losses and the best class are then faster.
            for k, scores in enumerate(product.view(len(some), -1, len(flat))):
                yield (scores if bias is None else scores + bias[k, :, None]).T

    def layers_of(self, x: Tensor) -> list[tuple[Tensor, Tensor | None]]:
        """Weights [k, outputs, inputs] and bias [k, outputs] of every layer, as views of rows."""
        parts, at = [], 0
        for outputs, features, biased in self._shapes:
            weight = x[:, at : at + outputs * features].view(x.shape[0], outputs, features)
            at += outputs * features
            parts.append((weight, x[:, at : at + outputs] if biased else None))
            at += outputs * biased
        return parts


def dense_layers(module: nn.Module) -> list[tuple[nn.Linear, bool]]:
    """The linear layers in order, each with whether ReLU follows.

    Empty where the module has any other part.
    """
    layers: list[tuple[nn.Linear, bool]] = []
    for _, part in module.named_modules(
        remove_duplicate=False
    ):  # one ReLU may stand in several places
        if type(part) is nn.Linear and all(part is not layer for layer, _ in layers):
            layers.append((part, False))
        elif type(part) is nn.ReLU and layers:
            layers[-1] = (layers[-1][0], True)
        elif type(part) is not nn.Sequential and not (
            type(part) is nn.Flatten and part.start_dim == 1
        ):
            return []
    return layers

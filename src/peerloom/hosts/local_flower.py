"""The clients of a Flower app that live here, each with a state of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import ConfigError, DivergedError, Draws, Evaluation, Placement
from ..problems.generators import all_seeded
from ..problems.metrics import columns, named_numbers
from .messages import Messages, Reply

if TYPE_CHECKING:
    from .flower import FlowerApp

__all__ = ["LocalFlowerApp"]

Ids = NDArray[np.int64]


class LocalFlowerApp:
    """Sends the messages that a Flower server would send, one client after the other.

    A client's context is made anew for every message from the bytes of its state, so that it is the
    same whether or not its process was killed in between.
    """

    def __init__(self, app: FlowerApp, place: Placement, draws: Draws) -> None:
        self._app, self._place, self._draws = app, place, draws
        self._messages = Messages(app.app, app.arrays.names)
        extra = app.node_config or (lambda client: {})
        self._nodes = [
            {**extra(i), "partition-id": i, "num-partitions": place.of} for i in place.rows.tolist()
        ]
        self._states = [b""] * len(self._nodes)
        self._asked = [-1] * len(self._nodes)  # the last round in which each has trained
        self.reported: dict[int, dict[str, Any]] = {}
        """What each client's training returned beside the model, the last time."""

    def grad(self, x: Tensor, on: Ids, t: int, batch: int = 0) -> Tensor:
        """x - fit(x) of the rows `on`, whose apps train now; refuses a second time in a round."""
        seeds = self._draws("program", t, self._place.rows)[:, 0]
        g = torch.empty(len(on), x.shape[1], dtype=x.dtype, device=x.device)
        for at, k in enumerate(on.tolist()):
            if self._asked[k] == t:
                raise ConfigError(
                    f"The rule asks client {self._place.rows[k]} for a second gradient in round "
                    f"{t}, and the Flower app would train once more. Use a rule that asks once in "
                    "a round, such as DSGD or DSpodFL."
                )
            self._asked[k] = t
            with all_seeded(int(seeds[k] * 2**53)):
                g[at] = x[k] - self._fit(k, x[k], t).to(x.device)
        return g

    def prox(self, z: Tensor, step: float) -> Tensor:
        """No h: z itself."""
        return z

    def evaluate(self, x: Tensor) -> Evaluation:
        """The numbers of the app's evaluate function, their mean over the clients here.

        Clients count by their "num-examples", as under Flower's servers. States are left as they
        were. Where the app evaluates nothing, the loss is NaN.
        """
        found = columns([self._judged(row) for row in x], "The app's evaluate function")
        loss = self._one_of(found, "loss", self._app.loss, ("loss",))
        accuracy = self._one_of(found, "accuracy", self._app.accuracy, ("acc", "accuracy"))
        return Evaluation(np.full(len(x), np.nan) if loss is None else loss, accuracy, found)

    def memory(self) -> Mapping[int, bytes]:
        """Every client's context.state, as Flower writes it; of those that have one."""
        rows = self._place.rows.tolist()
        return {row: state for row, state in zip(rows, self._states, strict=True) if state}

    def restore(self, memory: Mapping[int, bytes]) -> None:
        """Give every client the state that `memory` gave."""
        self._states = [memory.get(row, b"") for row in self._place.rows.tolist()]
        self._asked = [-1] * len(self._states)

    def _fit(self, k: int, row: Tensor, t: int) -> Tensor:
        """The model that one train message makes of a row."""
        reply, state = self._sent("train", k, row, t)
        layout, client = self._app.arrays, int(self._place.rows[k])
        if tuple(one.shape for one in reply.arrays) != layout.shapes:
            raise ConfigError(
                f"The app of client {client} returned arrays of shapes "
                f"{[list(one.shape) for one in reply.arrays]} in round {t}, but was sent "
                f"{[list(shape) for shape in layout.shapes]}. A row cannot change its length."
            )
        made = layout.row(reply.arrays, row.dtype)
        if not bool(torch.isfinite(made).all()):
            raise DivergedError(
                f"The app of client {client} returned a model that is not finite in round {t}. "
                "Look at its data, or train with smaller steps.",
                round=t,
                row=client,
            )
        self._states[k], self.reported[client] = state, reply.numbers
        return made

    def _judged(self, row: Tensor) -> dict[str, float]:
        """The numbers by which the clients here judge one model."""
        told: list[tuple[float, dict[str, float]]] = []
        for k in range(len(self._nodes)):
            with all_seeded(0):
                reply, _ = self._sent("evaluate", k, row, 0)
            numbers = {
                name: value
                for name, value in reply.numbers.items()
                if isinstance(value, int | float) and name != "num-examples"
            }
            weight = float(reply.numbers.get("num-examples", 1))
            told.append((weight, named_numbers(numbers, "The app's evaluate function")))
        weights = np.array([weight for weight, _ in told])
        if not weights.sum() > 0:
            return {}
        of_all = columns([numbers for _, numbers in told], "The app's evaluate function")
        return {name: float(weights @ each / weights.sum()) for name, each in of_all.items()}

    def _one_of(
        self,
        found: dict[str, NDArray[np.float64]],
        what: Literal["loss", "accuracy"],
        chosen: str,
        endings: tuple[str, ...],
    ) -> NDArray[np.float64] | None:
        """Take the loss or the accuracy out of what was found."""
        if chosen and found and chosen not in found:
            raise ConfigError(
                f"FlowerApp.{what} is '{chosen}', but the app's evaluate function returns "
                f"{', '.join(found)}. Name one of these."
            )
        named = [chosen] if chosen else [name for name in found if name.endswith(endings)]
        return found.pop(named[0], None) if len(named) == 1 else None

    def _sent(
        self, kind: Literal["train", "evaluate"], k: int, row: Tensor, t: int
    ) -> tuple[Reply, bytes]:
        """The answer to a message to the client at place k, and its state after it."""
        app, client = self._app, int(self._place.rows[k])
        context = self._messages.context(
            client, self._nodes[k], dict(app.run_config), self._states[k]
        )
        config = {**app.config, "server-round": t}
        try:
            with torch.enable_grad():  # as an app finds torch: a round runs without gradients
                reply = self._messages.send(kind, app.arrays.of_row(row), config, context)
        except Exception as error:
            where = f" in round {t}" if kind == "train" else ""
            raise ConfigError(
                f"The app of client {client} failed to {kind}{where}: "
                f"{type(error).__name__}: {error}"
            ) from error
        return reply, self._messages.state_of(context)

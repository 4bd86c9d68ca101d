"""A Flower app as a problem: local training is a black box from one model to the next."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from torch import Tensor

from ..arguments import checked
from ..core import ConfigError, Draws, Placement
from ..errors import require
from ..problems.generators import all_seeded, start_seed
from .arrays import Arrays, arrays_of
from .local_flower import LocalFlowerApp

__all__ = ["FlowerApp"]


@checked
@dataclass(frozen=True, eq=False)
class FlowerApp:
    """A Flower ClientApp, unmodified: g_i(x) = x - fit_i(x), where fit_i is one train message.

    With a step of 1, x - g_i(x) is what the app made of x: DSGD(lr=1) is "train, then gossip".

    app          the ClientApp: modern (@app.train()), or legacy (client_fn)
    first        a function that makes the arrays of the first model, as the app's server would send
                 them: an ArrayRecord, a state_dict, arrays by name, or a list of arrays. The seed
                 of the run starts it
    run_config   what the app finds in context.run_config
    config       what goes along with every message; "server-round" is added
    node_config  client -> what it finds in context.node_config besides "partition-id" and
                 "num-partitions"; asked for clients that live here only
    loss         which number of the evaluate function is the loss, where its name does not end so
    accuracy     which one is the accuracy, where its name does not end in acc or accuracy

    Every client has a `context.state` of its own, which checkpoints keep. What the app draws from
    the global generators of torch, NumPy and Python is a function of seed, round and client. A rule
    may ask once in a round: a second question would train once more.
    """

    app: Any
    first: Callable[[], Any]
    run_config: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    node_config: Callable[[int], Mapping[str, Any]] | None = None
    loss: str = ""
    accuracy: str = ""
    # How a file said it, where a function of the user's own made it.
    recipe: Mapping[str, Any] | None = field(default=None, init=False, repr=False)
    once_a_round: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require("A Flower app", "flower", "flwr")
        from flwr.clientapp import ClientApp

        if not isinstance(self.app, ClientApp):
            raise ConfigError(
                f"FlowerApp.app is {type(self.app).__name__}. Give the app's ClientApp: the object "
                "that `clientapp` names in its pyproject.toml."
            )

    def made_by(self, recipe: Mapping[str, Any]) -> FlowerApp:
        """The same app, which a file names by this recipe."""
        named = copy.copy(self)
        object.__setattr__(named, "recipe", recipe)
        return named

    def _made(self, seed: int) -> tuple[Arrays, Tensor]:
        with all_seeded(start_seed(seed)):
            given = self.first()
        return arrays_of(given, "FlowerApp.first")

    @cached_property
    def arrays(self) -> Arrays:
        """Names, shapes and types of what is sent."""
        return self._made(0)[0]

    @property
    def n(self) -> int:
        """Numbers of a model."""
        return self.arrays.n

    def agreed(self, seed: int) -> str:
        """A hash of what peers must have alike: names, shapes and types of the arrays."""
        return self.arrays.digest

    def start(self, seed: int) -> Tensor:
        """The first model, one for all clients."""
        return self._made(seed)[1]

    def bind(self, place: Placement, draws: Draws) -> LocalFlowerApp:
        """The clients of `place`."""
        return LocalFlowerApp(self, place, draws)

"""The port: all that a rule sees of the world. Only `mix` crosses rows."""

from __future__ import annotations

from typing import Any, Literal, Protocol, overload

from numpy.typing import ArrayLike
from torch import Tensor

from .offers import Compressed, Offer

__all__ = ["Port"]


class Port(Protocol):
    """What `init` and `step` of a rule may use. A column is a tensor [rows here, 1]."""

    @property
    def t(self) -> int:
        """The round; 0 in `init`."""

    def active(self) -> Tensor:
        """v_i as a column: who computes in this round."""

    def grad(self, x: Tensor, v: Tensor | None = None, batch: int | Literal["all"] = 0) -> Tensor:
        """v_i g_i(x_i); rows with v_i = 0, and hubs, are not computed.

        All calls of a round see one batch per row, unless they ask for another by its number, as
        local steps do, or for all samples of the row, which count as so many batches.
        """

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The proximal step of the problem's regulariser h."""

    def constant(self, per_client: ArrayLike) -> Tensor:
        """The hosted rows of a constant, as a column: one number, one per client or one per row."""

    def uniform(self, stream: str, shared: bool = False) -> Tensor:
        """Uniforms in [0, 1) as a column: one per row, or one that all rows agree on."""

    @overload
    def mix(self, offer: Offer | Compressed | Tensor, /, *, over: str = "peers") -> Tensor: ...
    @overload
    def mix(self, *offers: Offer | Compressed | Tensor, over: str = "peers") -> list[Tensor]: ...
    def mix(self, *offers: Offer | Compressed | Tensor, over: str = "peers") -> Any:
        """Send one message per live link, carrying every offer; combine each by its rule.

        A bare tensor is pulled.
        """

    def received(self) -> Tensor:
        """How many messages each row got in the last mixing, as a column."""

    def fires(self, over: str = "peers") -> Tensor:
        """Whether a link of the row fires in this round, as a column.

        For rules that prepare what they send.
        """

    def compress(self, x: Tensor, send: Tensor | None = None) -> Compressed:
        """Encode rows once for all receivers; offer the result to `mix`.

        `value` is what each receiver adds to its copy. Rows with 0 in the column `send` stay
        silent.
        """

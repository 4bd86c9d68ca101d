"""A small causal transformer, in plain torch."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ..core import ConfigError

__all__ = ["Transformer"]


class Transformer(nn.Module):
    """Scores of the next token by attention to those before it.

    Whole numbers [samples, length] become scores [samples, length, tokens]. Positions are learnt,
    layers are normalised before attention and before the two linear maps that follow it, and the
    scores are products with the embedding of tokens. Every linear map is a layer of its own, `q`,
    `k`, `v`, `out`, `up` and `down`, so that adapters can name it. There are no buffers.

    >>> from torch import zeros
    >>> Transformer(tokens=10, width=8, layers=1, heads=2, length=4)(zeros(3, 4).long()).shape
    torch.Size([3, 4, 10])
    """

    def __init__(
        self, tokens: int, width: int = 64, layers: int = 2, heads: int = 4, length: int = 64
    ) -> None:
        super().__init__()
        if min(tokens, width, layers, heads, length) < 1 or width % heads:
            raise ConfigError(
                "A Transformer has at least one token, layer and head, and a width that its heads "
                f"divide; found {tokens=}, {width=}, {layers=}, {heads=}, {length=}."
            )
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=width**-0.5)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, given: Tensor) -> Tensor:
        """The scores of what follows each token."""
        length = given.shape[1]
        if length > self.places.num_embeddings:
            raise ConfigError(
                f"The Transformer was made for {self.places.num_embeddings} tokens at once and is "
                f"given {length}. Make it with length={length}, or use shorter windows."
            )
        x = self.tokens(given) + self.places.weight[:length]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


class _Block(nn.Module):
    """Attention to what came before, then two linear maps of each place by itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.before_attention, self.before_maps = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """The same places, each knowing more of those before it."""
        h = self.before_attention(x)
        q, k, v = (
            part.unflatten(2, (self._heads, -1)).transpose(1, 2)
            for part in (self.q(h), self.k(h), self.v(h))
        )
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        mapped: Tensor = self.down(F.gelu(self.up(self.before_maps(x))))
        return x + mapped

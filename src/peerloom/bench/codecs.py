"""How fast codecs are: megabytes of row per second, encoded and decoded, one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import torch

from ..codecs import ANQ, Coordinates, Dense, Quantised, RandK, Sign, SignTopK, TopK
from ..core import Codec, Draws, Envelope

__all__ = ["FAST", "SIZES", "codec_speeds"]

# Numbers of a row, and how often each is timed.
SIZES: Mapping[int, int] = {7_850: 40, 1_000_000: 8}
FAST = ("Dense(word='float16')", "TopK(fraction=0.1, positions='shortest')", "Sign()")
_CODECS: tuple[Codec, ...] = (
    Dense(),
    Dense("float16"),
    Dense("bfloat16"),
    Coordinates(0.1),
    Coordinates(0.1, mask=True),
    RandK(0.1),
    TopK(0.1),
    TopK(0.1, "index"),
    Sign(),
    SignTopK(0.1),
    Quantised(5),
    Quantised(16),
    ANQ(),
)


def codec_speeds(sizes: Mapping[int, int] = SIZES) -> dict[tuple[str, int], tuple[float, float]]:
    """Return MB of float32 per second, encoded and decoded, best of several, by codec and n."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {
            (repr(codec), n): _speeds(codec, n, times)
            for n, times in sizes.items()
            for codec in _CODECS
        }
    finally:
        torch.set_num_threads(threads)


def _speeds(codec: Codec, n: int, times: int) -> tuple[float, float]:
    row = torch.from_numpy(np.random.default_rng(0).normal(size=(1, n)).astype(np.float32))
    bodies = codec.encode(row, _envelope())
    encode = _best(lambda: codec.encode(row, _envelope()), times)
    decode = _best(lambda: codec.decode(bodies, n, torch.float32, _envelope()), times)
    return row.nbytes / 1e6 / encode, row.nbytes / 1e6 / decode


def _envelope() -> Envelope:
    """Make a new one for every call, so that nothing is drawn beforehand."""
    one = np.zeros(1, np.int64)
    return Envelope(Draws(0), 3, 1, one, one, one)


def _best(call: Callable[[], object], times: int) -> float:
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begin)
    return min(spent)

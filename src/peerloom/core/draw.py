"""Randomness as a function of (seed, stream, round, id); no generator is ever used up.

So two algorithms see the same batches, a peer draws what the simulator drew, and a restarted run
goes on as if it had never stopped. The generator is Philox 4x32-10 (Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3", SC 2011), a bijection of a 128-bit counter under a 64-bit key: the key
comes from the seed and the stream's name, the counter holds the lane, the id and the round, each in
words of its own, so that no two draws share a counter.

Codecs need thousands of words for each id, which array arithmetic would make too slowly: `words`
reads them from a stream of NumPy's PCG64DXSM, an algorithm that is fixed and can be entered
anywhere. Seed, stream, round and count choose the stream, the id the offset in it, so that
consecutive ids are drawn in one go.
"""

from __future__ import annotations

import hashlib
import operator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

__all__ = ["Draws", "philox", "uniform", "words"]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Words = NDArray[np.uint64]

# Multipliers and key increments of Philox 4x32 (table 2 and section 4 of the paper).
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_NOTHING = np.empty(0)
_BLOCKS = 1 << 14  # of Philox made together: more leave the cache, and take twice as long


def philox(
    counter: tuple[Words, Words, Words, Words], key: tuple[int, int]
) -> tuple[Words, Words, Words, Words]:
    """Philox 4x32-10 on 32-bit words, held in uint64 so that products keep their high half."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (
            (p1 >> _SHIFT) ^ c1 ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _SHIFT) ^ c3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return c0, c1, c2, c3


class _Unseeded(ISeedSequence):
    """The seed of a generator whose state is set at once: hashing a real one takes longer."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """Return zeros."""
        return np.zeros(n_words, dtype)


_UNSEEDED = _Unseeded()


@lru_cache(maxsize=4096, typed=True)
def _key(seed: int, stream: str) -> tuple[int, int]:
    """64 bits of BLAKE2b: streams and seeds are unrelated whatever their names and values."""
    digest = hashlib.blake2b(f"{seed}/{stream}".encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def words(seed: int, stream: str, t: int, ids: Ids, count: int) -> Words:
    """Return `count` random 64-bit words for each id, [ids, count], for round t.

    They are those of the stream from id * count on.

    >>> words(seed=1, stream="demo", t=0, ids=np.array([7]), count=2).tolist()
    [[14606763122232440036, 3239516297550810711]]
    """
    digest = hashlib.blake2b(f"{seed}/{stream}/{t}/{count}".encode(), digest_size=32).digest()
    start, step = (int.from_bytes(half, "little") for half in (digest[:16], digest[16:]))
    generator = np.random.PCG64DXSM(_UNSEEDED)  # type: ignore[arg-type]  # too narrow a stub
    state: Any = {
        "bit_generator": "PCG64DXSM",
        "state": {"state": start, "inc": step | 1},
        "has_uint32": 0,
        "uinteger": 0,
    }
    generator.state = state
    ends = [*(np.flatnonzero(np.diff(ids) != 1) + 1).tolist(), len(ids)] if len(ids) else []
    if len(ends) == 1:
        generator.advance(int(ids[0]) * count)
        return generator.random_raw(len(ids) * count).reshape(-1, count)
    drawn = np.empty((len(ids), count), np.uint64)
    first = offset = 0
    for end in ends:
        generator.advance(int(ids[first]) * count - offset)
        drawn[first:end] = generator.random_raw((end - first) * count).reshape(-1, count)
        offset, first = (int(ids[end - 1]) + 1) * count, end
    return drawn


def uniform(seed: int, stream: str, rounds: Ids | int, ids: Ids, lanes: int = 1) -> Floats:
    """Return uniforms in [0, 1) with 53 random bits.

    Their shape is [ids, lanes] for one round and [rounds, ids, lanes] for several.

    >>> uniform(seed=1, stream="demo", rounds=0, ids=np.array([7, 8])).round(4).tolist()
    [[0.0526], [0.6278]]
    """
    t = np.atleast_1d(np.asarray(rounds, np.uint64))[:, None, None]
    i = np.asarray(ids, np.int64).astype(np.uint64)[None, :, None]
    blocks = (lanes + 1) // 2  # one Philox block holds two doubles
    block = np.arange(blocks, dtype=np.uint64)[None, None, :]
    shape = np.broadcast_shapes(t.shape, i.shape, block.shape)
    pair, key = np.empty((*shape, 2)), _key(seed, stream)
    some = max(1, _BLOCKS // max(1, shape[0] * shape[2]))
    for first in range(0, shape[1], some):
        part = i[:, first : first + some]
        counter = tuple(
            np.broadcast_to(word, (shape[0], part.shape[1], shape[2]))
            for word in (block, part & _LOW, part >> _SHIFT, t)
        )
        w0, w1, w2, w3 = philox(counter, key)  # type: ignore[arg-type]  # a generator has no length
        pair[:, first : first + some, :, 0] = _double(w0, w1)
        pair[:, first : first + some, :, 1] = _double(w2, w3)
    found = pair.reshape(*shape[:2], 2 * shape[2])[..., :lanes]
    return found if np.ndim(rounds) else found[0]


def _double(high: Words, low: Words) -> Floats:
    """53 bits of two 32-bit words, as numpy's own generators do it."""
    return ((high >> np.uint64(5)) * 67108864.0 + (low >> np.uint64(6))) * 2.0**-53


class Draws:
    """The draws of one seed, read ahead.

    Because a draw depends on nothing but its name, those of the next rounds can be made together.
    That turns a hundred small array operations per round into one, and changes no value:
    `draws(...)` equals `uniform(...)`.
    """

    # Numbers made together: enough to hide numpy's overhead, few enough to stay in cache.
    _AT_ONCE = 1 << 15

    def __init__(self, seed: int) -> None:
        self.seed = operator.index(seed)  # 1 and 1.0 would be different seeds
        # By stream and lanes: the first round, the ids, the numbers.
        self._ahead: dict[tuple[str, int], tuple[int, Ids, Floats]] = {}

    def __call__(self, stream: str, t: int, ids: Ids, lanes: int = 1) -> Floats:
        """Uniforms in [0, 1) of shape [ids, lanes], for round t."""
        first, known, block = self._ahead.get((stream, lanes), (0, ids, _NOTHING))
        if not 0 <= t - first < len(block) or not np.array_equal(known, ids):
            many = max(1, min(256, self._AT_ONCE // max(1, len(ids) * lanes)))
            first, block = t, uniform(self.seed, stream, np.arange(t, t + many), ids, lanes)
            block.flags.writeable = False
            self._ahead[stream, lanes] = (first, np.array(ids), block)
        return np.asarray(block[t - first])

    def once(self, stream: str, ids: Ids, lanes: int = 1) -> Floats:
        """Draws that belong to no round, such as a data set's partition."""
        return uniform(self.seed, stream, 0, ids, lanes)

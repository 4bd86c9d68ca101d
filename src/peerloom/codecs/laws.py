"""The four laws of codecs, for yours as well as for ours: `peerloom.testing.check_codec`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..core import Body, Codec, Decoded, Draws, Envelope
from ..errors import CodecError

__all__ = ["check_codec"]

_ROWS = 5
_RAW = {torch.float32: torch.int32, torch.float64: torch.int64}


def check_codec(codec: Codec, n: int = 40, seed: int = 0) -> None:
    """Hold a codec to its laws; an AssertionError says which one it breaks.

    1. decode(encode(x)) has the bits of through(x); CodecError is raised where that is not finite.
    2. Bodies have the lengths that `nbytes` says, and at most `longest`.
    3. A row is encoded alike alone and among others; a body depends on its link only if `per_link`
       says so.
    4. Any bytes decode to values or raise CodecError; `check` lets nothing pass that is not finite.

    >>> from peerloom.codecs import TopK
    >>> check_codec(TopK(0.1))
    """
    if isinstance(codec, type):
        raise TypeError(
            f"check_codec takes a codec with its arguments, such as {codec.__name__}(...), "
            "not the class."
        )
    random = np.random.default_rng([seed, n])
    for dtype in (torch.float32, torch.float64):
        for rows in _examples(random, n, dtype):
            _check_bits(codec, rows)
            _check_lengths(codec, rows)
            _check_alone(codec, rows)
        _check_not_finite(codec, random, n, dtype)
        _check_any_bytes(codec, random, n, dtype)


def _examples(random: np.random.Generator, n: int, dtype: torch.dtype) -> list[Tensor]:
    """Make rows as they come, with ties and zeros of either sign, small and large, and all zero."""
    values = random.normal(size=(_ROWS, n)) * 3
    ties = np.copysign(np.round(values / 2), values)
    few = values * (random.random((_ROWS, n)) < 0.1)
    spread = values * 10.0 ** random.uniform(-6, 6, (_ROWS, n))
    found = [values, ties, few, spread, np.zeros((_ROWS, n)), -np.zeros((_ROWS, n))]
    return [torch.from_numpy(rows).to(dtype) for rows in found]


def _envelope(ids: list[int], links: int = 7) -> Envelope:
    each = np.array(ids, np.int64)
    return Envelope(Draws(1), 3, 1, each * links + 1, each, each * 11)


def _all() -> Envelope:
    return _envelope(list(range(_ROWS)))


def _same(found: Decoded, wanted: Decoded) -> bool:
    (values, mask), (others, other_mask) = found, wanted
    raw = _RAW[others.dtype]
    if values.dtype != others.dtype or not torch.equal(values.view(raw), others.view(raw)):
        return False
    if mask is None or other_mask is None:
        return mask is other_mask
    return mask.dtype == torch.bool and torch.equal(mask, other_mask)


def _decoded(codec: Codec, bodies: list[Body], n: int, dtype: torch.dtype) -> Decoded:
    """Decode from copies, without what encoding may have left behind."""
    copies = [np.frombuffer(body.tobytes(), np.uint8) for body in bodies]
    return codec.decode(copies, n, dtype, _envelope(list(range(len(bodies)))))


def _check_bits(codec: Codec, rows: Tensor) -> None:
    kept, n = rows.clone(), rows.shape[1]
    values, mask = codec.through(rows, _all())
    through, bodies = (values.clone(), mask), codec.encode(rows, _all())
    assert torch.equal(rows, kept), f"{codec!r} changed the rows it was given"
    for body in bodies:
        form = f"{body.dtype}, {body.ndim} dimensions"
        assert body.dtype == np.uint8 and body.ndim == 1, f"a body must be bytes, not {form}"  # noqa: PT018
        assert not body.flags.writeable, "a body must be read-only"
    found = _decoded(codec, bodies, n, rows.dtype)
    assert _same(found, through), (
        f"{codec!r}: decode(encode(x)) differs from through(x) in its bits"
    )
    if mask is not None:
        assert not values[~mask].view(_RAW[rows.dtype]).any(), "what was not carried must be 0.0"
    rows += 1  # in place: a body must not follow
    again = _decoded(codec, bodies, n, rows.dtype)
    assert _same(again, through), f"{codec!r}: a body shares memory with its row"
    rows.copy_(kept)
    for body in bodies:
        codec.check(body, n, rows.dtype)


def _check_lengths(codec: Codec, rows: Tensor) -> None:
    n, lengths = rows.shape[1], [len(body) for body in codec.encode(rows, _all())]
    said, most = codec.nbytes(rows, _all()).tolist(), codec.longest(n, rows.dtype)
    assert lengths == said, f"{codec!r}: bodies have {lengths} bytes, and nbytes says {said}"
    assert max(lengths) <= most, f"{codec!r}: {max(lengths)} bytes are more than longest, {most}"
    if codec.fixed_length:
        assert min(lengths) == most, f"{codec!r}: a fixed length, but {min(lengths)} beside {most}"


def _check_alone(codec: Codec, rows: Tensor) -> None:
    together, through = codec.encode(rows, _all()), codec.through(rows, _all())
    for i in range(_ROWS):
        row = rows[i : i + 1]
        alone = codec.encode(row, _envelope([i]))[0]
        assert np.array_equal(alone, together[i]), f"{codec!r}: a row alone is encoded otherwise"
        values, mask = through
        part = (values[i : i + 1], None if mask is None else mask[i : i + 1])
        assert _same(codec.through(row, _envelope([i])), part), f"{codec!r}: other bits alone"
        if not codec.per_link:
            other = codec.encode(row, _envelope([i], links=13))[0]
            assert np.array_equal(other, alone), f"{codec!r}: a body depends on its link"


def _check_not_finite(
    codec: Codec, random: np.random.Generator, n: int, dtype: torch.dtype
) -> None:
    """Rows that are not finite are encoded all the same, and refused by whoever receives them."""
    for bad in (np.nan, np.inf, -np.inf):
        rows = torch.from_numpy(random.normal(size=(_ROWS, n))).to(dtype)
        rows[0, int(random.integers(n))] = bad
        bodies, (values, _) = codec.encode(rows, _all()), codec.through(rows, _all())
        lengths = [len(body) for body in bodies]
        assert lengths == codec.nbytes(rows, _all()).tolist(), f"{codec!r}: nbytes with {bad}"
        assert max(lengths) <= codec.longest(n, dtype), f"{codec!r}: longer than longest with {bad}"
        if not values[0].isfinite().all():
            assert not _passes(codec, bodies[0], n, dtype), f"{codec!r}: check lets {bad} pass"


def _check_any_bytes(codec: Codec, random: np.random.Generator, n: int, dtype: torch.dtype) -> None:
    """Changed, cut, longer and invented bodies."""
    good = codec.encode(torch.from_numpy(random.normal(size=(1, n))).to(dtype), _envelope([0]))[0]
    invented = [
        b"",
        good[:-1].tobytes(),
        good.tobytes() + b"\0",
        b"\xff" * len(good),
        bytes(len(good)),
    ]
    for _ in range(20):
        changed = good.copy()
        for at in random.integers(0, max(1, len(good)), 3):
            changed[at : at + 1] = random.integers(0, 256)
        invented += [changed.tobytes(), random.bytes(int(random.integers(0, len(good) + 9)))]
    for text in invented:
        body = np.frombuffer(text, np.uint8)
        passes = _passes(codec, body, n, dtype)
        try:
            values, mask = codec.decode([body], n, dtype, _envelope([0]))
        except CodecError:
            assert not passes, (
                f"{codec!r}: check passes a body that cannot be decoded: {text.hex()}"
            )
            continue
        shapes = [tuple(values.shape), (1, n) if mask is None else tuple(mask.shape)]
        assert shapes == [(1, n), (1, n)], f"{codec!r}: a body decodes to {shapes}"
        if passes:
            finite = values.isfinite().all()
            assert finite, f"{codec!r}: check passes a body that is not finite: {text.hex()}"


def _passes(codec: Codec, body: Body, n: int, dtype: torch.dtype) -> bool:
    try:
        codec.check(body, n, dtype)
    except CodecError:
        return False
    return True

"""Rows of floats as bodies of parcels: the same bits there and back, and no bad number passes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom.peers.floats import FloatCheck, float_channel, from_body, to_body
from peerloom.transport import RefusedError


@given(
    st.lists(st.floats(width=32), max_size=20),
    st.sampled_from(["float32", "float64"]),
    st.booleans(),
)
def test_rows_come_back_with_their_bits(values, dtype, swapped):
    row = np.array(values, dtype).astype(np.dtype(dtype).newbyteorder(">") if swapped else dtype)
    body = to_body(row)
    assert (body.dtype, body.ndim, body.flags.writeable) == (np.uint8, 1, False)
    assert from_body(body, dtype).tobytes() == row.astype(dtype).tobytes()


def test_a_row_that_nobody_can_change_is_not_copied():
    row = np.ones(5)
    assert not np.shares_memory(to_body(row), row)
    row.flags.writeable = False
    assert np.shares_memory(to_body(row), row)


def test_a_channel_says_what_was_agreed_on():
    channel = float_channel("float32", [20, 5, 20])
    assert (channel.longest, channel.form) == (80, "float32 5 20")
    assert channel == float_channel("float32", [5, 20], 3.0), "a bound is a site's own business"
    assert channel != float_channel("float32", [6, 20])


def judged(row, **bound):
    FloatCheck(row.dtype.name, [len(row)], **bound)(row.data.cast("B"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(place=st.integers(0, 99_999), bad=st.sampled_from([np.nan, -np.nan, np.inf, -np.inf]))
def test_one_bad_number_anywhere_is_found(dtype, place, bad):
    row = np.where(np.arange(100_000) % 2, 1, -1).astype(dtype)
    judged(row, largest_norm=317.0)
    row[place] = bad
    with pytest.raises(RefusedError, match="not_finite"):
        judged(row)


def test_large_finite_numbers_are_judged_by_their_norm_only():
    row = np.full(3, 3e38, np.float32)
    judged(row)
    judged(row, largest_norm=1e39)
    for bad, bound in ((row, 5e38), (np.full(3, 1e200), 1e300), (np.ones(100_000), 316.0)):
        with pytest.raises(RefusedError, match="norm"):
            judged(bad, largest_norm=bound)


@pytest.mark.parametrize("size", [0, 1, 4, 7, 12, 80])
def test_other_lengths_are_refused(size):
    with pytest.raises(RefusedError, match="wrong_shape"):
        FloatCheck("float64", [5])(memoryview(bytes(size)))

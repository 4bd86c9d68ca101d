"""The process's own generators, lent to one draw at a time and given back as they were."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from ..core import uniform

__all__ = ["all_seeded", "seeded", "start_seed"]

_CPU = torch.device("cpu")
# They belong to the process, so threads (shards, batches read ahead) take turns.
_TURN = threading.RLock()


def start_seed(seed: int) -> int:
    """The seed with which a model initialises itself, in a run of this seed."""
    return int(uniform(seed, "start", 0, np.zeros(1, np.int64))[0, 0] * 2**53)


@contextmanager
def seeded(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Within the block torch's generators, of the CPU and of `device`, start from this seed."""
    with _TURN:
        if device.type == "cpu":  # and no other device's are touched
            generator = torch.default_generator
            before = generator.get_state()
            generator.manual_seed(seed)
            try:
                yield
            finally:
                generator.set_state(before)
        else:
            with torch.random.fork_rng(devices=[device], device_type=device.type):
                torch.manual_seed(seed)
                yield


@contextmanager
def all_seeded(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """As `seeded`, with the global generators of NumPy and Python, which augmentation may use."""
    with seeded(seed, device):
        numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
        try:
            np.random.set_state(np.random.RandomState(seed % 2**32).get_state())  # noqa: NPY002
            random.setstate(random.Random(seed).getstate())  # noqa: S311
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)

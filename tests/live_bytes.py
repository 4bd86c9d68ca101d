"""Bytes of tensors that are alive, counted as operations make them."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all tensors that operations make while it is on, and their peak.

    By storage, so that a view counts nothing; what was there before counts from the first operation
    that returns it. What an operation takes for itself and gives back
    before it returns is not seen, nor is what NumPy holds.
    """

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self._known = weakref.WeakSet()

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        made = call(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, torch.Tensor):
                self._count(each.untyped_storage())
        return made

    def _count(self, storage):
        if storage in self._known:
            return
        self._known.add(storage)
        size = storage.nbytes()
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._gone, size)

    def _gone(self, size):
        self.now -= size

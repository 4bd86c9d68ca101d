"""A batch sampler that makes a DataLoader a pure function of what is asked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import Sampler

from ..core import ConfigError, Draws, Placement
from ..problems.batches import Batches as DrawnBatches
from .answering import Answering
from .seam import Question

__all__ = ["Batches"]


class Batches(Sampler[list[int]]):
    """Numbers of samples for what is asked: a function of (seed, round, client, batch).

        loader = DataLoader(data, batch_sampler=pl.live.Batches(opt, len(data), size=16))

    opt      what `pl.live.optimizer` or `pl.live.outer` made
    samples  how many the data set has
    size     of a batch
    parts    batches that the loop takes for one step, as with accumulated gradients, or with an
             optimizer of its own
    replace  whether a batch may hold a sample several times

    They are those that a `Task` draws in the same experiment. A loader with workers, and others
    that read ahead, would ask before the round is known: they are refused.
    """

    def __init__(
        self,
        opt: Answering,
        samples: int,
        size: int,
        *,
        parts: int = 1,
        replace: bool = True,
    ) -> None:
        for name, value in (("samples", samples), ("size", size), ("parts", parts)):
            if value < 1:
                raise ConfigError(f"Batches.{name} must be at least 1, found {value}.")
        exp = opt.experiment
        self._opt, self._parts, self._samples = opt, parts, samples
        # A client's samples are its own numbers, whichever client is asked for.
        clients = exp.graph.clients
        place = Placement(np.arange(clients), clients, torch.device("cpu"), exp.torch_dtype)
        every = [np.arange(samples)] * clients
        sizes = np.full(clients, size * parts)
        self._drawn = DrawnBatches(every, sizes, replace, place, Draws(exp.seed), "Batches")

    def __iter__(self) -> Iterator[list[int]]:
        while not self._opt.finished:
            answers = self._opt.answers
            yield from self._numbers(self._opt.asked)
            if not self._opt.finished and self._opt.answers == answers:
                raise ConfigError(
                    f"The loader asks for more than {self._parts} batches before step() was "
                    "called: it reads ahead, or gradients are accumulated. Give the DataLoader "
                    "num_workers=0, and say parts=N where N batches make one step."
                )

    def _numbers(self, asked: Question) -> list[list[int]]:
        if asked.batch == "all":
            every = np.arange(self._samples)
            return [part.tolist() for part in np.array_split(every, self._parts)]
        of = f"/{asked.batch}" if asked.batch else ""
        ((_, numbers),) = self._drawn(np.array([asked.client]), asked.round, of)
        return [part.tolist() for part in np.split(numbers[0], self._parts)]

"""The loop's side: a model that holds what is asked about, and answers that are rows."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..core import ConfigError, DivergedError
from ..problems.generators import all_seeded
from ..problems.layout import RowLayout, check_trainable, trainable
from ..problems.metrics import named_numbers
from ..runtime.guard import is_finite
from .run import Run
from .seam import Asked, Question

__all__ = ["Dialogue", "Metrics"]

_log = logging.getLogger("peerloom.live")
Metrics = Callable[[nn.Module], Mapping[str, float]]


class Dialogue:
    """Puts what a rule asks about into the model, and brings rows back as answers.

    Between two answers the model's parameters are those at which a gradient is wanted, and once all
    rounds are done they are the last model.
    """

    def __init__(self, model: nn.Module, run: Run, metrics: Metrics | None) -> None:
        _check(model)
        self.model, self.run, self._metrics = model, run, metrics
        self._layout, self._parameters = RowLayout(model), list(trainable(model).values())
        self._asked: Asked | None = None
        self._seen: set[Question] = set()
        self._closed = False
        self.answers = 0
        """Answers so far, in this process."""
        run.begin(model, metrics is not None)
        atexit.register(self._left_behind)
        self._advance()

    @property
    def finished(self) -> bool:
        """Whether the last round is done."""
        return self._asked is None

    @property
    def asked(self) -> Asked:
        """What is wanted now."""
        if self._closed:
            raise ConfigError(
                "This optimizer was closed. What the run has is kept: make a new one to go on."
            )
        if self._asked is None:
            raise ConfigError(
                f"The run is finished: all {self.run.experiment.rounds} rounds are done, and the "
                "model has its last parameters. End the loop when `opt.finished` says so, which it "
                "may do before the first step, where a script is started once more."
            )
        return self._asked

    @property
    def question(self) -> Question | None:
        """The question that is open; None when all is done."""
        return None if self._asked is None else self._asked.question

    def gradient(self) -> Tensor:
        """What backward left in .grad, as a row; refuses one that is not there, or not finite."""
        asked = self.asked
        grads = [parameter.grad for parameter in self._parameters]
        if all(grad is None for grad in grads):
            raise ConfigError(
                f"There is no gradient: {self._where(asked)} waits for one, but every .grad is "
                "None. Call loss.backward() before step(), or give step() a closure that does."
            )
        row = torch.empty_like(asked.x)
        for grad, part in zip(grads, torch.split(row, self._layout.sizes), strict=True):
            if grad is None:  # the loss does not depend on it
                part.zero_()
            else:
                part.view(grad.shape).copy_(grad)
        if not is_finite(row):
            raise self._diverged(asked, "gradient")
        return row

    def moved(self) -> Tensor:
        """What the model was moved by since it was asked about: x - x'."""
        asked = self.asked
        row = torch.empty_like(asked.x)
        for parameter, part in zip(
            self._parameters, torch.split(row, self._layout.sizes), strict=True
        ):
            part.view(parameter.shape).copy_(parameter.detach())
        row = torch.sub(asked.x, row, out=row)
        if not is_finite(row):
            raise self._diverged(asked, "local training")
        return row

    def tell(self, answer: Tensor) -> None:
        """Answer, and wait until the next question is there or all is done."""
        self.answers += 1
        self.run.seam.tell(answer)
        self._advance()

    def checkpoint(self, loop: Mapping[str, Any]) -> bool:
        """Say where the loop stands; once the last round is done nothing is left to go on from."""
        return not (self.finished or self._closed) and self.run.checkpoint(loop)

    def close(self) -> None:
        """End the run here, before it is finished. Calling it again is harmless."""
        if not self._closed:
            self._closed = True
            atexit.unregister(self._left_behind)
            self.run.close()

    def _advance(self) -> None:
        """Load what is asked next; questions about worth are answered on the way."""
        before = self.question
        try:
            while (asked := self.run.seam.next()) is not None and asked.question is None:
                self.run.seam.tell(self._judged(asked.x))
        except Exception:
            self._asked = None
            self.close()
            raise
        self._asked = asked
        with torch.no_grad():
            self._layout.load(self.run.final() if asked is None else asked.x, self._parameters)
        if asked is None:
            atexit.unregister(self._left_behind)
        elif asked.question is not None:
            self._note(before, asked.question)

    def _note(self, before: Question | None, now: Question) -> None:
        """Refuse a question that came before others that came between, unless the loop bears it."""
        if before is not None and before.round != now.round:
            self._seen.clear()
        if now in self._seen and now != before and now.batch != "all" and not self.run.repeats:
            self.close()
            raise ConfigError(
                f"{self.run.experiment.name} asks about one batch twice, and here the second "
                "question comes after those to others. If your loop gives the same samples for the "
                "same `opt.asked`, as pl.live.Batches does, say repeats=True to pl.live.rows; "
                "between peers a closure will do."
            )
        self._seen.add(now)

    @torch.no_grad()
    def _judged(self, x: Tensor) -> dict[str, float]:
        """What the loop's metrics say of a model; nothing else is changed by it."""
        assert self._metrics is not None
        modes = {module: module.training for module in self.model.modules()}
        self._layout.load(x, self._parameters)
        self.model.eval()
        try:
            with all_seeded(0):
                return named_numbers(self._metrics(self.model), "The metrics of your loop")
        finally:
            for module, training in modes.items():
                module.training = training

    def _diverged(self, asked: Asked, what: str) -> DivergedError:
        assert asked.question is not None
        client, t, _ = asked.question
        return DivergedError(
            f"The {what} of {self._where(asked)} is not finite. Look at this batch, or try smaller "
            "steps; the question is still open.",
            round=t,
            row=client,
        )

    @staticmethod
    def _where(asked: Asked) -> str:
        assert asked.question is not None
        client, t, batch = asked.question
        return f"client {client} in round {t}, batch {batch}," if t >= 0 else f"client {client}"

    def _left_behind(self) -> None:
        """Say that the loop was left before the run's end; called when the process ends."""
        if self.run.seam.left:
            return
        rounds = self.run.experiment.rounds
        _log.warning(
            "The loop ended after round %d of %d, before the run was finished. What is in the last "
            "checkpoint is kept, and neighbours wait: start the script again to go on, and leave "
            "the loop only when `opt.finished` says so.",
            max(0, self.run.done),
            rounds,
        )
        self.close()


def _check(model: nn.Module) -> None:
    """Refuse what is no module, what has nothing to train, and what several processes share."""
    if not isinstance(model, nn.Module):
        raise ConfigError(
            f"pl.live was given {type(model).__name__}. Give the nn.Module that the loop trains."
        )
    wrapped: list[type] = [nn.DataParallel]
    if torch.distributed.is_available():
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.nn.parallel import DistributedDataParallel

        wrapped += [DistributedDataParallel, FullyShardedDataParallel]
    for module in model.modules():
        if isinstance(module, tuple(wrapped)):
            raise ConfigError(
                f"The model is wrapped by {type(module).__name__}, but a row belongs to one "
                "process. Give the module within (`model.module`), and let Peerloom do the "
                "averaging."
            )
    check_trainable(model, "pl.live")

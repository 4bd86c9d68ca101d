"""What a loop is told of its run, whichever way it answers."""

from __future__ import annotations

from typing import Any

from ..experiment import Experiment
from .dialogue import Dialogue
from .seam import Question

__all__ = ["Answering"]


class Answering:
    """A loop's view of its run: what is asked, and how far it is."""

    _dialogue: Dialogue

    @property
    def experiment(self) -> Experiment:
        """What is run."""
        return self._dialogue.run.experiment

    @property
    def answers(self) -> int:
        """Questions answered so far, in this process."""
        return self._dialogue.answers

    @property
    def finished(self) -> bool:
        """Whether the last round is done; the model is then the last one."""
        return self._dialogue.finished

    @property
    def asked(self) -> Question:
        """What an answer is wanted for: client, round, and which batch of the round."""
        question = self._dialogue.asked.question
        assert question is not None
        return question

    @property
    def resumed(self) -> dict[str, Any] | None:
        """What the loop gave to `checkpoint` where the run now goes on; None at a first start."""
        return self._dialogue.run.resumed

    def close(self) -> None:
        """End the run here, before it is finished; a peer can go on later."""
        self._dialogue.close()

"""A peer's checkpoints and its loop: held back until the loop says where it stands."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from ..core import Caution
from .answers import Answers, digest_of
from .loop_state import from_bytes, to_bytes
from .seam import Question, Seam

__all__ = ["Keeper"]

_COUNT = 8  # bytes of each of the two counts that precede a loop's state


class Keeper:
    """Brings what a loop says of itself into the checkpoint of the round that it belongs to.

    A round ends within the loop's `step()`: there the loop's body is not done, its scheduler has
    not stepped, its loader stands anywhere. So a checkpoint that is due waits until the loop has
    called `checkpoint`, with as many answers given as the round had seen. It waits until the next
    one is due at the longest, as neighbours keep what they sent for so long only: a loop may call
    seldom, or not be asked for many rounds. Then the checkpoint holds what the loop said last, and
    after a restart the loop is first asked again what it has answered since, to no other end than
    that it moves on as it did.

    Answers are counted and noted here, too; see `Answers`. While one thread is here the other
    waits.
    """

    def __init__(self, row: int, answers: Answers, seam: Seam, nbytes: int = 0) -> None:
        self._row, self._answers, self._seam, self.nbytes = row, answers, seam, nbytes
        self._count = 0  # answers so far, of all lives
        self._told: tuple[int, bytes] | None = None  # how many there were, what the loop said
        self._noted: dict[int, bytes] = {}  # the memory of the last round
        self._noted_at = -1
        self._waiting: Callable[[], None] | None = None
        self._behind = False  # whether the loop does again what the checkpoint has already
        self._other = False  # whether it was said that it answers otherwise
        self.resumed: dict[str, Any] | None = None

    # -- in the rule's thread

    def taken(self, question: Question, g: Tensor) -> Tensor:
        """Count and note an answer; one that neighbours have built on is taken as it was then."""
        digest, before = digest_of(g), self._answers.known(self._count)
        if before is None:
            batch = -1 if question.batch == "all" else question.batch
            self._answers.add(self._count, question.round, batch, digest, g)
        elif before != digest:
            self._say_other(question)
            if self._answers.whole:
                g = self._answers.repeated(self._count, g)
        self._count += 1
        return g

    def memory(self) -> Mapping[int, bytes]:
        """What a checkpoint of the round just done must hold; the loop's part may come later."""
        self._noted, self._noted_at = {}, self._count
        self._note()
        return self._noted

    def restore(self, memory: Mapping[int, bytes]) -> None:
        """Go on with what `memory` gave."""
        data = memory.get(self._row, b"")
        if not data:
            return
        self._count = int.from_bytes(data[:_COUNT], "little")
        told = int.from_bytes(data[_COUNT : 2 * _COUNT], "little")
        if len(data) == 2 * _COUNT:
            return
        self._told = told, data[2 * _COUNT :]
        self.resumed = from_bytes(self._told[1])
        self._behind = told < self._count

    def again(self) -> Iterator[Question]:
        """What the loop answered after it last said where it stood, once after a restart."""
        if not self._behind or self._told is None:
            return
        for index in range(self._told[0], self._count):
            if (question := self._answers.question(index, self._row)) is None:
                self._say_lost(self._count - index)
                break
            yield question
        self._behind = False

    def hold(self, save: Callable[[], None], last: bool) -> None:
        """A checkpoint is due: have it written as soon as the loop's state is the round's.

        With the last one of this process the loop is gone. Then the one before serves better,
        unless the loop's state is known already.
        """
        if last and not self._ready:
            return
        if self._ready or self._waiting is not None:
            self._write(save)
        else:
            self._waiting = save

    def close(self) -> None:
        """No more answers come."""
        self._answers.close()

    # -- in the loop's thread

    def checkpoint(self, loop: Mapping[str, Any]) -> bool:
        """The loop's body is done; write what waits for that, if the round's answers are these."""
        if self._waiting is None or self._behind or self._noted_at != self._count:
            return False
        self._told = self._count, to_bytes(loop)
        self._note()
        self._seam.have_done(partial(self._write, self._waiting))
        return True

    @property
    def _ready(self) -> bool:
        """Whether the loop's state at the last round is known: it said so, or had not begun."""
        return self._noted_at == 0 or (self._told is not None and self._told[0] == self._noted_at)

    def _note(self) -> None:
        told, said = (0, b"") if self._told is None else self._told
        counts = (count.to_bytes(_COUNT, "little") for count in (self._noted_at, told))
        self._noted[self._row] = b"".join((*counts, said))

    def _write(self, save: Callable[[], None]) -> None:
        self._waiting = None
        save()
        # The loop may be asked again what it answered since it last said where it stood.
        self._answers.saved(self._noted_at if self._told is None else self._told[0])

    def _say_lost(self, answers: int) -> None:
        warnings.warn(
            f"The loop last said where it stood {answers} answers before the checkpoint, and the "
            "journal has not kept them all, after a power cut perhaps. The run is right, but what "
            "the loop draws from here on is not what it would have drawn.",
            Caution,
            stacklevel=2,
        )

    def _say_other(self, question: Question) -> None:
        if self._other:
            return
        self._other = True
        what = (
            "Neighbours have built on what it answered then, so that is taken, from the journal: "
            "the run is right"
            if self._answers.whole
            else "This rule sends models, so the run is right"
        )
        warnings.warn(
            f"The loop repeats itself differently: asked once more for round {question.round}, it "
            f"gave another gradient than before it was started again. {what}, but it cannot be "
            "repeated. To have the same bits after a kill, give opt.checkpoint() all that the loop "
            "draws from, and see peerloom.testing.check_loop.",
            Caution,
            stacklevel=2,
        )

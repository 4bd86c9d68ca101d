"""All rows of an experiment in this process, and one loop that answers for every client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from ..core import ConfigError, mean_model
from ..experiment import Experiment
from ..registry import describe
from ..runtime import Guard, Path, Session, Snapshot, StopRule, build_port, prepare_process
from .asked import asked_problem
from .run import changed, loop_of
from .seam import Seam

__all__ = ["AllRows", "rows"]

Watch = Callable[[Snapshot], None]


def rows(
    exp: Experiment,
    *,
    each: Watch | None = None,
    path: Path = "auto",
    batches: int | tuple[int, ...] | None = None,
    repeats: bool = False,
) -> AllRows:
    """All rows of an experiment in this process; `opt.asked.client` says whose batch is wanted.

    each     called with a snapshot of the start and after every round; it may measure it
    path     how rows are mixed, as in `iterate`
    batches  how many batches all samples of a client are, for rules that ask for all of them
    repeats  says that the loop gives the same samples for the same `opt.asked`; rules that ask
             twice about one batch need that here

    In the end the model is the averaged one.
    """
    return AllRows(exp, each, path, batches, repeats)


class AllRows:
    """A run of all rows; see `rows`."""

    def __init__(
        self,
        exp: Experiment,
        each: Watch | None,
        path: Path,
        batches: int | tuple[int, ...] | None,
        repeats: bool,
    ) -> None:
        self._loop = loop_of(exp)
        if exp.until_settled is not None:
            raise ConfigError(
                "until_settled needs evaluations of all models, which a loop of your own does not "
                "make. Leave it out and give `rounds`."
            )
        self.experiment, self.seam, self.repeats = exp, Seam(), repeats
        self._each, self._path = each, path
        self._batches = (batches,) if isinstance(batches, int) else batches
        self._session: Session | None = None
        self._last: Snapshot | None = None

    @property
    def session(self) -> Session:
        """The rule's session: its state and ledger. Read it where the loop stands still."""
        if self._session is None:
            raise RuntimeError("The run has not begun: give it to pl.live.optimizer first.")
        return self._session

    def begin(self, model: nn.Module, judged: bool) -> None:
        """Start the rule in a thread."""
        if self._session is not None:
            raise ConfigError(
                "This run has an optimizer already. Make a new one: pl.live.rows(experiment)."
            )
        prepare_process()
        problem = asked_problem(
            model, self._loop, describe(self._loop), self.seam, judged, self._batches
        )
        exp = changed(self.experiment, problem=problem)
        # A loop is not asked twice about what it has answered, so nothing can be replayed.
        guard = Guard(every=1, replay=False)
        session = self._session = Session(
            exp, build_port(exp, mixer=self._path), stop=StopRule.of(exp), guard=guard
        )

        def work() -> None:
            for snapshot in session:
                self._last = snapshot
                if self._each is not None:
                    self._each(snapshot)

        self.seam.start(work)

    def final(self) -> Tensor:
        """The averaged model."""
        assert self._last is not None
        return mean_model(self._last.models, self._last.mass)

    def checkpoint(self, loop: Mapping[str, Any]) -> bool:
        """Nothing is kept of a run in one process."""
        return False

    @property
    def resumed(self) -> dict[str, Any] | None:
        """Nothing was kept."""
        return None

    @property
    def done(self) -> int:
        """The last round that is done."""
        return -1 if self._last is None else self._last.t

    def close(self) -> None:
        """End the rule's thread."""
        self.seam.leave()

"""One peer of a federation whose row is trained by a loop of this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..config import spec_hash
from ..core import ConfigError
from ..core.events import Event, RoundEvent
from ..experiment import Experiment
from ..peers.experiments import run_folder, signed_experiment
from ..peers.folder import PeerFolder
from ..peers.log import EventLog
from ..peers.site import Site
from ..peers.site_code import SiteCode
from ..peers.start import Stop, start_peer
from ..peers.status import is_complete
from ..peers.wire_plan import WirePlan
from ..registry import describe
from ..runtime import prepare_process, trace
from ..transport import Home, StopRequested
from .answers import ENTRY, Answers
from .asked import asked_problem
from .keeper import Keeper
from .run import changed, loop_of
from .seam import Seam

__all__ = ["OnePeer", "peer"]

_log = logging.getLogger("peerloom.live")
_USUAL = Site()


def peer(
    folder: str | Path,
    file: str | Path,
    site: Site = _USUAL,
    *,
    batches: int | None = None,
    say: Callable[[str], None] = _log.info,
) -> OnePeer:
    """The peer of a folder, trained by the loop that it is given to.

    folder   the peer's, as `peerloom peer init` made it
    file     the experiment, signed by the founder, with [problem] name = "Loop"
    site     what this site decides for itself, as the options of `peerloom peer start`
    batches  how many batches all samples of this client are, for rules that ask for all of them
    say      takes the lines that `peerloom peer start` would print
    """
    return OnePeer(Path(folder), Path(file), site, batches, say)


class OnePeer:
    """A run of one row over links; see `peer`."""

    repeats = False

    def __init__(
        self,
        folder: Path,
        file: Path,
        site: Site,
        batches: int | None,
        say: Callable[[str], None],
    ) -> None:
        self._home = Home.open(folder)
        self._site, self._batches = site, batches
        self.experiment = signed_experiment(self._home, file, site.code or SiteCode(folder))
        self._loop = loop_of(self.experiment)
        _check(self.experiment, site)
        self.seam, self._stop = Seam(), Stop()
        self._log = EventLog(say)
        self._keeper: Keeper | None = None
        self._last: Tensor | None = None
        self.done = 0

    def begin(self, model: nn.Module, judged: bool) -> None:
        """Start the peer in a thread: links, checkpoints and rule."""
        if self._keeper is not None:
            raise ConfigError(
                "This peer has an optimizer already. Make one with pl.live.peer(...) for each."
            )
        # The loop's own sums must not depend on how many processors a site has either.
        prepare_process(threads=1, keep_memory=False)
        home, exp = self._home, self.experiment
        where = run_folder(home, exp)
        kept = PeerFolder(where, spec_hash(exp))
        roster = kept.began(home.roster) if kept.begun() else home.roster
        # What a rule remembers of its neighbours would be wrong for ever if an answer that they
        # have built on was changed.
        recipe = describe(self._loop)
        plain = asked_problem(model, self._loop, recipe, self.seam, judged, self._given)
        plan = WirePlan.of(changed(exp, problem=plain))
        answers = Answers(where, whole=not plan.outlasts)
        keeper = self._keeper = Keeper(
            roster.row(home.identity.id), answers, self.seam, _journal_bytes(exp, plan, plain.n)
        )
        live = changed(exp, problem=replace(plain, notes=keeper))
        self._log.introduce(home.name, home.roster)
        self.seam.start(partial(self._work, live, where, keeper))

    def _work(self, live: Experiment, where: Path, keeper: Keeper) -> None:
        if is_complete(where):
            at = PeerFolder(where, spec_hash(live)).newest()
            if at is not None:
                self.done, self._last = at.t, torch.from_numpy(at.state["x"][0].copy())
                return
        observers = [self._log.observe, self._observe]
        try:
            session = start_peer(
                self._home, live, self._site, observers=observers, stop=self._stop, holder=keeper
            )
        finally:
            keeper.close()
        self._last = session.state.x[0]

    def final(self) -> Tensor:
        """This client's last model."""
        assert self._last is not None
        return self._last

    def checkpoint(self, loop: Mapping[str, Any]) -> bool:
        """Write where run and loop stand, if a checkpoint is due."""
        return self._keeper is not None and self._keeper.checkpoint(loop)

    @property
    def resumed(self) -> dict[str, Any] | None:
        """What the loop said of itself at the checkpoint from which the peer goes on."""
        return None if self._keeper is None else self._keeper.resumed

    def close(self) -> None:
        """End the peer, so that it can be started again."""
        with suppress(StopRequested):  # it has not even links yet
            self._stop.request()
        self.seam.leave()

    @property
    def _given(self) -> tuple[int, ...] | None:
        return None if self._batches is None else (self._batches,)

    def _observe(self, event: Event) -> None:
        if isinstance(event, RoundEvent):
            self.done = event.t


def _journal_bytes(exp: Experiment, plan: WirePlan, n: int) -> int:
    """The most that the journal of answers takes: it reaches back to the older checkpoint."""
    row = 0 if plan.outlasts else n * exp.torch_dtype.itemsize
    return 3 * plan.checkpoint_every * max(1, trace(exp.algorithm).gradients) * (row + ENTRY)


def _check(exp: Experiment, site: Site) -> None:
    """Refuse what has not been tried with loops, or would have no effect."""
    if site.deadline is not None or site.free:
        raise ConfigError(
            "A loop of your own cannot run with a deadline or with free=True: a round that goes on "
            "without its gradient is not the rule's. Leave them out; peers wait for each other."
        )
    if site.device != "cpu":
        raise ConfigError(
            f"The device '{site.device}' would have no effect: your loop says where its model "
            "lives, and rows stay in the machine's memory. Leave it out."
        )
    if exp.measures:
        raise ConfigError(
            "Resources cannot be measured where a loop of your own computes the gradients: it "
            "would be asked before the first round. Name them in the file."
        )

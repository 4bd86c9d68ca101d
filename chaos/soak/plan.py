"""Which faults happen: a pure function of the seed, the number of the run and the peers.

A run is a case (how peers wait, under which rule) and a list of faults in episodes. In an episode
one to three faults overlap; then all is mended, and every peer must get on. What is drawn does not
depend on what the machine permits or on how fast it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

from peerloom.experiment import Experiment

from ..peers import experiment

__all__ = ["CASES", "KINDS", "Case", "Fault", "RunPlan", "plan_run"]

Mode = Literal["everyone", "deadline", "nobody"]

KINDS = {
    "kill": "kill -9, started again",
    "crash": "kill -9 at a named point within a frame or a checkpoint",
    "stop_all": "all stopped, or all killed, and started again",
    "freeze": "SIGSTOP, then SIGCONT",
    "partition": "cut off both ways",
    "one_way": "cut off one way",
    "bad_line": "loss and delay",
    "full_disk": "full disk",
    "slow_disk": "slow disk",
    "clock": "the wall clock jumps, and back",
    "member": "a member is added",
    "unlink": "a link is removed",
    "expel": "a member is removed, and tries to return",
    "flood": "floods by strangers and by a member",
    "copy": "a copy of a peer is started beside it",
    "backup": "an old backup is put back",
    "relay": "a relay, or both, killed and started again",
}
"""Every kind of fault, as the table names it."""

_ALONE = {"stop_all", "copy", "backup", "expel", "unlink"}  # no other fault in the same episode
_OF_PROCESSES = {"kill", "crash", "freeze", "full_disk"}  # one of them per row at a time
_ENDS = {"kill", "crash", "full_disk", "expel", "backup"}  # the process of a row
_ONCE = {"unlink", "expel"}  # together once in a run, and only where the rule outlasts it
_LONG = 20  # episodes of a run in which processes grow old, and
_SPARED = 2  # rows of it whose processes no fault ends
_RELAYED = 1 / 3  # of all runs; and of the episodes of such a run, those in which a relay dies
_POINTS = (
    "before_send", "mid_body", "after_send_before_ack", "before_apply", "after_apply_before_ack",
    "before_rename", "after_rename",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """How peers wait, under which rule, and whether that rule outlasts a lost link."""

    mode: Mode
    rule: str
    outlasts: bool = False
    more: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        waits = {"everyone": "waiting for everyone", "deadline": "a deadline", "nobody": "free"}
        return f"{self.rule}, {waits[self.mode]}"

    @property
    def deadline(self) -> float | None:
        """How many seconds a round waits for a neighbour that is late."""
        return 0.5 if self.mode == "deadline" else None

    @property
    def options(self) -> list[str]:
        """What `peer start` is told."""
        waits = ["--deadline", str(self.deadline)] if self.deadline else []
        return ["--free"] if self.mode == "nobody" else waits

    def experiment(self, peers: int, seed: int) -> Experiment:
        """Without an end: the tester stops the peers."""
        # Whoever waits for nobody is slowed down by larger models alone.
        features = 4000 if self.mode == "nobody" else 400
        return experiment(10**6, self.rule, peers, features, seed=seed, **self.more)


_CHOCO = {
    "schedule": '{ name = "Always" }',
    "message": '{ name = "TopK", fraction = 0.1 }',
}
_PAME = {"arguments": "sigma = 300.0", "message": '{ name = "Coordinates", fraction = 0.5 }'}
CASES = (
    Case("everyone", "DSpodFL", outlasts=True),
    Case("deadline", "SpodGT"),
    Case("nobody", "SpodGT"),
    Case("everyone", "CHOCO", more=_CHOCO),
    Case("deadline", "DSpodFL", outlasts=True),
    Case("everyone", "SpodGT"),
    Case("nobody", "DSpodFL", outlasts=True),
    Case("deadline", "PaME", outlasts=True, more=_PAME),
)


@dataclass(frozen=True)
class Fault:
    """One fault: what befalls which row, when within its episode, for how long, how much."""

    number: int
    episode: int
    kind: str
    row: int
    after: float
    seconds: float
    amount: float = 0.0
    word: str = ""

    def __str__(self) -> str:
        more = f" {self.word}" if self.word else f" {self.amount:g}" if self.amount else ""
        return f"{self.kind}{more} row {self.row} {self.seconds:.1f} s"

    def facts(self) -> dict[str, Any]:
        """For a line of the history."""
        return asdict(self)


@dataclass(frozen=True)
class RunPlan:
    """One run: its case and its faults."""

    seed: int
    number: int
    peers: int
    case: Case
    faults: tuple[Fault, ...]
    relayed: bool = False  # nobody can be dialled: all meet at two relays
    spared: frozenset[int] = frozenset()  # rows whose processes live as long as the run

    def __str__(self) -> str:
        return f"{self.case}{', through relays' if self.relayed else ''}"

    @property
    def episodes(self) -> list[list[Fault]]:
        """The faults that overlap, in order."""
        return [list(part) for _, part in groupby(self.faults, lambda fault: fault.episode)]

    def only(self, numbers: Iterable[int]) -> RunPlan:
        """The same run with some of its faults."""
        chosen = set(numbers)
        return replace(self, faults=tuple(f for f in self.faults if f.number in chosen))

    def experiment(self) -> Experiment:
        """What the peers train."""
        return self.case.experiment(self.peers, self.seed * 1000 + self.number)


def plan_run(seed: int, number: int, peers: int = 5, episodes: int | None = None) -> RunPlan:
    """The run of this number; nearly every fifth is long, and two processes live to its end."""
    draws = random.Random(f"peerloom soak {seed} {number} {peers}")
    case = CASES[(seed + number) % len(CASES)]
    relayed = draws.random() < _RELAYED
    old = number % 5 == 4 and case.mode != "nobody"  # whose histories would become too long
    spared = frozenset(draws.sample(range(peers), min(_SPARED, peers - 2)) if old else ())
    faults, gone = list[Fault](), set[int]()
    for episode in range(episodes or (_LONG if old else 4)):
        kinds = _kinds(draws, case.outlasts and not gone, relayed, old)
        busy = set(gone)
        for kind in kinds:
            first = 1 if kind in _ONCE else 0  # the founder stays
            out = busy | (spared if kind in _ENDS else set())
            left = [row for row in range(first, peers) if row not in out]
            if not left:
                continue
            row = draws.choice(left)
            if kind in _ONCE:
                gone |= {row}
            if kind in _OF_PROCESSES:
                busy.add(row)
            faults.append(_fault(draws, len(faults), episode, kind, row))
    return RunPlan(seed, number, peers, case, tuple(faults), relayed, spared)


def _kinds(draws: random.Random, may_lose: bool, relayed: bool, old: bool) -> list[str]:
    """Kinds that may overlap: one to three of them."""
    known = [kind for kind in KINDS if may_lose or kind not in _ONCE]
    known = [kind for kind in known if not (old and kind == "stop_all")]
    known = [kind for kind in known if relayed or kind != "relay"]
    first = "relay" if relayed and draws.random() < _RELAYED else draws.choice(known)
    if first in _ALONE:
        return [first]
    others = [kind for kind in known if kind not in _ALONE and kind != first]
    return [first, *draws.sample(others, draws.choice((0, 0, 1, 1, 2)))]


def _fault(draws: random.Random, number: int, episode: int, kind: str, row: int) -> Fault:
    after, seconds = draws.uniform(0.0, 1.0), draws.uniform(1.0, 6.0)
    amount, word = _DETAILS[kind](draws) if kind in _DETAILS else (0.0, "")
    return Fault(number, episode, kind, row, round(after, 2), round(seconds, 2), amount, word)


_Detail = Callable[[random.Random], tuple[float, str]]
_DETAILS: dict[str, _Detail] = {
    "crash": lambda draws: (0.0, f"{draws.choice(_POINTS)}=kill@{draws.randrange(2, 8)}"),
    "stop_all": lambda draws: (0.0, draws.choice(("SIGTERM", "SIGKILL"))),
    "relay": lambda draws: (0.0, draws.choice(("first", "both"))),
    "one_way": lambda draws: (0.0, draws.choice(("to", "from"))),
    "bad_line": lambda draws: (round(draws.uniform(0.02, 0.2), 3), ""),
    "slow_disk": lambda draws: (round(draws.uniform(0.02, 0.5), 3), ""),
    "clock": lambda draws: (
        draws.choice((-1, 1)) * draws.choice((10.0, 3600.0, 86400.0, 400 * 86400.0)),
        "",
    ),
}

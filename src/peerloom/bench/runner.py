"""The whole benchmark as one document."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

from ..core import ConfigError, PeerloomError, nearest
from ..peers.disk import show_bytes
from ..problems import Classification
from .agreement import check
from .cases import CASES, Case, experiment
from .codecs import FAST, codec_speeds
from .contenders import Contender, NumpyLoop, PapersLoop, Simulator
from .gradients import fast_gradients
from .large import SHARE, large_rows
from .links import links
from .live import LIVE_SIZES, handover, live_steps
from .machine import Machine, facts, work_of
from .overhead import OVERHEAD_CASE, overhead
from .peers import CROWD, RING, between_peers, crowd, parts_of_a_round
from .processes import memory, startup
from .relays import RELAY_SIZES, through_relays
from .rules import COMPRESSED, WANTED, mixing, rule_rounds
from .timing import interleaved

__all__ = ["BETWEEN_PROCESSES", "PARTS", "Line", "run"]

_OVERHEAD, _MEMORY, _STARTUP = 0.25, 1.5, 1.0  # wanted: a share, GB, seconds


@dataclass(frozen=True)
class Line:
    """One figure, its target, and whether it is met; some figures have no target."""

    case: str
    what: str
    value: float | None
    unit: str
    wanted: float | None = None
    sense: Literal[">=", "<"] = ">="
    error: str | None = None

    @property
    def met(self) -> bool | None:
        """None where there is no wish; a figure that could not be taken is not met."""
        if self.wanted is None:
            return None
        if self.value is None:
            return False
        return self.value >= self.wanted if self.sense == ">=" else self.value < self.wanted


def run(
    cases: list[str] | None = None,
    seconds: float = 2.0,
    progress: Callable[[str], None] | None = None,
    size: int = 128 << 20,
) -> dict[str, Any]:
    """Measure the named parts, all by default, each for about `seconds`; return a document.

    `size` are the bytes of a row in the case "large".

    machine  versions, threads, and the two speeds that bounds are made of
    lines    the figures: case, what, value, unit, wanted, sense, met, error
    rounds   the milliseconds behind them, one entry per workload
    """
    named = list(dict.fromkeys(PARTS if cases is None else cases))  # each is measured once
    for name in named:
        if name not in PARTS:
            raise ConfigError(f"bench: there is no case '{name}'. {nearest(name, PARTS)}")
    if seconds <= 0:
        raise ConfigError(f"bench: seconds must be above 0, found {seconds}.")
    say = progress or (lambda _: None)
    say("machine: large product, large copy")
    machine = Machine.measured()
    lines: list[Line] = []
    rounds: list[dict[str, Any]] = []
    for name in named:
        say(name)
        if name in CASES:
            entry, found = _compare(name, CASES[name], machine, seconds)
            rounds.append(entry)
            lines += found
        elif name == "large":
            lines += _large(size)
        else:
            lines += _EXTRAS[name](seconds)
    judged = [asdict(line) | {"met": line.met} for line in lines]
    return {"machine": facts(machine), "lines": judged, "rounds": rounds}


def _compare(
    name: str, case: Case, machine: Machine, seconds: float
) -> tuple[dict[str, Any], list[Line]]:
    """Measure one workload: agreement, time per round of each, distance from the bound."""
    agreement = check(name, case)
    exp = experiment(case)
    assert isinstance(exp.problem, Classification)
    simulator = Simulator(exp)
    x0 = simulator.now.x
    contenders: dict[str, Contender] = {
        "simulator": simulator,
        "papers": PapersLoop(exp.problem, exp.graph, simulator.parts, x0),
    }
    if case.with_numpy:
        contenders["numpy"] = NumpyLoop(exp.graph, simulator.parts, x0)
    ms = interleaved({who: contender.round for who, contender in contenders.items()}, seconds)
    work = work_of(exp.problem, exp.graph)
    bound = work.bound(machine)
    entry = {
        "case": name,
        "clients": case.clients,
        "links": len(exp.graph.peers),
        "parameters": exp.problem.n,
        "ms": ms,
        "agreement": agreement,
        "flops": work.flops,
        "bytes": work.bytes,
        "bound_ms": bound,
        "bound_by": work.limit(machine),
    }
    lines = [
        Line(
            name,
            "times faster than the papers' style",
            ms["papers"] / ms["simulator"],
            "x",
            case.wanted,
        )
    ]
    if case.with_numpy:
        lines.append(
            Line(name, "times faster than a NumPy loop", ms["numpy"] / ms["simulator"], "x")
        )
    lines.append(Line(name, "share of the machine's bound", 100 * bound / ms["simulator"], "%"))
    return entry, lines


def _overhead(seconds: float) -> list[Line]:
    ms = overhead(seconds)
    share = 1 - (ms["gather"] + ms["gradient"] + ms["product"]) / ms["round"]
    parts = [
        Line("overhead", f"{part} of {OVERHEAD_CASE}", value, "ms") for part, value in ms.items()
    ]
    return [
        Line(
            "overhead",
            "share of a round beside gather, gradient and product",
            100 * share,
            "%",
            100 * _OVERHEAD,
            "<",
        ),
        *parts,
    ]


def _memory(_: float) -> list[Line]:
    """Peak of a run, and of a run that also judged its models."""
    whats = {
        "rounds": "peak of softmax-1000, rounds alone",
        "judged": "the same, all models judged on 10,000 samples",
    }
    try:
        found = memory()
    except PeerloomError as error:
        return [
            Line("memory", what, None, "GB", _MEMORY, "<", str(error)) for what in whats.values()
        ]
    return [Line("memory", what, found[key], "GB", _MEMORY, "<") for key, what in whats.items()]


def _startup(_: float) -> list[Line]:
    what = "time of `peerloom --help`"
    try:
        return [Line("startup", what, startup(), "s", _STARTUP, "<")]
    except PeerloomError as error:
        return [Line("startup", what, None, "s", _STARTUP, "<", str(error))]


def _rules(seconds: float) -> list[Line]:
    """Every algorithm in rounds of DGD; names with a comma say with which message."""
    ms = rule_rounds(20 * seconds)

    def wanted(name: str) -> float | None:
        return WANTED.get(name, 4.0 if name.partition(",")[0] in COMPRESSED else None)

    return [
        Line("algorithms", name, spent / ms["DGD"], "x DGD", wanted(name), "<")
        for name, spent in sorted(ms.items())
    ]


def _mixing(seconds: float) -> list[Line]:
    ms = mixing(seconds)
    best = min(ms["scipy"], ms["torch"])
    return [
        Line(
            "mixing",
            "1,000 rows of 7,850, 8 neighbours: times one CSR product",
            ms["mix"] / best,
            "x",
            2.0,
            "<",
        ),
        Line("mixing", "one mix", ms["mix"], "ms"),
        Line("mixing", "SciPy's CSR product", ms["scipy"], "ms"),
        Line("mixing", "torch's CSR product", ms["torch"], "ms"),
    ]


def _gradients(seconds: float) -> list[Line]:
    """A fast path that is no faster than its readable twin has no reason to be there."""
    return [
        Line("gradients", what, ratio, "x", 1.0) for what, ratio in fast_gradients(seconds).items()
    ]


def _codecs(_: float) -> list[Line]:
    """Rows of a million numbers have a target; short ones are there to be known."""
    lines = []
    for (name, n), speeds in codec_speeds().items():
        wanted = None if n < 10**6 else 400.0 if name in FAST else 100.0
        for what, speed in zip(("encode", "decode"), speeds, strict=True):
            lines.append(Line("codecs", f"{what} {name}, n = {n:,}", speed, "MB/s", wanted))
    return lines


def _peers(_: float) -> list[Line]:
    """Measure rounds per second, the CPU of all rows, and how much of it is the step itself."""
    found, parts = between_peers(), parts_of_a_round()
    ring = f"ring of {RING} processes over TLS, everyone waits for everyone"
    bound = (os.cpu_count() or 1) * 1000 / (RING * found["cpu"])
    return [
        Line("peers", ring, found["rounds"], "rounds/s", 200.0),
        Line("peers", "until all of them have done a first round", found["start"], "s", 10.0, "<"),
        Line("peers", "a row's round, CPU of all its threads", found["cpu"], "ms"),
        Line("peers", "so these processors could do", bound, "rounds/s"),
        Line("peers", "of a row's round: gradient and mixing", parts["step"], "ms"),
        Line("peers", "of a row's round: its share of a checkpoint", parts["checkpoint"], "ms"),
        Line(
            "peers",
            "of a row's round: links, threads, the interpreter",
            found["cpu"] - sum(parts.values()),
            "ms",
        ),
    ]


def _crowd(_: float) -> list[Line]:
    found = crowd()
    return [
        Line(
            "crowd",
            f"{CROWD} peers, 256 links, 40 KB over each in every round",
            found["rounds"],
            "rounds/s",
            10.0,
        ),
        Line("crowd", "until all of them have done a first round", found["start"], "s"),
        Line("crowd", "memory of a peer beyond torch", found["memory"], "MB", 64.0, "<"),
        Line("crowd", "memory of an interpreter with torch", found["torch"], "MB"),
    ]


def _links(_: float) -> list[Line]:
    lines = []
    for size, (link, bare) in links().items():
        wanted = 70.0 if size == "50 MB" else None
        lines += [
            Line(
                "links",
                f"{size} over a link, of a bare TLS socket's throughput",
                100 * bare / link,
                "%",
                wanted,
            ),
            Line("links", f"{size} over a link, acknowledged", link, "ms"),
        ]
    return lines


def _large(size: int) -> list[Line]:
    """Peers with large rows, in processes that may not take more memory."""
    found = large_rows(size)
    row = f"rows of {show_bytes(size)}"
    return [
        Line("large", f"{row}: a peer beside the engine", found.beside, "rows", SHARE, "<"),
        Line("large", f"{row}: the engine's own arrays (DGD)", found.alone, "rows"),
        Line("large", f"{row}: sent after a cut half-way", found.ratio, "rows", 1.1, "<"),
        Line("large", f"{row}: ring of three, two rounds", found.seconds, "s"),
    ]


def _relays(seconds: float) -> list[Line]:
    """Measure links through a relay as shares of a direct one's speed."""
    found = through_relays()
    direct, lines = found["direct"], list[Line]()
    for size in RELAY_SIZES:
        for way in ("bare", "wrapped"):
            share = direct.ms[size] / found[way].ms[size]
            wanted = 0.6 if (way, size) == ("bare", "50 MB") else None
            what = f"{size} through a {way} relay, share of direct speed"
            lines.append(Line("relay", what, share, "", wanted))
            lines.append(Line("relay", f"{size} through a {way} relay", found[way].ms[size], "ms"))
        lines.append(Line("relay", f"{size} direct", direct.ms[size], "ms"))
    for way, wanted in (("bare", 0.8), ("wrapped", None)):
        cpu = found[way].relay_cpu_per_gb
        lines.append(Line("relay", f"relay's CPU per GB, {way}", cpu, "s", wanted, "<"))
        lines.append(Line("relay", f"relay's memory, {way}", found[way].relay_bytes / 1e6, "MB"))
    return lines


def _live(seconds: float) -> list[Line]:
    """Loops of one's own: handing over, and a step beside SGD's; every turn, since they vary."""
    found = [1000 * ms for ms in handover(seconds)]
    lines = [
        Line("live", "handed over to a loop and back, best turn", min(found), "us", 60.0, "<"),
        *(Line("live", f"the same, turn {k}", us, "us") for k, us in enumerate(found, start=1)),
    ]
    for n in LIVE_SIZES:
        steps = live_steps(n, 5 * seconds)
        plain = steps.pop("SGD")
        lines.append(Line("live", f"n = {n:,}: a step under torch's SGD", min(plain), "ms"))
        for rule, ms in steps.items():
            # Both steps of a turn see the machine as it is then, so a ratio is taken turn by turn.
            ratios = [one / other for one, other in zip(ms, plain, strict=True)]
            wanted = 1.5 if (rule, n) == ("DSpodFL", max(LIVE_SIZES)) else None
            what = f"n = {n:,}: a step under {rule}, times SGD's, median turn"
            lines.append(Line("live", what, median(ratios), "x", wanted, "<"))
            lines += [
                Line("live", f"the same, turn {k}", ratio, "x")
                for k, ratio in enumerate(ratios, start=1)
            ]
    return lines


_EXTRAS: dict[str, Callable[[float], list[Line]]] = {
    "algorithms": _rules,
    "mixing": _mixing,
    "gradients": _gradients,
    "codecs": _codecs,
    "links": _links,
    "live": _live,
    "relay": _relays,
    "peers": _peers,
    "crowd": _crowd,
    "overhead": _overhead,
    "memory": _memory,
    "startup": _startup,
}
PARTS: tuple[str, ...] = (*CASES, *_EXTRAS, "large")
BETWEEN_PROCESSES = ("links", "relay", "peers", "crowd", "large")

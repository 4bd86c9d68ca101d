"""One peer of a federation: from its folder and an experiment file to a running row."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..code import Loader, loading_code_by
from ..config import comparison_from, experiment_to_toml, parse, read_bytes, spec_hash
from ..core.events import Measured, Observer, Observers
from ..errors import ConfigError, PeerError, PeerloomError
from ..experiment import Experiment
from ..runtime import Session, prepare_process
from ..transport import (
    Endpoint,
    Event,
    History,
    Home,
    Roster,
    RunIdentity,
    Settings,
    StopRequested,
    Transport,
)
from ..transport.files import write_whole
from ..transport.roster import parse_address
from .agreement import AGREEMENT, Agreement, agreement_channel
from .folder import PeerFolder
from .metrics import MetricsPage
from .peer import PeerRun, check_stop
from .resources import check_measurable, describe_resources, measure_resources, probe_channels
from .samples import with_samples
from .site_code import SiteCode
from .telemetry import EventLog, StatusWriter, Telemetry, link_event, snapshot
from .watch import RosterWatch
from .wire_plan import WirePlan

__all__ = [
    "Site",
    "check_roster",
    "only_experiment",
    "run_folder",
    "serve",
    "signed_experiment",
    "start_peer",
]


def only_experiment(file: Path, data: bytes | None = None) -> Experiment:
    """The experiment of a file, or of its bytes, that holds exactly one."""
    found = comparison_from(
        parse(read_bytes(file) if data is None else data, file), file.stem
    ).experiments
    if len(found) != 1:
        raise ConfigError(
            f"{file} holds {len(found)} runs (algorithms times seeds), and peers run one. Write a "
            "file with one algorithm and one seed; `peerloom up` takes them one after the other."
        )
    return found[0]


def signed_experiment(home: Home, file: Path, code: Loader) -> Experiment:
    """Return the experiment of a file that the founder signed; `code` loads what it names.

    A run that began before the founder signed the next experiment may go on: the roster with which
    it began names it.
    """
    data, roster = read_bytes(file), home.roster
    began = (path.read_bytes() for path in sorted(home.state.glob("*/began.json")))
    if not (
        roster.signs(data)
        or any(Roster.from_bytes(known, roster.founder).signs(data) for known in began)
    ):
        roster.check_file(data, file)
    with loading_code_by(code):
        return only_experiment(file, data)


def run_folder(home: Home, exp: Experiment) -> Path:
    """Where a peer keeps this run: every experiment has a folder of its own."""
    return home.state / spec_hash(exp)[:16]


def check_roster(roster: Roster, exp: Experiment) -> None:
    """Refuse a roster whose members, links or experiment are not those of `exp`."""
    members, graph = roster.members, exp.graph
    if roster.spec and roster.spec != spec_hash(exp):
        raise ConfigError(
            f"The founder signed experiment {roster.spec[:12]} in the roster, but this file is "
            f"{spec_hash(exp)[:12]}. Take the file that was agreed on (`peerloom peer kit open` "
            "brings it), or ask the founder to sign this one."
        )
    if len(members) != graph.rows:
        raise ConfigError(
            f"The experiment has {graph.rows} rows, but the roster {len(members)} members."
        )
    ids = [member.id for member in members]
    wanted = {
        (ids[source], ids[target], layer)
        for layer, links in graph.layers.items()
        for source, target in zip(links.src, links.dst, strict=True)
    }
    if wanted != {(link.source, link.target, link.layer) for link in roster.links}:
        raise ConfigError(
            "The links of the roster are not those of the experiment's graph. The founder sets "
            "them with `peerloom peer roster graph FILE` and sends the roster to all."
        )


def check_deadline(exp: Experiment, deadline: float | None) -> None:
    """Refuse to go on without those who are late under a rule that cannot bear it."""
    needs = exp.algorithm.needs
    bears = needs.links == "any" and ("part" in needs.accepts or needs.keeps_mean)
    if deadline is not None and not bears:
        raise ConfigError(
            f"{type(exp.algorithm).__name__} needs every message of every round, and cannot go on "
            "without those who are late. Leave the deadline out, or use DSpodFL, SpodGT, "
            "Depositum, MLLSGD or PaME."
        )


def check_free(exp: Experiment) -> None:
    """Refuse to wait for nobody under a rule, a graph or a message that cannot bear it."""
    needs, name = exp.algorithm.needs, type(exp.algorithm).__name__
    if needs.links != "any":
        raise ConfigError(
            f"{name} needs every message of every round: its peers must wait for each other. Leave "
            "--free out."
        )
    if exp.message.fit not in ("whole", "rounded"):
        raise ConfigError(
            f"Where peers wait for nobody rows travel whole, so {exp.message!r} cannot be used. "
            "Use Dense."
        )


@dataclass(frozen=True)
class Site:
    """What a site decides for itself. Only `free` must be the same everywhere."""

    data: str = ""
    """Its samples: a .csv or .npz file, or module:function."""
    label: str = ""
    """The label's column in a CSV."""
    listen: str = ""
    """Where to listen, host:port; by default the peer's first address."""
    deadline: float | None = None
    """Seconds to wait for a neighbour in a round."""
    free: bool = False
    """Wait for nobody."""
    settings: Settings = field(default_factory=Settings)
    """Times and limits of the links."""
    history: bool = False
    """Keep every event of every link."""
    metrics: str = ""
    """Serve metrics there, host:port."""
    largest_norm: float | None = None
    """Refuse rows of neighbours whose Euclidean norm exceeds this."""
    pause: int | None = None
    """Stop after this round: where all sites do, their checkpoints make a whole."""
    code: Loader | None = None
    """Loads code that the experiment names; by default as the site's own `site.toml` says."""


_USUAL = Site()


class Stop:
    """A request to end the run, made by a signal handler; only the current round is lost."""

    def __init__(self) -> None:
        self._transport: Transport | None = None

    def request(self) -> None:
        """End the wait of the transport; before there is one, raise here and now."""
        if self._transport is None:
            raise StopRequested
        self._transport.request_stop()

    def attach(self, transport: Transport) -> None:
        """From now on, stop by this transport, so that the run ends with a checkpoint."""
        self._transport = transport


def start_peer(
    home: Home,
    exp: Experiment,
    site: Site = _USUAL,
    *,
    observers: Sequence[Observer] = (),
    stop: Stop | None = None,
) -> Session:
    """Run this peer's row until the experiment is done; `stop` ends it earlier."""
    check_stop(exp)
    # One thread: a row's sums must not depend on how many processors a site has.
    prepare_process(threads=1, keep_memory=False)
    folder = run_folder(home, exp)
    kept = PeerFolder(folder, spec_hash(exp))
    began = kept.began(home.roster) if kept.begun() else home.roster
    if not kept.begun():
        check_roster(began, exp)
    row, text = began.row(home.identity.id), experiment_to_toml(exp)
    check_deadline(exp, site.deadline)
    if site.free:
        check_free(exp)
    check_measurable(exp)
    exp = with_samples(exp, row, site.data, site.label)
    plan = WirePlan.of(exp, site.deadline, site.free, site.largest_norm)
    channels = (
        plan.channels | probe_channels(exp, plan) | {AGREEMENT: agreement_channel(exp.problem.n)}
    )
    run = RunIdentity(f"run-{spec_hash(exp)[:24]}", spec_hash(exp), channels)
    write_whole(folder / "experiment.toml", text.encode())
    where = parse_address(
        site.listen or (home.addresses[0] if home.addresses else "127.0.0.1:7400")
    )
    written = History(folder / "history.jsonl", home.identity.id) if site.history else None
    chosen = plan.settings(site.settings)
    tell = Observers(observers)

    def heard(event: Event) -> None:
        tell(link_event(event))

    with Endpoint(
        home.identity, home.roster, run, folder, where, chosen, heard, written
    ) as transport:
        if stop is not None:
            stop.attach(transport)
        telemetry = Telemetry(row, exp.rounds, tuple(plan.channels))

        def read() -> dict[str, Any]:
            return snapshot(transport, telemetry)

        page = MetricsPage(site.metrics, read) if site.metrics else contextlib.nullcontext()
        with RosterWatch(home, transport, plan, began), StatusWriter(folder, telemetry, read), page:
            if exp.measures:
                with telemetry.measuring():
                    exp = measure_resources(exp, row, transport, folder, plan)
                tell(Measured("", describe_resources(exp, row)))
            work = PeerRun(
                exp,
                row,
                transport,
                kept,
                plan,
                telemetry=telemetry,
                observers=[tell],
                pause=site.pause,
            )
            with Agreement(transport, telemetry, exp.problem.n, exp.seed, row < exp.graph.clients):
                prepare_process(threads=1)  # from here on rounds make and free the same blocks
                return work.run()


def serve(
    folder: Path,
    file: Path,
    site: Site = _USUAL,
    *,
    log_json: bool = False,
    say: Callable[[str], None],
) -> int:
    """Run the peer of a folder to its end, log lines with `say`, and return the exit code."""
    stop, signals = Stop(), (signal.SIGINT, signal.SIGTERM)

    def ask(number: int, frame: object) -> None:
        for each in signals:  # once is enough: a second request must not disturb the checkpoint
            signal.signal(each, signal.SIG_IGN)
        stop.request()

    for number in signals:
        signal.signal(number, ask)
    log = EventLog(say, log_json)
    prepare_process(threads=1, batch=not site.free, keep_memory=False)
    try:
        home = Home.open(folder)
        log.introduce(home.name, home.roster)
        exp = signed_experiment(home, file, site.code or SiteCode(folder))
        start_peer(home, exp, site, observers=[log.observe], stop=stop)
        log.close()
    except StopRequested:
        return 130
    except PeerloomError as error:
        log.write("error", f"error: {error}")
        return error.exit_code
    except OSError as error:
        log.write(
            "error",
            f"error: {error}. What was written before is whole: mend that, then start this peer "
            "again.",
        )
        return PeerError.exit_code
    return 0

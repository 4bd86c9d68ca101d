"""One peer of a federation: from its folder and an experiment file to a running row."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..config import experiment_to_toml, spec_hash
from ..core import FromCode
from ..core.events import Alarm, DiskNeed, LinksOpened, Measured, Observer, Observers
from ..errors import PeerError, PeerloomError
from ..experiment import Experiment
from ..runtime import Session, prepare_process
from ..runtime.offload import usable_device
from ..transport import (
    Endpoint,
    Event,
    History,
    Home,
    RunIdentity,
    StopRequested,
    Transport,
)
from ..transport.files import close_folder, write_whole
from ..transport.roster import parse_address
from .agreement import AGREEMENT, Agreement, agreement_channel
from .asking import ask_neighbours
from .disk import Disk, checked_need, disk_of
from .experiments import (
    check_deadline,
    check_enough,
    check_free,
    check_roster,
    run_folder,
    signed_experiment,
)  # fmt: skip
from .folder import PeerFolder
from .log import EventLog
from .metrics import MetricsFile
from .metrics_page import MetricsPage
from .overview import Sharing
from .peer import Holder, PeerRun, check_stop
from .resources import check_measurable, describe_resources, measure_resources, probe_channels
from .samples import with_samples
from .site import Site
from .site_code import SiteCode
from .status import is_complete
from .telemetry import StatusWriter, Telemetry, link_event, snapshot
from .watch import RosterWatch
from .wire_plan import WirePlan

__all__ = ["Stop", "run_identity", "serve", "start_peer"]


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


def run_identity(exp: Experiment, plan: WirePlan) -> RunIdentity:
    """Return what the peers of an experiment must agree on before they talk to each other."""
    channels = (
        plan.channels | probe_channels(exp, plan) | {AGREEMENT: agreement_channel(exp.problem.n)}
    )
    spec = spec_hash(exp)
    if isinstance(exp.problem, FromCode):  # its parameters are what code of each site's makes
        spec = f"{spec[:63]}-{exp.problem.agreed(exp.seed)[:63]}"
    return RunIdentity(f"run-{spec_hash(exp)[:24]}", spec, channels)


def start_peer(
    home: Home,
    exp: Experiment,
    site: Site = _USUAL,
    *,
    observers: Sequence[Observer] = (),
    stop: Stop | None = None,
    holder: Holder | None = None,
) -> Session:
    """Run this peer's row until the experiment is done; `stop` ends it earlier.

    `holder` may put off checkpoints that are due.
    """
    check_stop(exp)
    usable_device(site.device)
    home.check_current()
    # One thread: a row's sums must not depend on how many processors a site has.
    prepare_process(threads=1, keep_memory=False)
    folder = run_folder(home, exp)
    kept = PeerFolder(folder, spec_hash(exp), site.judged)
    began = kept.began(home.roster) if kept.begun() else home.roster
    if not kept.begun():
        check_roster(began, exp)
        began.check_time(site.clock(), "A new run")
    row, text = began.row(home.identity.id), experiment_to_toml(exp)
    check_deadline(exp, site.deadline)
    check_enough(site.enough, site.deadline, site.free)
    if site.free:
        check_free(exp)
    check_measurable(exp)
    exp = with_samples(exp, row, site.data, site.label)
    plan = WirePlan.of(exp, site.deadline, site.free, site.largest_norm, site.enough)
    tell = Observers(observers)
    budget = site.disk if site.disk is not None else disk_of(home.folder)
    more = 0 if holder is None else holder.nbytes
    tell(DiskNeed("", checked_need(exp, row, plan, folder, site.judged, budget, more)))
    run = run_identity(exp, plan)
    write_whole(folder / "experiment.toml", text.encode())
    address = site.listen or next(iter(home.addresses), "")
    where = parse_address(address) if address else None  # without one this peer only dials
    written = History(folder / "history.jsonl", home.identity.id) if site.history else None
    chosen = replace(plan.settings(site.settings), last_round=exp.rounds + 1)
    disk = Disk(kept, budget, written, lambda text: tell(Alarm("", text)))

    def heard(event: Event) -> None:
        tell(link_event(event))
        if event.kind in ("alarm", "refused"):
            home.audit.note(event.kind, peer=event.peer, text=event.text[:500])

    with (
        home.reserve,
        home.audit.run(folder.name, experiment=spec_hash(exp), roster=home.roster.version),
        Endpoint(
            home.identity,
            home.roster,
            run,
            folder,
            where,
            chosen,
            heard,
            written,
            home.keep,
            site.outbound,
        ) as transport,  # fmt: skip
    ):
        if stop is not None:
            stop.attach(transport)
        tell(LinksOpened(run.run_id, transport.incarnation, exp.rounds))
        telemetry = Telemetry(row, exp.rounds, tuple(plan.channels))

        def read() -> dict[str, Any]:
            return snapshot(transport, telemetry, disk)

        page = MetricsPage(site.metrics, read) if site.metrics else contextlib.nullcontext()
        copy = (
            MetricsFile(site.metrics_file, read) if site.metrics_file else contextlib.nullcontext()
        )
        watch = RosterWatch(home, transport, plan, began, tell, site.clock)
        with watch, StatusWriter(folder, telemetry, read), page, copy:
            if home.unasked:
                ask_neighbours(home, transport, folder, began.version)
            if exp.measures:
                with telemetry.measuring():
                    exp = measure_resources(exp, row, transport, folder, plan, site.device)
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
                disk=disk,
                device=site.device,
                holder=holder,
            )
            sharing = Sharing(transport, read, site.share, site.share_every, home.audit.head)
            with (
                sharing,
                Agreement(transport, telemetry, exp.problem.n, exp.seed),
            ):
                # From here on rounds make and free the same blocks; large ones are given back,
                # since holes between what stays would add up to rows.
                prepare_process(threads=1, keep_memory=not plan.maps_rows)
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
        if close_folder(folder):
            log.write("folder", f"others could read or change {folder}: its mode is 0700 now")
        exp = signed_experiment(home, file, site.code or SiteCode(folder))
        if is_complete(run_folder(home, exp)):
            log.write("end", f"round {exp.rounds}, done before, here and at every neighbour")
            return 0
        with log.warnings():
            start_peer(home, exp, site, observers=[log.observe], stop=stop)
        log.close()
    except StopRequested:
        return 130
    except PeerloomError as error:
        log.write("error", str(error))
        return error.exit_code
    except OSError as error:
        log.write(
            "error",
            f"{error}. What was written before is whole: mend that, then start this peer again.",
        )
        return PeerError.exit_code
    return 0

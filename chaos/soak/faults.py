"""How each kind of fault is brought about and mended.

A fault is a generator: it acts, yields how many seconds are to pass, and goes on. When it ends all
is mended, and every row that should run has a process. What it finds wrong it raises.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from peerloom.transport import Home, Link, Member, Roster

from ..disk import fill
from ..ends import until
from .cluster import Cluster
from .plan import Fault

__all__ = ["FAULTS", "STOPPED", "Pauses", "ViolationError"]

Pauses = Iterator[float]
_PATIENCE = 240.0  # seconds for what takes a moment on a machine that does nothing else
STOPPED = (0, 130)
"""Exit codes of a peer that was asked to stop: with a checkpoint, or before the first round."""
_TRY_AGAIN, _NEVER_AGAIN = 5, 6  # exit codes of a peer that must stop


class ViolationError(Exception):
    """A promise that was not kept; the text says which."""


def kill(cluster: Cluster, fault: Fault) -> Pauses:
    """kill -9, and a new process some time later."""
    cluster.kill(fault.row)
    yield fault.seconds
    cluster.start(fault.row)


def crash(cluster: Cluster, fault: Fault) -> Pauses:
    """A process that kills itself at a named point, and a new one."""
    cluster.kill(fault.row)
    cluster.start(fault.row, failpoints=fault.word)
    cluster.down.add(fault.row)  # it will not be there for long
    process = cluster.peers.process(fault.row)
    end = time.monotonic() + fault.seconds + 10.0
    while process.poll() is None and time.monotonic() < end:
        yield 0.1
    code = process.poll()
    if code not in (None, -signal.SIGKILL):
        raise ViolationError(f"row {fault.row} ended with exit code {code} before its failpoint")
    if code is None:  # the point was not passed, as nothing was sent or saved meanwhile
        cluster.kill(fault.row)
    cluster.start(fault.row)


def stop_all(cluster: Cluster, fault: Fault) -> Pauses:
    """Stop all of them, or kill all of them, and start all again."""
    rows = list(cluster.rows)
    codes = cluster.stop(rows, signal.Signals[fault.word], _PATIENCE)
    wanted = STOPPED if fault.word == "SIGTERM" else (-signal.SIGKILL,)
    if wrong := {row: code for row, code in codes.items() if code not in wanted}:
        raise ViolationError(f"stopped by {fault.word}, rows ended with exit codes {wrong}")
    yield min(fault.seconds, 2.0)
    for row in rows:
        cluster.start(row)


def freeze(cluster: Cluster, fault: Fault) -> Pauses:
    """SIGSTOP, and SIGCONT some time later."""
    cluster.peers.signal(fault.row, signal.SIGSTOP)
    yield fault.seconds
    cluster.peers.signal(fault.row, signal.SIGCONT)


def line(cluster: Cluster, fault: Fault) -> Pauses:
    """Cut lines, or make them bad."""
    cluster.lines.spoil(fault)
    yield fault.seconds
    cluster.lines.mend(fault)


def full_disk(cluster: Cluster, fault: Fault) -> Pauses:
    """Fill the disk; a peer that gave up is started again when there is room."""
    cluster.down.add(fault.row)  # it may give up
    filler = fill(cluster.disks[fault.row])
    yield fault.seconds + 4.0
    filler.unlink()
    process, before = cluster.peers.process(fault.row), cluster.round(fault.row)
    # It may be in the midst of giving up: who does another round is not.
    yield from _until(lambda: process.poll() is not None or cluster.round(fault.row) > before + 1)
    cluster.down.discard(fault.row)
    if (code := process.poll()) is None:
        return
    if code != _TRY_AGAIN:
        raise ViolationError(f"on a full disk row {fault.row} ended with exit code {code}")
    cluster.start(fault.row)


def slow_disk(cluster: Cluster, fault: Fault) -> Pauses:
    """Every fsync and rename takes longer."""
    shim = cluster.shims[fault.row]
    assert shim is not None
    shim.disk(fault.amount)
    yield fault.seconds
    shim.disk(0.0)


def clock(cluster: Cluster, fault: Fault) -> Pauses:
    """The wall clock is set, and set right again."""
    shim = cluster.shims[fault.row]
    assert shim is not None
    shim.clock(fault.amount)
    yield fault.seconds
    shim.clock(0.0)


def member(cluster: Cluster, fault: Fault) -> Pauses:
    """The founder takes somebody in who has no links."""
    _guest(cluster, fault)
    yield 0.5


def unlink(cluster: Cluster, fault: Fault) -> Pauses:
    """The founder takes both links between a row and its successor away."""
    founder, ids = cluster.peers.homes[0], [home.identity.id for home in cluster.peers.homes]
    pair = (ids[fault.row], ids[(fault.row + 1) % len(ids)])
    _sign(cluster, founder.roster.without_links(founder.identity, [pair, pair[::-1]]))
    yield 1.0


def expel(cluster: Cluster, fault: Fault) -> Pauses:
    """The founder removes a member; its process must end, and so must the next."""
    founder, row = cluster.peers.homes[0], fault.row
    cluster.rows.remove(row)
    name = cluster.peers.homes[row].name
    _sign(cluster, founder.roster.without_member(founder.identity, name))
    for attempt in ("removed", "started again"):
        yield from _excluded(f"row {row}, {attempt},", cluster.peers.process(row))
        if attempt == "removed":
            cluster.peers.start(row)


def flood(cluster: Cluster, fault: Fault) -> Pauses:
    """Strangers come without end, and a member that has a link floods it.

    The row must cut the member off and hold it off; then the founder takes it out again.
    """
    victim, held_off = cluster.peers.homes[fault.row], cluster.folder / f"flood-{fault.number}"
    guest = _guest(cluster, fault, neighbour=victim.identity.id)
    run, founder = cluster.run, cluster.peers.homes[0]
    place = cluster.relays.addresses[0] if cluster.relays else victim.addresses[0]
    channel = min(run.channels)
    said = {
        "--guest": guest.folder,
        "--founder": founder.folder,
        "--held-off": held_off,
        "--victim": victim.identity.id,
        "--place": place,
        "--run": run.run_id,
        "--agreement": run.agreement,
        "--channel": channel,
        "--length": run.channels[channel].longest,
    }
    words = [str(word) for pair in said.items() for word in pair]
    process = cluster.outside([sys.executable, "-m", "chaos.soak.flood", *words])
    yield fault.seconds
    yield from _until(lambda: held_off.exists() or process.poll() is not None)
    if process.poll() is not None:
        raise RuntimeError(f"the flood ended by itself, with exit code {process.returncode}")
    process.kill()
    process.wait()
    if not held_off.exists():
        raise ViolationError(f"row {fault.row} did not hold off a member that floods")
    gone = founder.roster.without_member(founder.identity, guest.name)
    _sign(cluster, gone)
    yield from _until(lambda: victim.roster.version >= gone.version)


def relay(cluster: Cluster, fault: Fault) -> Pauses:
    """One relay dies, or both; they come back."""
    assert cluster.relays is not None
    gone = cluster.relays.addresses[: 2 if fault.word == "both" else 1]
    for address in gone:
        cluster.relays.kill(address)
    yield fault.seconds
    for address in gone:
        cluster.relays.start(address)


def copy(cluster: Cluster, fault: Fault) -> Pauses:
    """A copy of the whole folder is started while the true peer runs; it must end for good."""
    row = fault.row
    folder = cluster.folder / f"copy-{fault.number}"
    _copy(cluster.peers.homes[row].folder, folder)
    begun = cluster.folder / f"history-{row}-copy-{fault.number}.jsonl"
    cluster.link_history(
        folder / cluster.peers.folder(row).relative_to(cluster.peers.homes[row].folder), begun
    )
    yield fault.seconds  # the true one gets on
    # Not where the true one listens; one that only dials listens nowhere.
    places = [place.rpartition(":")[0] for place in cluster.peers.homes[row].addresses]
    listen = [word for host in places for word in ("--listen", f"{host}:{7500 + fault.number}")]
    process = cluster.beside(row, folder, *listen)
    yield from _excluded(f"a copy of row {row}", process)


def backup(cluster: Cluster, fault: Fault) -> Pauses:
    """A peer is put back to an old state, must end for good, and is put forth again."""
    row, now = fault.row, cluster.peers.folder(fault.row)
    old, true = (cluster.folder / f"{what}-{fault.number}" for what in ("old", "true"))
    cluster.kill(row)
    _copy(now, old)
    began = cluster.round(row)
    cluster.start(row)
    yield from _until(lambda: cluster.round(row) > began + 10)
    yield fault.seconds
    cluster.kill(row)
    _move(now, true)
    _move(old, now)
    begun = cluster.folder / f"history-{row}-backup-{fault.number}.jsonl"
    cluster.link_history(now, begun)
    cluster.start(row)
    cluster.down.add(row)  # it must give up
    yield from _excluded(f"row {row}, put back to an old state,", cluster.peers.process(row))
    shutil.rmtree(now)
    _move(true, now)
    cluster.start(row)


def _until(condition: Callable[[], object]) -> Pauses:
    """Let time pass until something has happened, but not for ever."""
    end = time.monotonic() + _PATIENCE
    while not condition() and time.monotonic() < end:
        yield 0.1


def _excluded(who: str, process: subprocess.Popen[bytes]) -> Pauses:
    """Wait for the end of a process that must know that it may never go on."""
    yield from _until(lambda: process.poll() is not None)
    if (code := process.poll()) != _NEVER_AGAIN:
        process.kill()
        process.wait()
        found = "still runs" if code is None else f"ended with exit code {code}"
        raise ViolationError(f"{who} {found}")


def _guest(cluster: Cluster, fault: Fault, neighbour: str = "") -> Home:
    """The home of a new member, without links or with one to a neighbour."""
    name, founder = f"guest-{fault.number}", cluster.peers.homes[0]
    home = Home.create(cluster.folder / name, name, (), found=False)
    entry = Member(home.name, home.identity.certificate.decode(), home.addresses)
    links = founder.roster.links
    if neighbour:
        links = (*links, Link(entry.id, neighbour, 0.25, 0.25))
    members = (*founder.roster.members, entry)
    _sign(cluster, founder.roster.amended(founder.identity, members=members, links=links))
    return home


def _sign(cluster: Cluster, roster: Roster) -> None:
    """Let the founder have it, and with it all."""
    cluster.rosters[roster.version] = roster
    if not until(lambda: _trusted(cluster, roster), 10.0):
        raise ViolationError(f"the founder's folder does not take roster {roster.version}")


def _trusted(cluster: Cluster, roster: Roster) -> bool:
    with contextlib.suppress(OSError):  # the peer replaces the same file
        return cluster.peers.homes[0].trust(roster).roster.version == roster.version
    return False


def _copy(source: Path, target: Path) -> None:
    """Copy a folder that a process may be writing to: a draft may vanish meanwhile."""

    def leave_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name.endswith(".draft")]

    shutil.copytree(source, target, symlinks=True, ignore=leave_out)


def _move(source: Path, target: Path) -> None:
    """Move a folder, also to another file system."""
    shutil.move(source, target)


FAULTS: dict[str, Callable[[Cluster, Fault], Pauses]] = {
    "kill": kill, "crash": crash, "stop_all": stop_all, "freeze": freeze,
    "partition": line, "one_way": line, "bad_line": line,
    "full_disk": full_disk, "slow_disk": slow_disk, "clock": clock,
    "member": member, "unlink": unlink, "expel": expel,
    "flood": flood, "copy": copy, "backup": backup, "relay": relay,
}  # fmt: skip

"""Examine a peer's folder and its surroundings; nothing is changed."""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..core import Checkpoint, CheckpointError, DamagedError
from ..errors import PeerloomError
from ..transport import Home, Roster
from ..transport.backup import DRAFT
from ..transport.files import is_locked
from ..transport.lives import Lives
from ..transport.reserve import RESERVE
from ..transport.roster import parse_address
from .decisions import read_decisions
from .folder import PeerFolder
from .site_code import SiteCode
from .status import read_status

__all__ = ["Finding", "examine"]

_REACH = 2.0  # seconds to reach another machine
_DRAFT = re.compile(r"\..+\.[0-9]+\.draft")
_PRIVATE = ("identity.key", "invitations.json", "next/identity.key")
_BACK = 120.0  # seconds by which a clock may go back before that is told


class Finding(NamedTuple):
    """One thing that was looked at: as it should be, worth a look, or to be mended."""

    what: str
    level: Literal["ok", "note", "bad"]
    text: str


def examine(folder: Path, network: bool = True) -> list[Finding]:
    """Look at every file, modes, hashes, checkpoints, roster, clock and disk, then the network."""
    found = list(_modes(folder))
    home = _read(found, "key and name", lambda: Home.open(folder))
    if home is None:
        return found
    found += _roster(home)
    found += _site(home)
    for run in sorted(path for path in home.state.glob("*") if path.is_dir()):
        found += _readable(f"run {run.name}", partial(_run, home, run))
    found += _readable("audit log", partial(_audit, home))
    found += _readable("left over", partial(_left_over, home))
    found.append(_disk(home))
    readable = not any(each.what == "roster" and each.level == "bad" for each in found)
    return [*found, *_network(home)] if network and readable else found


def _read(found: list[Finding], what: str, read: Callable[[], Any]) -> Any:
    """What a reader returns; None if it refuses. Either is a finding."""
    try:
        value = read()
    except (PeerloomError, OSError) as error:
        found.append(Finding(what, "bad", str(error)))
        return None
    found.append(Finding(what, "ok", "whole"))
    return value


def _readable(what: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    """What a look at files finds; one finding where they cannot be read at all."""
    try:
        return look()
    except OSError as error:
        return [Finding(what, "bad", f"{error.filename} cannot be read: {error.strerror}")]


def _modes(folder: Path) -> Iterator[Finding]:
    loose = [
        path
        for path in (folder, *(folder / name for name in _PRIVATE))
        if path.exists() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ]
    for path in loose:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = f"{path} may be read by others (mode {mode:04o}): peerloom peer repair"
        yield Finding("modes", "bad", text)
    if not loose:
        yield Finding("modes", "ok", "nobody else may read the folder")


def _roster(home: Home) -> list[Finding]:
    if not home.founder:
        return [Finding("roster", "note", "none yet: this peer has joined no federation")]
    found = list[Finding]()
    roster: Roster | None = _read(found, "roster", lambda: home.roster)
    if roster is None:
        return found
    here = "" if roster.has(home.identity.id) else "; this peer is NO member"
    found = [Finding("roster", "ok", f"version {roster.version}, signature right{here}")]
    if text := roster.warning(time.time()):
        found.append(Finding("roster", "bad" if roster.expired(time.time()) else "note", text))
    _read(found, "roster on disk", home.check_current)
    if (home.folder / "next").is_dir():
        text = "waits in the folder next until a roster names it and no run needs the old one"
        runs = ", ".join(run.name for run in home.unfinished_runs())
        found.append(Finding("new key", "note", text + (f"; not done: {runs}" if runs else "")))
    if home.unasked:
        text = "restored from a backup: the next start asks all neighbours for the newest"
        found.append(Finding("roster", "note", text))
    return found


def _site(home: Home) -> list[Finding]:
    found, site = list[Finding](), SiteCode(home.folder)
    allowed = _read(found, "site.toml", lambda: site.allowed)
    for name in allowed or ():
        _read(found, f"code {name}", partial(site.check, name))
    if home.founder and home.founder == home.identity.id:
        _read(found, "invitations.json", lambda: home.invitations.open())
    file = home.folder / "experiment.toml"
    if file.exists() and home.founder:
        _read(found, "experiment.toml", lambda: home.roster.check_file(file.read_bytes(), file))
    return found


def _run(home: Home, run: Path) -> list[Finding]:
    found, name = list[Finding](), f"run {run.name}"
    if is_locked(run):
        found.append(Finding(name, "ok", "a process works on it now"))
    file = run / "experiment.toml"
    if file.exists():
        right = hashlib.sha256(file.read_bytes()).hexdigest().startswith(run.name)
        text = "has the hash that names the run" if right else "was changed; a start writes it anew"
        found.append(Finding(f"{name} experiment", "ok" if right else "bad", text))
    kept, founder = PeerFolder(run, ""), home.founder
    for part in ("roster.json", "began.json"):
        if (path := run / part).exists():
            _read(found, f"{name} {part}", partial(_known, home, path, founder))
    for part, read in (
        ("metrics.jsonl", kept.measurements),
        ("decisions.jsonl", lambda: read_decisions(run / "decisions.jsonl")),
        ("lives.json", lambda: Lives(run / "lives.json")),
        ("status.json", lambda: read_status(run)),
    ):
        if (run / part).exists():
            _read(found, f"{name} {part}", read)
    for path in half_written(run):
        text = f"{path.name}: the last line was cut short, as a kill does: peerloom peer repair"
        found.append(Finding(name, "note", text))
    return found + _checkpoints(name, run)


def _known(home: Home, path: Path, founder: str) -> None:
    """Refuse a roster of a run that is not signed, or of another history than the folder's."""
    roster = Roster.from_bytes(path.read_bytes(), founder)
    if roster.version <= home.roster.version:
        home.roster.succeeds(roster)


def _checkpoints(name: str, run: Path) -> list[Finding]:
    states = {path.name: checkpoint_round(path) for path in checkpoint_paths(run)}
    whole = [t for t in states.values() if t is not None and t >= 0]
    found = list[Finding]()
    for file, t in states.items():
        if t == -1:
            found.append(Finding(f"{name} {file}", "bad", "of another version of Peerloom"))
        elif t is not None:
            found.append(Finding(f"{name} {file}", "ok", f"after round {t}"))
        elif whole:
            text = "spoilt; the other one is whole, and is used: peerloom peer repair"
            found.append(Finding(f"{name} {file}", "note", text))
        else:
            text = "spoilt, and no other is whole: this run cannot go on here"
            found.append(Finding(f"{name} {file}", "bad", text))
    return found


def checkpoint_paths(run: Path) -> list[Path]:
    """The checkpoints of a run that exist."""
    return sorted(run.glob("checkpoint-[01].safetensors"))


def checkpoint_round(path: Path) -> int | None:
    """The round of a checkpoint; None if it was cut or changed, -1 if it is of another version."""
    try:
        return Checkpoint.read(path).t
    except DamagedError:
        return None
    except CheckpointError:
        return -1


def half_written(run: Path) -> list[Path]:
    """Files of lines whose last line has no end."""
    lines = (run / name for name in ("metrics.jsonl", "decisions.jsonl", "history.jsonl"))
    return [path for path in lines if path.exists() and not _ends(path)]


def _ends(path: Path) -> bool:
    data = path.read_bytes()
    return not data or data.endswith(b"\n")


def _left_over(home: Home) -> list[Finding]:
    text = "was left by a kill: peerloom peer repair"
    return [Finding("left over", "note", f"{path} {text}") for path in leftovers(home.folder)]


def leftovers(folder: Path) -> list[Path]:
    """Files that a kill left behind and that nobody reads: unfinished drafts, parts and restores.

    Parts are those of rows that came; files of the site may have such names elsewhere.
    """
    drafts = (path for path in folder.rglob(".*.draft") if _DRAFT.fullmatch(path.name))
    found = {*drafts, *folder.rglob("inbox/*.part"), *folder.glob(f"{DRAFT}/**/*")}
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def _audit(home: Home) -> list[Finding]:
    log = home.audit
    found = [Finding("audit log", "bad", text) for text in log.findings()]
    if log.cut_short():
        text = "the last line was cut short, as a kill does: peerloom peer repair"
        found.append(Finding("audit log", "note", text))
    lines = log.lines()
    found = found or [Finding("audit log", "ok", f"{len(lines)} lines, whole")]
    return [*found, *_clock(lines)]


def _clock(lines: list[dict[str, Any]]) -> Iterator[Finding]:
    """Compare the clock with what it said before."""
    try:
        last = max((datetime.fromisoformat(line["at"]).timestamp() for line in lines), default=0.0)
    except ValueError:
        return
    if time.time() < last - _BACK:
        ago = last - time.time()
        yield Finding("clock", "bad", f"it stands {ago:.0f} s before the last line of the log")
    else:
        yield Finding("clock", "ok", "not before anything that was noted here")


def _disk(home: Home) -> Finding:
    """Compare what is free with two more checkpoints and the room for a roster."""
    sizes = [path.stat().st_size for path in home.state.glob("*/checkpoint-*.safetensors")]
    free, wanted = shutil.disk_usage(home.folder).free, 2 * max(sizes, default=0) + RESERVE
    text = f"{free / 1e6:.0f} MB free, {wanted / 1e6:.0f} MB wanted for the next checkpoints"
    return Finding("disk", "ok" if free > wanted else "bad", text)


def _network(home: Home) -> Iterator[Finding]:
    running = any(is_locked(run) for run in home.state.glob("*"))
    for address in home.addresses:
        port = parse_address(address)[1]
        yield _port(port, running)
    if not home.founder:
        return
    roster, me = home.roster, home.identity.id
    neighbours = {*roster.targets(me), *roster.sources(me)} if roster.has(me) else set[str]()
    for peer in sorted(neighbours, key=roster.name):
        member = roster.member(peer)
        if member.addresses:
            yield _reached(f"neighbour {member.name}", member.addresses)
    for relay in roster.relays:
        yield _reached(f"relay {relay.name}", relay.addresses)


def _port(port: int, running: bool) -> Finding:
    try:
        socket.create_server(("", port)).close()
    except OSError as error:
        level: Literal["ok", "note"] = "ok" if running else "note"
        who = "this peer runs" if running else str(error.strerror)
        return Finding(f"port {port}", level, f"in use: {who}")
    return Finding(f"port {port}", "ok", "free, the peer does not run")


def _reached(what: str, addresses: Iterable[str]) -> Finding:
    for address in addresses:
        try:
            socket.create_connection(parse_address(address), _REACH).close()
        except (OSError, UnicodeError):
            continue
        return Finding(what, "ok", f"{address} answers")
    return Finding(what, "note", f"nobody answers at {', '.join(addresses)}")

"""A relay as a program: its folder, its status, and how it ends.

identity.key, identity.crt    the relay's key (mode 0600) and its certificate, for the founder
roster.json                   the newest roster that members brought
former.json                   the latest members that were removed, and the rosters that did it
status.json                   who is here and what passes, every few seconds
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...errors import PeerError
from ..files import StateFolder, write_whole
from ..identity import Identity
from ..members import parse_address
from ..roster import Roster
from ..rosterbook import RosterBook
from .former import Former
from .limits import Limits
from .server import RelayServer

__all__ = ["RelayService"]

_STATUS = 5.0  # seconds between two writes of the status file
_LINE = 300.0  # seconds between two lines of the log that say how it stands


class RelayService:
    """The relay of one folder, run until a signal ends it."""

    def __init__(
        self,
        folder: Path,
        listen: tuple[str, ...],
        founder: str,
        limits: Limits,
        say: Callable[[str], None],
    ) -> None:
        self._folder, self._say = folder, say
        self._lock = StateFolder(folder)
        try:
            self.identity = (
                Identity.load(folder)
                if (folder / "identity.key").exists()
                else Identity.create(folder)
            )
            self._book = RosterBook(folder / "roster.json", founder)
            former = Former.read(folder / "former.json", founder)
            self.server = RelayServer(
                self.identity, founder, self._book.current, limits, self._keep, self.tell, former
            )
            self._listeners = [_listening(address) for address in listen]
        except BaseException:
            self._lock.close()
            raise
        self.ports = [each.getsockname()[1] for each in self._listeners]
        self._began = time.monotonic()
        self._unsaved = False

    def tell(self, kind: str, about: str, text: str) -> None:
        """Write one line of the log."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._say(f"{at} relay {kind}: {text}")

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        try:
            asyncio.run(self._serve())
        finally:
            self._lock.close()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.server.stop)
        watch = asyncio.create_task(self._watch())
        where = ", ".join(_address(each) for each in self._listeners)
        self.tell("start", "", f"listening on {where}, process {os.getpid()}")
        if self.server.roster is None:
            self.tell("roster", "", "no roster yet: the first member that comes brings it")
        try:
            await self.server.serve(self._listeners)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            self._write("stopped")
            self.tell("end", "", self._line())

    async def _watch(self) -> None:
        line = time.monotonic() + _LINE
        while True:
            self._write("running")
            if time.monotonic() >= line:
                line += _LINE
                self.tell("status", "", self._line())
            await asyncio.sleep(_STATUS)

    def status(self) -> dict[str, Any]:
        """Who is here, and what has passed."""
        server, roster = self.server, self.server.roster
        name = (lambda who: who) if roster is None else roster.name
        return {
            "seconds": time.monotonic() - self._began,
            "roster_version": 0 if roster is None else roster.version,
            "roster_unsaved": self._unsaved,
            "present": sorted(map(name, server.present)),
            "streams": len(server.streams.joined),
            "streams_total": server.streams.total,
            "bytes_total": server.streams.bytes,
            "refusals": dict(server.refusals),
            "ports": self.ports,
        }

    def _line(self) -> str:
        server, streams = self.server, self.server.streams
        return (
            f"{len(server.present)} members here, {len(streams.joined)} streams, "
            f"{streams.bytes / 1e6:.0f} MB in {streams.total} streams since the start, "
            f"{sum(server.refusals.values())} refused"
        )

    def _write(self, status: str) -> None:
        """Write the status, and a roster that is not on disk yet. A full disk stops nothing."""
        if self._unsaved and self.server.roster is not None:
            self._keep(self.server.roster)
        document = self.status() | {"status": status, "updated": time.time(), "pid": os.getpid()}
        with contextlib.suppress(OSError):  # of the roster, which matters, `_keep` tells
            write_whole(self._folder / "status.json", json.dumps(document).encode(), durable=False)

    def _keep(self, roster: Roster) -> None:
        try:
            # First: a crash between the two forgets nobody, as the roster is brought again.
            write_whole(self._folder / "former.json", self.server.former.to_bytes())
            self._book.offer(roster)
            self._unsaved = False
        except OSError as error:
            if not self._unsaved:
                self._unsaved = True
                text = f"roster version {roster.version} is in use, but cannot be written"
                self.tell("alarm", "", f"{text} ({error.strerror or error}): make room on the disk")


def _listening(address: str) -> socket.socket:
    host, port = parse_address(address)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise PeerError(
            f"Cannot listen on {address} ({error.strerror or error}). Choose another port, or let "
            "this user bind it: ports below 1024 need a privilege (AmbientCapabilities of systemd)."
        ) from None


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

"""A relay as sites run it: one `peerloom relay` process, to measure, to kill and to start again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import PeerError
from ..transport import Identity, Relay
from .federation import free_ports

__all__ = ["RelayProcess"]

_PATIENCE = 30.0  # seconds until it listens


class RelayProcess:
    """A relay of one founder's federation. Use it in a `with`: no process stays behind.

    `launch` starts a command where the relay is to live.
    """

    def __init__(
        self,
        folder: Path,
        founder: str,
        name: str = "relay",
        address: str = "",
        launch: Callable[[list[str]], subprocess.Popen[bytes]] | None = None,
    ) -> None:
        self._folder, self._founder, self._launch = folder, founder, launch or self._logged
        where = address or f"127.0.0.1:{free_ports(1)[0]}"
        self.entry = Relay(name, Identity.create(folder).certificate.decode(), (where,))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RelayProcess:
        self.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def launch(self) -> None:
        """Start it, or start it again; returns at once."""
        (self._folder / "status.json").unlink(missing_ok=True)
        words = ["relay", "--listen", *self.entry.addresses, "--folder", str(self._folder)]
        self._process = self._launch(
            [sys.executable, "-m", "peerloom", *words, "--founder", self._founder]
        )

    def start(self) -> float:
        """Start it, or start it again, and wait until it listens; when that was."""
        self.launch()
        end = time.monotonic() + _PATIENCE
        while not (self._folder / "status.json").exists():
            if time.monotonic() > end or self._running.poll() is not None:
                raise PeerError(f"The relay did not start: {self.log()[-500:]}")
            time.sleep(0.005)
        return time.time()

    def kill(self) -> float:
        """kill -9; when that was."""
        at = time.time()
        self._running.kill()
        self._running.wait()
        return at

    def stop(self, seconds: float = 10.0) -> int:
        """SIGTERM; its exit code."""
        self._running.terminate()
        return self._running.wait(seconds)

    def status(self) -> dict[str, Any]:
        """What it last said of itself."""
        found: dict[str, Any] = json.loads((self._folder / "status.json").read_bytes())
        return found

    def log(self) -> str:
        """All its lines."""
        file = self._folder / "log.txt"
        return file.read_text() if file.exists() else ""

    def cpu_seconds(self) -> float:
        """The processor time it has used."""
        fields = self._about("stat").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """The memory it holds."""
        return int(self._about("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _logged(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self._folder / "log.txt").open("ab") as log:
            return subprocess.Popen(  # noqa: S603  (our own interpreter, our own words)
                command, stdout=log, stderr=log
            )

    def _about(self, file: str) -> str:
        return Path(f"/proc/{self._running.pid}/{file}").read_text()

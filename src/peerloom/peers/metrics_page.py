"""A page with the metrics, for Prometheus on this machine."""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from ..errors import ConfigError, PeerError
from ..transport.roster import parse_address
from .metrics import exposition

__all__ = ["MetricsPage"]

_log = logging.getLogger("peerloom.peers")
_VISITORS = 8  # at a time
_VISIT = 5.0  # seconds


class _Server(ThreadingHTTPServer):
    """Serves up to 8 visitors at a time, 5 s each; one more takes the place of the oldest."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], page: type[BaseHTTPRequestHandler]) -> None:
        self._visits: dict[socket.socket, float] = {}  # when each began, the oldest first
        self._guard = threading.Lock()
        super().__init__(address, page)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            if len(self._visits) >= _VISITORS:
                self._end(next(iter(self._visits)))
            self._visits[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        # A visitor who sends byte by byte never runs into the socket's timeout.
        oldest = time.monotonic() - _VISIT
        with self._guard:
            for request, began in list(self._visits.items()):
                if began < oldest:
                    self._end(request)

    def server_close(self) -> None:
        super().server_close()
        with self._guard:
            for request in list(self._visits):
                self._end(request)

    def _end(self, request: socket.socket) -> None:
        del self._visits[request]
        with suppress(OSError):  # gone already
            request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._visits.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # a visitor may go whenever it likes
            _log.exception("the metrics page was not served")


class MetricsPage:
    """Serves the metrics at http://HOST:PORT/metrics within a `with`, on this machine only."""

    def __init__(self, address: str, read: Callable[[], dict[str, Any]]) -> None:
        host, port = parse_address(address)
        if not _is_loopback(host):
            raise ConfigError(
                f"--metrics {address}: metrics are plain text, so they are served on this machine "
                "only, for example at 127.0.0.1:9464. To read them from elsewhere, put a proxy "
                "with TLS before it."
            )

        class Page(BaseHTTPRequestHandler):
            timeout = _VISIT  # a client that says nothing does not keep a thread

            def do_GET(self) -> None:
                """The one page there is."""
                if not _is_meant(self.headers.get("Host")):
                    self.send_error(421)
                    return
                if self.path != "/metrics":
                    self.send_error(404)
                    return
                body = exposition(read()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Visits are not told."""

        try:
            self._server = _Server((host, port), Page)
        except OSError as error:
            raise PeerError(
                f"--metrics {address}: cannot listen there ({error.strerror}). Choose another port."
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _is_meant(host: str | None) -> bool:
    """Whether a request asks this machine, by the name that it gives.

    Any name may lead to 127.0.0.1: so a page of the web could let a browser here read the metrics.
    What names no host at all is no browser.
    """
    if host is None:
        return True
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return _is_loopback(name.lower())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

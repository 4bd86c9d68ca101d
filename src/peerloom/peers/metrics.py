"""Metrics for Prometheus: the text format, and a page on this machine that serves it.

The format is a few lines of text, so a library for it would be more to keep than this file.
"""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from .. import __version__
from ..errors import ConfigError, PeerError
from ..transport.reasons import known_reason
from ..transport.roster import parse_address

__all__ = ["METRICS", "MetricsPage", "exposition"]

Labels = dict[str, str]
Sample = tuple[str, Labels, float | None]

_RESULTS = (
    "sent",
    "acked",
    "applied",
    "duplicate",
    "stale",
    "refused",
    "goodbye",
    "removed",
    "replaced",
    "stopped",
)

METRICS: dict[str, tuple[str, str]] = {
    "build_info": ("gauge", "always 1; the label says which version runs"),
    "iteration": ("gauge", "the last round that was finished"),
    "iterations": ("gauge", "rounds of the whole run"),
    "incarnation": ("gauge", "how often this peer was started on this run"),
    "roster_version": ("gauge", "version of the roster in use"),
    "loss": ("gauge", "of the last evaluation, on this peer's own test samples"),
    "accuracy": ("gauge", "of the last evaluation, on this peer's own test samples"),
    "consensus": (
        "gauge",
        "estimate, by gossip, of the mean squared distance of all peers' models from their mean",
    ),
    "distance": ("gauge", "estimate of the squared distance of this peer's model from that mean"),
    "compute_seconds_total": ("counter", "seconds spent in rounds, mixing left out"),
    "wait_seconds_total": ("counter", "seconds spent in mixing, mostly waiting for neighbours"),
    "waiting_seconds": (
        "gauge",
        "for how long the peer has been waiting right now; 0 if it is not",
    ),
    "checkpoint_seconds": ("gauge", "how long the last checkpoint took to write"),
    "checkpoint_age_seconds": ("gauge", "age of the last checkpoint"),
    "link_up": ("gauge", "1 if the link works"),
    "link_state_seconds": ("gauge", "for how long the link has been up or down"),
    "rtt_seconds": ("gauge", "round trip of the link, smoothed"),
    "frames_total": ("counter", "frames by what became of them"),
    "bytes_total": ("counter", "bytes of vectors by what became of them"),
    "unacked_age_seconds": ("gauge", "age of the oldest parcel that is not acknowledged yet"),
    "reconnects_total": ("counter", "connections lost, or not opened, by reason"),
    "staleness_iterations": ("gauge", "rounds since the newest that came from this neighbour"),
    "refusals_total": ("counter", "connections and frames refused, by reason"),
    "ledger_imbalance": ("gauge", "parcels that no account explains; must be 0"),
}


def exposition(facts: dict[str, Any]) -> str:
    """How a peer stands (see `telemetry.snapshot`), in the text format of Prometheus."""
    found: dict[str, list[str]] = {name: [] for name in METRICS}
    for name, labels, value in _samples(facts):
        if value is not None:
            inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            found[name].append(
                f"peerloom_{name}{{{inside}}} {value:.10g}"
                if inside
                else f"peerloom_{name} {value:.10g}"
            )
    blocks = []
    for name, lines in found.items():
        if lines:
            kind, meaning = METRICS[name]
            blocks += [
                f"# HELP peerloom_{name} {meaning}",
                f"# TYPE peerloom_{name} {kind}",
                *lines,
            ]
    return "\n".join(blocks) + "\n"


def _samples(facts: dict[str, Any]) -> Iterator[Sample]:
    seconds, checkpoint, last = facts["seconds"], facts["checkpoint"], facts["last"]
    alone = {
        "iteration": facts["round"],
        "iterations": facts["rounds"],
        "incarnation": facts["incarnation"],
        "roster_version": facts["roster"]["version"],
        "loss": last.get("loss"),
        "accuracy": last.get("accuracy"),
        "consensus": facts["agreement"]["consensus"],
        "distance": facts["agreement"]["distance"],
        "compute_seconds_total": seconds["compute"],
        "wait_seconds_total": seconds["wait"],
        "waiting_seconds": seconds["waiting"],
        "checkpoint_seconds": checkpoint["seconds"],
        "checkpoint_age_seconds": checkpoint["age"],
        "ledger_imbalance": sum(abs(link["imbalance"]) for link in facts["links"]),
    }
    yield "build_info", {"version": __version__}, 1
    for name, value in alone.items():
        yield name, {}, value
    for why, count in _own_words(facts["refusals"]).items():
        yield "refusals_total", {"why": why}, count
    for link in facts["links"]:
        of = {"peer": link["peer"], "dir": link["direction"]}
        yield "link_up", of, link["up"]
        yield "link_state_seconds", of, link["since"]
        yield "rtt_seconds", of, link["rtt"]
        yield "staleness_iterations", of, link["lag"]
        if link["direction"] == "out":
            yield "unacked_age_seconds", of, link["unacked_age"]
        for name, key in (
            ("frames_total", "result"),
            ("bytes_total", "result"),
            ("reconnects_total", "why"),
        ):
            for word, count in _own_words(link[name.removesuffix("_total")]).items():
                yield name, {**of, key: word}, count


def _own_words(counts: dict[str, int]) -> dict[str, int]:
    """Count unknown reasons as "other": neighbours choose the words with which they refuse."""
    found: dict[str, int] = {}
    for word, count in counts.items():
        stem = word.removeprefix("refused_")
        ours = known_reason(stem) or stem in _RESULTS
        key = word if ours else word.removesuffix(stem) + "other"
        found[key] = found.get(key, 0) + count
    return found


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


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
            timeout = 10  # a client that says nothing does not keep a thread

            def do_GET(self) -> None:
                """The one page there is."""
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
            self._server = ThreadingHTTPServer((host, port), Page)
        except OSError as error:
            raise PeerError(
                f"--metrics {address}: cannot listen there ({error.strerror}). Choose another port."
            ) from None
        self._server.daemon_threads = True
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


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

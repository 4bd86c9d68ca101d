"""Metrics for Prometheus: the text format, and a file of it.

The format is a few lines of text, so a library for it would be more to keep than this file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .. import __version__
from ..errors import ConfigError
from ..transport.files import write_whole
from ..transport.reasons import known_reason
from .background import Background
from .status import own_figures

__all__ = ["METRICS", "MetricsFile", "exposition"]

_log = logging.getLogger("peerloom.peers")
_EVERY = 15.0  # seconds between two writes of the file

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
    "roster_unsaved": ("gauge", "1 while the newest roster is in use, but could not be written"),
    "loss": ("gauge", "of the last evaluation, on this peer's own test samples"),
    "accuracy": ("gauge", "of the last evaluation, on this peer's own test samples"),
    "metric": ("gauge", "what the problem measures besides, at the last evaluation, by its name"),
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
    "disk_bytes": ("gauge", "bytes in the run's folder, by what for"),
    "disk_budget_bytes": ("gauge", "bytes that the run may take, if that is limited"),
    "link_up": ("gauge", "1 if the link works"),
    "link_way": ("gauge", "1; the label says how a link goes that is up: direct, or relay:NAME"),
    "link_state_seconds": ("gauge", "for how long the link has been up or down"),
    "rtt_seconds": ("gauge", "round trip of the link, smoothed"),
    "frames_total": ("counter", "frames by what became of them"),
    "bytes_total": ("counter", "bytes of vectors by what became of them"),
    "unacked_age_seconds": ("gauge", "age of the oldest parcel that is not acknowledged yet"),
    "reconnects_total": ("counter", "connections lost, or not opened, by reason"),
    "staleness_iterations": ("gauge", "rounds since the newest that came from this neighbour"),
    "refusals_total": ("counter", "connections and frames refused, by reason"),
    "member_round": ("gauge", "the last round of a member, as its newest card says"),
    "member_age_seconds": ("gauge", "age of a member's newest card: one that ages is cut off"),
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
        "roster_unsaved": facts["roster"]["unsaved"],
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
    for name, value in own_figures(last).items():
        yield "metric", {"name": name}, value
    for what, count in facts["disk"].get("used", {}).items():
        yield "disk_bytes", {"what": what}, count
    yield "disk_budget_bytes", {}, facts["disk"].get("budget")
    for why, count in _own_words(facts["refusals"]).items():
        yield "refusals_total", {"why": why}, count
    for member in facts["members"]:
        if member["age"] is not None:
            yield "member_round", {"member": member["member"]}, member["round"]
            yield "member_age_seconds", {"member": member["member"]}, member["age"]
    for link in facts["links"]:
        of = {"peer": link["peer"], "dir": link["direction"]}
        yield "link_up", of, link["up"]
        if link["way"]:
            yield "link_way", {**of, "way": link["way"]}, 1
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


class MetricsFile(Background):
    """Writes the text of the page to a file every 15 s, replaced as a whole.

    For collectors that read files; like the page, any user of this machine may read it.
    """

    def __init__(self, path: Path, read: Callable[[], dict[str, Any]]) -> None:
        self._path, self._read, self._trouble = path, read, False
        if not path.parent.is_dir():
            raise ConfigError(f"--metrics-file {path}: there is no folder {path.parent}.")
        super().__init__("metrics file", _EVERY)

    def __enter__(self) -> Self:
        self.work()
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self.work()

    def work(self) -> float:
        """Write once. A disk that is full does not stop the peer here."""
        try:
            text = exposition(self._read()).encode()
            write_whole(self._path, text, mode=0o644, durable=False)
            self._trouble = False
        except OSError as error:
            if not self._trouble:
                _log.warning("%s cannot be written: %s", self._path, error.strerror)
            self._trouble = True
        return _EVERY

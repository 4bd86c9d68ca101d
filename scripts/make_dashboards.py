"""Write the Grafana board and the alarm rules for Prometheus from the metrics that peers have.

    python scripts/make_dashboards.py

Ends with an error where a metric is named that no peer has, or where one is neither on a panel,
nor in an alarm, nor left out for a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from peerloom.peers.metrics import METRICS
from peerloom.transport.reasons import ALARMS as SERIOUS

FOLDER = Path(__file__).parents[1] / "deploy" / "watching"
_BAD = "|".join(SERIOUS)


class Panel(NamedTuple):
    """A chart or a table; the legend names the labels that tell its lines apart."""

    title: str
    queries: tuple[str, ...]
    unit: str = "short"
    legend: str = "{{instance}}"
    kind: str = "timeseries"
    width: int = 8


LINK = "{{instance}} {{dir}} {{peer}}"
WAITING = "rate(peerloom_wait_seconds_total[5m])"
PANELS = (
    Panel("Rounds done, of all", ("peerloom_iteration", "peerloom_iterations")),
    Panel("Rounds a second", ("deriv(peerloom_iteration[5m])",), "none"),
    Panel("Links that are down", ("count by (instance) (peerloom_link_up == 0)",), kind="stat"),
    Panel("Loss on the site's own samples", ("peerloom_loss",), "none"),
    Panel("Accuracy on the site's own samples", ("peerloom_accuracy",), "percentunit"),
    Panel(
        "What the problem measures besides",
        ("peerloom_metric",),
        "none",
        legend="{{instance}} {{name}}",
    ),
    Panel("How far models are apart", ("peerloom_consensus", "peerloom_distance"), "none"),
    Panel(
        "Share of time spent waiting",
        (f"{WAITING} / ({WAITING} + rate(peerloom_compute_seconds_total[5m]))",),
        "percentunit",
    ),
    Panel("Waiting right now", ("peerloom_waiting_seconds",), "s"),
    Panel("Rounds behind", ("peerloom_staleness_iterations",), legend=LINK),
    Panel("Round trip", ("peerloom_rtt_seconds",), "s", LINK),
    Panel(
        "Bytes a second",
        ("sum by (instance, peer, dir) (rate(peerloom_bytes_total[5m]))",),
        "Bps",
        LINK,
    ),
    Panel("Oldest parcel without an answer", ("peerloom_unacked_age_seconds",), "s", LINK),
    Panel(
        "Reconnects in 15 minutes",
        ("sum by (instance, peer, why) (increase(peerloom_reconnects_total[15m]))",),
        legend="{{instance}} {{peer}} {{why}}",
    ),
    Panel(
        "Refusals in 15 minutes",
        ("sum by (instance, why) (increase(peerloom_refusals_total[15m]))",),
        legend="{{instance}} {{why}}",
    ),
    Panel(
        "Checkpoint: age, and time to write",
        ("peerloom_checkpoint_age_seconds", "peerloom_checkpoint_seconds"),
        "s",
    ),
    Panel(
        "Disk, by what for",
        ("peerloom_disk_bytes",),
        "bytes",
        "{{instance}} {{what}}",
    ),
    Panel(
        "Frames a second, by what became of them",
        ("sum by (instance, result) (rate(peerloom_frames_total[5m]))",),
        "none",
        "{{instance}} {{result}}",
    ),
    Panel(
        "For how long links have been up or down",
        ("peerloom_link_state_seconds",),
        "s",
        LINK,
    ),
    Panel("Links by the way they go", ("count by (way) (peerloom_link_way)",), legend="{{way}}"),
    Panel(
        "Members as this site hears of them: round",
        ("peerloom_member_round",),
        legend="{{instance}} {{member}}",
    ),
    Panel(
        "Members: age of the news",
        ("peerloom_member_age_seconds",),
        "s",
        "{{instance}} {{member}}",
    ),
    Panel("Unexplained parcels: must be 0", ("peerloom_ledger_imbalance",), kind="stat"),
    Panel(
        "Version, starts, roster",
        ("peerloom_build_info", "peerloom_incarnation", "peerloom_roster_version"),
        kind="table",
        width=24,
    ),
)

LEFT_OUT: dict[str, str] = {}
"""Metrics that are on no panel and in no alarm, each with the reason."""


class Alarm(NamedTuple):
    """A rule of Prometheus; `wait` is for how long its expression must hold."""

    name: str
    expression: str
    wait: str
    severity: str
    summary: str
    help: str


ALARMS = (
    Alarm(
        "LinkDown",
        "peerloom_link_up == 0",
        "10m",
        "warning",
        "{{ $labels.instance }}: the link {{ $labels.dir }} {{ $labels.peer }} is down",
        "peerloom peer status says why; ask the other site whether its peer runs.",
    ),
    Alarm(
        "Stuck",
        "changes(peerloom_iteration[5m]) == 0 and peerloom_iteration < peerloom_iterations",
        "25m",
        "warning",
        "{{ $labels.instance }}: no round for half an hour",
        "peerloom peer status names the neighbour that it waits for.",
    ),
    Alarm(
        "Silent",
        'up{job="peerloom"} == 0',
        "15m",
        "warning",
        "{{ $labels.instance }}: no metrics; the peer ended, or its machine is down",
        "Expected once a run is done; else read the peer's log.",
    ),
    Alarm(
        "Restarts",
        "changes(peerloom_incarnation[1h]) > 5",
        "0m",
        "warning",
        "{{ $labels.instance }}: started more than five times in an hour",
        "The log says how the last one ended.",
    ),
    Alarm(
        "Unexplained",
        "peerloom_ledger_imbalance != 0",
        "0m",
        "critical",
        "{{ $labels.instance }}: parcels that no account explains",
        "A fault of Peerloom: keep the folder and the log, and report it.",
    ),
    Alarm(
        "Refused",
        f'increase(peerloom_refusals_total{{why=~"(by_peer_)?({_BAD})"}}[15m]) > 0',
        "0m",
        "critical",
        "{{ $labels.instance }}: {{ $labels.why }}",
        "A copy of a peer, or a roster that was signed twice: look before anything goes on.",
    ),
    Alarm(
        "CheckpointOld",
        "peerloom_checkpoint_age_seconds > 3600 and changes(peerloom_iteration[1h]) > 10",
        "5m",
        "warning",
        "{{ $labels.instance }}: rounds go on, and no checkpoint is written",
        "Is the disk full? A kill now would cost the rounds since the last one.",
    ),
    Alarm(
        "DiskNearBudget",
        "sum by (instance) (peerloom_disk_bytes) > on (instance) 0.9 * peerloom_disk_budget_bytes",
        "5m",
        "warning",
        "{{ $labels.instance }}: nearly all of its disk budget is used",
        "Raise the budget; at its end evaluated models are given up, then the history.",
    ),
    Alarm(
        "CutOff",
        "peerloom_member_age_seconds > 600",
        "0m",
        "warning",
        "{{ $labels.instance }}: no news of {{ $labels.member }} for ten minutes",
        "It ended, or it is cut off from all who could pass its card on.",
    ),
    Alarm(
        "RosterUnsaved",
        "peerloom_roster_unsaved == 1",
        "5m",
        "critical",
        "{{ $labels.instance }}: the newest roster is not on disk",
        "Make room on the disk; until then no checkpoint is written either.",
    ),
    Alarm(
        "RosterBehind",
        "scalar(max(peerloom_roster_version)) - peerloom_roster_version > 0",
        "15m",
        "warning",
        "{{ $labels.instance }}: an older roster than others have",
        "Is it cut off? peerloom peer roster take FILE brings the newest by hand.",
    ),
)


def metrics_in(expressions: Iterable[str]) -> set[str]:
    """The metrics of Peerloom that these expressions name, without the prefix."""
    return {name for text in expressions for name in re.findall(r"peerloom_(\w+)", text)}


def board() -> str:
    """The Grafana board, as JSON."""
    document = {
        "title": "Peerloom",
        "uid": "peerloom",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "tags": ["peerloom"],
        "templating": {"list": [_SOURCE, _SITE]},
        "panels": list(_placed()),
    }
    return json.dumps(document, indent=1) + "\n"


_DATASOURCE = {"type": "prometheus", "uid": "${source}"}
_SOURCE = {"name": "source", "type": "datasource", "query": "prometheus"}
_SITE = {
    "name": "site",
    "type": "query",
    "datasource": _DATASOURCE,
    "query": "label_values(peerloom_build_info, instance)",
    "refresh": 2,
    "multi": True,
    "includeAll": True,
    "allValue": ".*",
    "current": {"text": "All", "value": "$__all"},
}


def _placed() -> Iterable[dict[str, Any]]:
    x = y = 0
    for number, panel in enumerate(PANELS, 1):
        if x + panel.width > 24:
            x, y = 0, y + 8
        table = {"format": "table", "instant": True} if panel.kind == "table" else {}
        yield {
            "id": number,
            "title": panel.title,
            "type": panel.kind,
            "datasource": _DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": panel.width, "h": 8},
            "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
            "targets": [
                {"refId": chr(65 + k), "expr": of_site(q), "legendFormat": panel.legend, **table}
                for k, q in enumerate(panel.queries)
            ],
        }
        x += panel.width


def of_site(query: str) -> str:
    """The query for the sites that are chosen at the top of the board."""
    return re.sub(r"(peerloom_\w+)", r'\1{instance=~"$site"}', query)


def rules() -> str:
    """The alarm rules, as YAML: every value is a JSON string, which YAML reads as the same."""
    lines = [
        "# Written by scripts/make_dashboards.py; `make dashboards` writes it anew.",
        "groups:",
        "  - name: peerloom",
        "    rules:",
    ]
    for alarm in ALARMS:
        lines += [
            f"      - alert: Peerloom{alarm.name}",
            f"        expr: {json.dumps(alarm.expression)}",
            f"        for: {alarm.wait}",
            "        labels:",
            f"          severity: {alarm.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alarm.summary)}",
            f"          description: {json.dumps(alarm.help)}",
        ]
    return "\n".join(lines) + "\n"


def check(known: Iterable[str] = METRICS) -> None:
    """Refuse names that no metric has, and metrics that nobody would see."""
    queries = [query for panel in PANELS for query in panel.queries]
    used = metrics_in([*queries, *(alarm.expression for alarm in ALARMS)])
    unknown, unseen = used - set(known), set(known) - used - set(LEFT_OUT)
    if unknown or unseen:
        raise SystemExit(
            f"Unknown metrics: {sorted(unknown)}. Metrics on no panel, in no alarm and without a "
            f"reason in LEFT_OUT: {sorted(unseen)}."
        )


FILES = {"grafana.json": board, "alarms.yaml": rules}

if __name__ == "__main__":
    check()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in FILES.items():
        (FOLDER / name).write_text(make())

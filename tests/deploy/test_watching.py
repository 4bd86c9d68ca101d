"""The Grafana board and the alarms: made from the metrics of peers, and judged by promtool."""

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from peerloom.peers.metrics import METRICS, exposition
from peerloom.transport.reasons import ALARMS as SERIOUS
from peerloom.transport.reasons import known_reason
from tests.status_samples import facts

ROOT = Path(__file__).parents[2]
MADE = SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "make_dashboards.py")))
RULES = yaml.safe_load(MADE.rules())["groups"][0]["rules"]
BOARD = json.loads(MADE.board())


def expressions():
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]
    for rule in RULES:
        yield rule["expr"], rule["annotations"]["summary"]


@pytest.mark.parametrize("name", MADE.FILES)
def test_the_files_are_as_the_script_writes_them(name):
    assert (MADE.FOLDER / name).read_text() == MADE.FILES[name](), "make dashboards"


def test_every_metric_is_seen_somewhere_and_none_is_made_up():
    MADE.check()
    with pytest.raises(SystemExit, match=r"Unknown metrics: \['loss'\]"):
        MADE.check(set(METRICS) - {"loss"})
    with pytest.raises(SystemExit, match=r"LEFT_OUT: \['a_new_one'\]"):
        MADE.check({*METRICS, "a_new_one"})
    assert all(MADE.LEFT_OUT.values())
    assert set(MADE.LEFT_OUT) <= set(METRICS)


def labels_of_every_metric():
    """The labels that a page of metrics has, from a status with one link of each direction."""
    found = {}
    for name, labels in re.findall(r"^peerloom_(\w+)(?:\{(.*)\})? \S+$", exposition(facts()), re.M):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def test_expressions_and_legends_use_labels_that_their_metrics_have():
    known = labels_of_every_metric()
    assert set(known) == set(METRICS), "the sample status shows every metric"
    for expression, text in expressions():
        names = MADE.metrics_in([expression])
        has = {"instance", "job"}.union(*(known[name] for name in names))
        groups = re.findall(r"by \(([^)]*)\)", expression)
        if groups:
            has &= set(re.split(r",\s*", groups[0]))
        wanted = set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text))
        assert wanted <= has, (expression, text)
        for inside in re.findall(r"\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)=~?", inside)) <= {"instance", "job", "why"}


def test_counters_are_never_shown_bare_and_gauges_never_as_rates():
    for expression, _ in expressions():
        for function, name in re.findall(r"(?:(\w+)\()?peerloom_(\w+)", expression):
            counts = METRICS[name][0] == "counter"
            assert (function in ("rate", "increase")) == counts, expression


def test_the_alarm_on_refusals_knows_the_words_of_reasons():
    (expression,) = (rule["expr"] for rule in RULES if rule["alert"] == "PeerloomRefused")
    pattern = re.search(r'why=~"([^"]*)"', expression)[1]
    for word in SERIOUS:
        assert known_reason(word)
        assert re.fullmatch(pattern, word)
        assert re.fullmatch(pattern, f"by_peer_{word}")
    assert not re.fullmatch(pattern, "timeout")


# For every alarm: series that must raise it, and series that must not. 90 samples, one a minute.
CASES = {
    "LinkDown": (
        {'link_up{peer="b",dir="out"}': "1x20 0x70"},
        {'link_up{peer="b",dir="out"}': "0x8 1x82"},
    ),
    "Stuck": (
        {"iteration": "7x90", "iterations": "600x90"},
        {"iteration": "600x90", "iterations": "600x90"},
    ),
    "Silent": ({"up": "1x20 0x70"}, {"up": "1x90"}),
    "Restarts": ({"incarnation": "1+1x90"}, {"incarnation": "1x30 2x60"}),
    "Unexplained": ({"ledger_imbalance": "1x90"}, {"ledger_imbalance": "0x90"}),
    "Refused": (
        {'refusals_total{why="by_peer_identity_conflict"}': "0x80 1x10"},
        {'refusals_total{why="timeout"}': "0+1x90"},
    ),
    "CheckpointOld": (
        {"checkpoint_age_seconds": "3000+60x90", "iteration": "0+1x90"},
        {"checkpoint_age_seconds": "3000+60x90", "iteration": "5x90"},
    ),
    "DiskNearBudget": (
        {'disk_bytes{what="sent"}': "50x90", 'disk_bytes{what="judged"}': "45x90",
         "disk_budget_bytes": "100x90"},
        {'disk_bytes{what="sent"}': "50x90", 'disk_bytes{what="judged"}': "39x90",
         "disk_budget_bytes": "100x90"},
    ),
    "CutOff": (
        {'member_age_seconds{member="b"}': "5x20 5+60x70"},
        {'member_age_seconds{member="b"}': "5x90"},
    ),
    "RosterUnsaved": ({"roster_unsaved": "1x90"}, {"roster_unsaved": "1x3 0x87"}),
    "RosterBehind": (
        {"roster_version": "3x90", 'roster_version{instance="other"}': "4x90"},
        {"roster_version": "4x90", 'roster_version{instance="other"}': "4x90"},
    ),
}  # fmt: skip


def series(name, values):
    """One of promtool's: with the labels of a scrape, and runs such as `1x20 0x70` spelled out."""
    stem, _, labels = name.partition("{")
    inside = labels.removesuffix("}")
    if "instance=" not in inside:
        inside = ",".join(filter(None, ['instance="here"', inside]))
    stem = stem if stem == "up" else f"peerloom_{stem}"
    spelled = []
    for first, step, times in re.findall(r"(\d+)(?:\+(\d+))?x(\d+)", values):
        spelled += [str(int(first) + k * int(step or 0)) for k in range(int(times))]
    return {"series": f'{stem}{{job="peerloom",{inside}}}', "values": " ".join(spelled)}


def test_every_alarm_has_a_case():
    assert {f"Peerloom{name}" for name in CASES} == {rule["alert"] for rule in RULES}
    for pair in CASES.values():
        for name in (name.partition("{")[0] for case in pair for name in case):
            assert name in METRICS or name == "up"


def promtool(tmp_path, rules, name, raising):
    """Whether promtool finds the alarm raised after these 90 minutes."""
    (tmp_path / "rules.yaml").write_text(rules)
    case = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [series(*item) for item in raising.items()],
                "promql_expr_test": [
                    {
                        "expr": "count by (alertname) "
                        f'(ALERTS{{alertname="Peerloom{name}",alertstate="firing"}})',
                        "eval_time": "89m",
                        "exp_samples": [
                            {"labels": f'{{alertname="Peerloom{name}"}}', "value": 1}
                        ],
                    }
                ],
            }
        ],
    }  # fmt: skip
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(case))
    return subprocess.run(
        ["promtool", "test", "rules", "case.yaml"], cwd=tmp_path, capture_output=True, check=False
    )


needs_promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool (Debian package prometheus) is not installed"
)


@needs_promtool
def test_prometheus_can_read_every_query_of_the_board(tmp_path):
    queries = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
    rules = [{"record": f"panel:{k}", "expr": query} for k, query in enumerate(queries)]
    assert len(rules) > 20
    assert checked(tmp_path, rules).returncode == 0, checked(tmp_path, rules).stdout
    rules[3]["expr"] += ")"
    assert checked(tmp_path, rules).returncode == 1


def checked(folder, rules):
    (folder / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]})
    )
    return subprocess.run(
        ["promtool", "check", "rules", "rules.yaml"], cwd=folder, capture_output=True, check=False
    )


@needs_promtool
@pytest.mark.parametrize("name", CASES)
def test_alarms_are_raised_when_they_should_and_only_then(name, tmp_path):
    raising, quiet = CASES[name]
    done = promtool(tmp_path, MADE.rules(), name, raising)
    assert done.returncode == 0, done.stdout + done.stderr
    done = promtool(tmp_path, MADE.rules(), name, quiet)
    assert done.returncode == 1
    assert b"got: nil" in done.stdout + done.stderr


def test_the_page_names_the_job_and_the_file_that_the_alarms_need():
    page = (ROOT / "docs" / "deploy.md").read_text()
    config = yaml.safe_load(re.search(r"^```yaml\n(.*?)^```", page, flags=re.M | re.S)[1])
    (job,) = (scraped["job_name"] for scraped in config["scrape_configs"])
    assert re.findall(r'job="(\w+)"', MADE.rules().replace("\\", "")) == [job]
    assert config["rule_files"] == ["alarms.yaml"]
    assert "alarms.yaml" in MADE.FILES

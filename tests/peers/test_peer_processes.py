"""Processes that are killed and stopped; then their histories are checked line by line."""

import copy
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from peerloom.errors import ConfigError, DataError
from peerloom.transport import History, read_history
from tests.doubles.checker import check_histories
from tests.doubles.failpoints import arm
from tests.federation import federation, free_ports, identity, until

pytestmark = pytest.mark.slow  # starts processes, or runs for long

COUNT = 3
SCRIPT = Path(__file__).parents[1] / "peer_process.py"


def begin(number, folder, ports, **environment):
    command = [
        sys.executable,
        SCRIPT,
        number,
        folder,
        identity(number).folder,
        identity(0).id,
        ports[number],
    ]
    path = os.pathsep.join(
        filter(None, [str(SCRIPT.parent.parent), os.environ.get("PYTHONPATH", "")])
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **environment}
    with (folder / f"errors-{number}").open("ab") as errors:
        return subprocess.Popen([str(word) for word in command], env=environment, stderr=errors)


def histories(folder):
    return {identity(n).id: list(read_history(folder / f"history-{n}.jsonl")) for n in range(COUNT)}


def lines(folder, number):
    path = folder / f"history-{number}.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_mass_and_order_survive_kills_and_stops(tmp_path):
    ports, draws = free_ports(COUNT), random.Random(1)
    failpoints = [
        "after_send_before_ack=kill@40",
        "after_apply_before_ack=kill@25",
        "before_rename=kill@4",
        "after_rename=kill@3",
        "",
    ]
    everyone = [(i, j) for i in range(COUNT) for j in range(COUNT) if i != j]
    (tmp_path / "roster.json").write_bytes(federation(COUNT, everyone, ports).to_bytes())
    running = [begin(number, tmp_path, ports) for number in range(COUNT)]
    try:
        assert until(lambda: all(lines(tmp_path, number) > 100 for number in range(COUNT)), 20.0)
        kills = 0
        for point in failpoints:
            who = draws.randrange(COUNT)
            running[who].kill()
            running[who].wait()
            kills += 1
            if point:
                running[who] = begin(who, tmp_path, ports, PEERLOOM_FAILPOINTS=point)
                assert running[who].wait(180.0) == -signal.SIGKILL, (
                    tmp_path / f"errors-{who}"
                ).read_text()
                kills += 1
            before = lines(tmp_path, who)
            running[who] = begin(who, tmp_path, ports)
            assert until(lambda: lines(tmp_path, who) > before + 100, 20.0)  # noqa: B023
        running[0].send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        running[0].send_signal(signal.SIGCONT)
        time.sleep(0.5)
        (tmp_path / "finish").touch()
        for number, process in enumerate(running):
            assert process.wait(180) == 0, (tmp_path / f"errors-{number}").read_text()
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert kills == 9
    found = histories(tmp_path)
    assert check_histories(found) == []
    totals = [events[-1] for events in found.values()]
    assert all(
        line["what"] == "totals" and all(balanced for _, balanced in line["tallies"])
        for line in totals
    )
    downs = [link for events in found.values() for link in events if link["what"] == "start"]
    assert len(downs) == COUNT + kills


FIRST = {"incarnation": 1, "round": 1, "mix_index": 0, "channel": 0}  # the first parcel
SMALL = [
    {"what": "start", "incarnation": 1},
    {"what": "put", "to": "b", "number": 1, "seq": 0, **FIRST},
    {"what": "ack", "to": "b", "number": 1, "seq": 1, **FIRST},
    {"what": "round", "round": 1},
    {"what": "totals", "held": [1.0], "source": [3.0], "sent": {"b": [2.0]}, "got": {}},
]
OTHER = [
    {"what": "start", "incarnation": 1},
    {"what": "apply", "from": "a", "life": 1, "seq": 1, "result": "applied", **FIRST},
    {"what": "totals", "held": [2.0], "source": [0.0], "sent": {}, "got": {"a": [2.0]}},
]


def test_the_checker_accepts_what_is_right():
    assert check_histories({"a": SMALL, "b": OTHER}) == []


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda a, b: b.insert(2, b[1]), "after (1, 1)"),
        (lambda a, b: b.pop(1), "never applied"),
        (lambda a, b: a.insert(3, a[2]), "twice"),
        (lambda a, b: a.pop(1), "never put"),
        (lambda a, b: a.insert(4, {"what": "round", "round": 1}), "round 1 after 1"),
        (lambda a, b: a.append({"what": "start", "incarnation": 1}), "incarnation 1 after 1"),
        (lambda a, b: b[1].update(round=9), "never sent it"),
        (lambda a, b: b[2].update(held=[2.0 + 1e-9]), "mass is off"),
        (lambda a, b: b.pop(2), "wrote their totals"),
    ],
)
def test_the_checker_finds_every_planted_fault(spoil, complaint):
    a, b = copy.deepcopy(SMALL), copy.deepcopy(OTHER)
    spoil(a, b)
    found = check_histories({"a": a, "b": b})
    assert any(complaint in line for line in found), found


ROUND = {"what": "apply", "from": "a", "life": 1, "result": "applied", "mode": "ordered", **FIRST}
LINKS = {1: frozenset({("a", "b")}), 2: frozenset()}


def test_the_checker_finds_a_round_that_is_applied_under_two_numbers():
    twice = [OTHER[0], {**ROUND, "seq": 1}, {**ROUND, "seq": 2}, OTHER[2]]
    assert any("twice" in line for line in check_histories({"a": SMALL, "b": twice}))
    later = [*twice[:2], {"what": "start", "incarnation": 2}, {**twice[2], "life": 2}, OTHER[2]]
    assert check_histories({"a": SMALL, "b": later}) == [], "a new process needs it again"


def test_the_checker_finds_who_is_heard_without_a_link():
    start, applied, totals = OTHER
    before = [{**start, "version": 1}, applied, {"what": "adopt", "version": 2}, totals]
    after = [before[0], before[2], before[1], totals]
    small = [{**SMALL[0], "version": 1}, *SMALL[1:]]
    assert check_histories({"a": small, "b": before}, LINKS) == []
    assert any("no link" in line for line in check_histories({"a": small, "b": after}, LINKS))


def test_the_checker_finds_a_copy_that_is_let_in():
    copy = [{"what": "start", "incarnation": 1}, {**SMALL[1], "to": "a"}]
    right = {"a": SMALL[:-1], "b": OTHER[:-1]}
    assert check_histories({**right, "b#old": copy}) == []
    found = check_histories({**right, "b#old": [*copy, OTHER[1]]})
    assert any("to its copy old" in line for line in found)


def test_a_cut_last_line_is_forgiven_and_any_other_is_not(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text('{"what": "start"}\n{"what": "pu')
    assert [line["what"] for line in read_history(path)] == ["start"]
    again = History(path, "a")
    again.note("start", incarnation=2)
    again.close()
    assert [line["what"] for line in read_history(path)] == ["start", "start"]
    path.write_text('{"what": "st\n{"what": "put"}\n')
    with pytest.raises(DataError, match="line 1"):
        list(read_history(path))


@pytest.mark.parametrize(
    "text", ["nowhere=kill", "mid_body=explode", "mid_body", "mid_body=kill@x", "mid_body=sleep:y"]
)
def test_misspelt_failpoints_are_errors(text):
    with pytest.raises(ConfigError, match="failpoints hold"):
        arm(text)
    arm("")

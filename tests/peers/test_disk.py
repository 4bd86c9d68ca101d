"""The disk budget of a run: computed before it begins, kept to while it goes on."""

import json
from dataclasses import replace

import pytest
import torch

import peerloom as pl
from peerloom.config import spec_hash
from peerloom.core import Ledger
from peerloom.errors import ConfigError
from peerloom.peers.disk import Disk, checked_need, disk_need, disk_of, parse_bytes, show_bytes
from peerloom.peers.federation import Federation
from peerloom.peers.folder import PeerFolder
from peerloom.peers.metrics import exposition
from peerloom.peers.wire_plan import WirePlan
from peerloom.transport import History
from tests.memory_runs import experiment, run_in_memory
from tests.status_samples import facts


def exp_of(rounds=12, n=5, **changes):
    graph = pl.graphs.ring(3)
    problem = pl.testing.random_quadratic(3, n)
    return experiment("DSpodFL", rounds, graph=graph, problem=problem, **changes)


@pytest.mark.parametrize(
    ("text", "count"),
    [("50GB", 50 * 10**9), ("1.5 MB", 1_500_000), ("12B", 12), ("3kB", 3000), ("2TB", 2 * 10**12)],
)
def test_amounts_are_read(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "50", "GB", "-1GB", "1e3GB", "50 GiB", "50GB 3", "nan GB"])
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(ConfigError, match="no amount of bytes"):
        parse_bytes(text)


def test_amounts_are_shown():
    assert [show_bytes(n) for n in (0, 999, 64 << 20, 10**12)] == [
        "0 B",
        "999 B",
        "67.1 MB",
        "1 TB",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("large", [None, 1])
@pytest.mark.parametrize("always", [False, True])
def test_no_run_takes_more_than_was_computed(large, always, identities, tmp_path):
    schedule = {"schedule": pl.schedules.Always()} if always else {}
    exp = exp_of(40, 200, evaluate=pl.Evaluate(every=5), **schedule)
    run_in_memory(exp, identities, tmp_path, seed=1, large=large)
    plan = WirePlan.of(exp)
    plan = plan if large is None else replace(plan, large=large)
    for row in range(3):
        need = disk_need(exp, row, plan, None)
        used = Disk(PeerFolder(tmp_path / str(row), spec_hash(exp)), None, None, print).used()
        slack = 3 * 4096  # headers of checkpoints, which do not grow with rows
        assert used["checkpoints"] <= need["checkpoints"] + slack
        assert used["sent"] <= need["sent"]
        assert used["judged"] <= need["judged"] + 12 * 2048
        assert (need["sent"] > 0) == (large is not None)


def test_a_need_beyond_the_budget_is_refused_with_a_table(tmp_path):
    exp = exp_of()
    plan = WirePlan.of(exp)
    total = sum(disk_need(exp, 0, plan, 4).values())
    assert show_bytes(total) in checked_need(exp, 0, plan, tmp_path, 4, total)
    with pytest.raises(ConfigError, match="more disk than it is allowed") as refused:
        checked_need(exp, 0, plan, tmp_path, 4, total - 1)
    assert refused.value.exit_code == 2
    lines = str(refused.value).splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [
        "checkpoints", "judged", "log", "together", "budget", "free",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [("", None), ("[network]\nwrapped = true\n", None), ('[disk]\nbudget = "5GB"\n', 5 * 10**9)],
)
def test_the_budget_of_a_site(text, found, tmp_path):
    assert disk_of(tmp_path) is None
    (tmp_path / "site.toml").write_text(text)
    assert disk_of(tmp_path) == found


@pytest.mark.parametrize(
    "text", ["disk = 5\n", "[disk]\nbudget = 5\n", "[disk", '[disk]\nmost = "5GB"\n']
)
def test_a_budget_that_cannot_be_read_is_refused(text, tmp_path):
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"site\.toml"):
        disk_of(tmp_path)


def judge(folder, rounds, losses):
    for t, loss in zip(rounds, losses, strict=True):
        row = {"round": t} if loss is None else {"round": t, "loss": loss}
        folder.measured(row, {"x": torch.zeros(1000)}, Ledger(pl.graphs.ring(3)))


def judged(folder):
    return sorted(int(path.stem) for path in (folder.path / "judged").iterdir())


def test_the_best_and_the_newest_models_are_kept(tmp_path):
    few = PeerFolder(tmp_path / "few", "spec", judged=4)
    judge(few, range(8), [9, 5, 1, 4, 3, 6, 7, 8])
    assert judged(few) == [2, 5, 6, 7]
    assert [row["round"] for row in few.measurements()] == list(range(8))  # figures stay
    judge(few, [8], [0.5])
    assert judged(few) == [5, 6, 7, 8]  # the best is the newest now
    hub = PeerFolder(tmp_path / "hub", "spec", judged=4)
    judge(hub, range(6), [None] * 6)  # a hub has no loss
    assert judged(hub) == [2, 3, 4, 5]
    every = PeerFolder(tmp_path / "all", "spec")
    judge(every, range(8), range(8))
    assert judged(every) == list(range(8))


def test_near_the_budget_an_alarm_beyond_it_models_then_the_history_are_given_up(tmp_path):
    folder = PeerFolder(tmp_path, "spec")
    judge(folder, range(4), [4, 1, 3, 2])
    (tmp_path / "checkpoint-0.safetensors").write_bytes(bytes(10_000))
    (tmp_path / "began.json").write_text("{}")
    history = History(tmp_path / "history.jsonl", "me")
    for k in range(30):
        history.note("round", t=k)
    said = []
    disk = Disk(folder, None, history, said.append)
    used = sum(disk.used().values())
    disk.check()  # without a budget nothing is said
    disk.budget = 2 * used
    disk.check()
    assert not said
    disk.budget = int(used / 0.95)
    disk.check()
    disk.check()
    assert len(said) == 1
    assert "are used" in said[0]
    disk.budget = used - 1
    disk.check()
    assert judged(folder) == [1, 2, 3]  # the oldest goes first
    assert "given up" in said[1]
    disk.budget = 10_050
    disk.check()
    assert judged(folder) == []
    assert not (tmp_path / "history.jsonl").exists()
    history.note("round", t=31)  # dropped
    assert not (tmp_path / "history.jsonl").exists()
    assert (tmp_path / "checkpoint-0.safetensors").stat().st_size == 10_000
    assert (tmp_path / "began.json").exists()
    assert "checkpoints go on" in said[-1]


def test_the_page_tells_use_and_budget():
    text = exposition(facts(disk={"used": {"sent": 5, "judged": 7}, "budget": 100}))
    assert 'peerloom_disk_bytes{what="sent"} 5' in text
    assert "peerloom_disk_budget_bytes 100" in text
    assert "disk_budget" not in exposition(facts(disk={"used": {}, "budget": None}))


@pytest.mark.slow
def test_a_federation_on_one_machine_still_collects_every_evaluation(tmp_path):
    exp = replace(exp_of(12), evaluate=pl.Evaluate(every=1))
    federation = Federation(exp, tmp_path / "out")
    federation.run()
    federation.collect()
    assert [row["round"] for row in federation.evaluations()] == list(range(13))
    status = json.loads((federation.folders[0] / "status.json").read_text())
    assert status["disk"]["budget"] is None
    assert status["disk"]["used"]["checkpoints"] > 0
    log = (federation.homes[0].folder / "log.txt").read_text()
    assert "disk: up to" in log

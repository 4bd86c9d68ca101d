"""Faults without end: what is drawn, what is checked, and a minute of it."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import peerloom
from chaos.ends import QUICK, RUN, until
from chaos.soak import command
from chaos.soak.cluster import Machine
from chaos.soak.crowd import BOUNDS, Crowd
from chaos.soak.plan import CASES, KINDS, Fault, RunPlan, plan_run
from chaos.soak.play import Outcome, play
from chaos.soak.report import Totals
from chaos.soak.shrink import shrink
from chaos.table import marks
from peerloom.peers.relay_process import RelayProcess
from peerloom.transport import Endpoint, Home, Link, Member

seeds = st.integers(0, 2**32)


# -- what is drawn


def drawn(seed, runs):
    return [fault.facts() for run in range(runs) for fault in plan_run(seed, run).faults]


def test_the_same_seed_gives_the_same_faults_in_every_process():
    code = "import json; from tests.laws.test_soak import drawn; print(json.dumps(drawn(7, 5)))"
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": salt},
            capture_output=True,
            check=True,
        ).stdout
        for salt in ("1", "2")
    ]
    assert found[0] == found[1]
    assert json.loads(found[0]) == drawn(7, 5)
    assert drawn(8, 5) != drawn(7, 5)


@given(seeds, st.integers(0, 50), st.integers(3, 9))
def test_faults_of_a_run_go_together(seed, number, peers):
    plan, gone = plan_run(seed, number, peers), None
    for faults in plan.episodes:
        kinds = [fault.kind for fault in faults]
        assert len(set(kinds)) == len(kinds)
        if {"stop_all", "copy", "backup", "expel", "unlink"} & set(kinds):
            assert len(faults) == 1
        struck = [f.row for f in faults if f.kind in ("kill", "crash", "freeze", "full_disk")]
        assert len(set(struck)) == len(struck), "one fault of a process at a time"
        for fault in faults:
            if fault.kind in ("kill", "crash", "full_disk", "expel", "backup"):
                assert fault.row not in plan.spared, "who is spared lives as long as the run"
            assert not plan.spared or fault.kind != "stop_all"
            assert fault.row != gone, "who was removed is left alone"
            assert plan.relayed or fault.kind != "relay"
            if fault.kind in ("expel", "unlink"):
                assert plan.case.outlasts
                assert gone is None
                assert fault.row != 0, "the founder stays"
                gone = fault.row


@given(seeds)
def test_every_kind_and_every_case_has_its_turn(seed):
    plans = [plan_run(seed, number) for number in range(64)]
    assert {fault.kind for plan in plans for fault in plan.faults} == set(KINDS)
    assert {plan.case.rule + plan.case.mode for plan in plans} == {c.rule + c.mode for c in CASES}
    assert any(len(faults) == 3 for plan in plans for faults in plan.episodes)
    long = [plan for plan in plans[:20] if plan.spared]
    assert len(long) >= 2, "an hour has some thirty runs"
    assert all(len(plan.spared) == 2 and len(plan.episodes) == 20 for plan in long)


@given(st.lists(st.integers(), unique=True, max_size=12), st.data())
def test_what_fails_is_shrunk_until_every_fault_is_needed(numbers, data):
    needed = set(data.draw(st.lists(st.sampled_from(numbers), unique=True)) if numbers else [])
    assert set(shrink(numbers, lambda part: needed <= set(part))) == needed


def test_a_growing_peer_is_found():
    def seen(slope):
        flat = [(float(t), 50.0) for t in range(0, 3600, 60)]
        grows = [(t, 50.0 + slope * t / 3600) for t, _ in flat]
        return Crowd(4, 3600.0, [flat, flat, flat, grows])

    assert not seen(0.9 * BOUNDS[1]).failed
    assert seen(1.1 * BOUNDS[1]).failed
    assert "**grows**" in seen(1.1 * BOUNDS[1]).markdown()


def test_the_table_tells_of_memory_and_says_so_where_it_cannot():
    def told(*lives):
        totals = Totals(7, 5, 60.0)
        samples = [[(float(t), 100.0 + t / 360) for t in range(0, life, 2)] for life in lives]
        totals.add(Outcome(plan_run(7, 4), memory=samples))
        return totals.markdown()

    assert "| not judged: no process lived 180 s |" in told(90, 150)
    assert "of the 2 processes that lived longest" in told(90, 300, 400)
    assert "| +10.0 MB per hour in the median (+10.0 to +10.0); " in told(90, 300, 400)


# -- the command, with runs that are made up


def pretend(monkeypatch, wrong):
    """Let a run fail if `wrong` is among its faults; the runs that were asked for."""
    played = []

    def play(plan, folder, machine, patience, note, until):
        numbers = {fault.number for fault in plan.faults}
        played.append(numbers)
        note("begin", kind="pretended")
        violations = ["lost"] if wrong <= numbers else []
        return Outcome(plan, list(plan.faults), stalls=dict.fromkeys(numbers, 1.0),
                       violations=violations)  # fmt: skip

    monkeypatch.setattr(command, "play", play)
    monkeypatch.setattr(command, "look_at_machine", lambda folder: Machine())
    return played


def test_what_fails_ends_as_a_short_command_that_repeats_it(monkeypatch, tmp_path):
    played = pretend(monkeypatch, {1, 3})
    code, lines = soak(tmp_path, "--minutes", "0", "--seed", "7", "--run", "1", "--shrink")
    assert code == 1
    (repeat,) = (line for line in lines if line["what"] == "repeat")
    assert repeat["command"] == "python -m chaos soak --seed 7 --peers 5 --run 1 --faults 1,3"
    played.clear()
    words = repeat["command"].split()[4:]
    assert soak(tmp_path / "again", *words)[0] == 1
    assert played == [{1, 3}], "the command repeats just that"


def test_who_interrupts_gets_the_table_so_far(monkeypatch, tmp_path, capsys):
    pretend(monkeypatch, {-1})
    right, runs = command.play, []

    def interrupted(plan, *rest):
        runs.append(plan.number)
        if len(runs) == 3:
            raise KeyboardInterrupt
        return right(plan, *rest)

    monkeypatch.setattr(command, "play", interrupted)
    console = Console(width=200)
    assert command.main(["--seed", "7", "--out", str(tmp_path)], console) == 0
    said = capsys.readouterr().out
    assert "runs: 2 " in said
    assert "nothing wrong" in said


# -- what is run


def soak(folder, *words):
    """The exit code, and what the history of faults says."""
    out = folder / "out"
    code = command.main([*words, "--patience", "240", "--out", str(out)], Console(quiet=True))
    return code, [json.loads(line) for line in (out / "faults.jsonl").read_text().splitlines()]


CASE = {(case.mode, case.rule): case for case in CASES}
DELIVER = "        result = inbox.deliver("
PLANTED = [
    (
        CASE["nobody", "SpodGT"],
        Fault(0, 0, "kill", 1, 2.0, 0.5),  # after checkpoints were written
        [
            # every fiftieth parcel is acknowledged and dropped
            (
                "transport/receiver.py",
                DELIVER,
                f'        if parcel.seq % 50 == 0:\n            return "applied"\n{DELIVER}',
            ),
            # who starts again forgets what it has added of its neighbours' sums
            ("peers/async_wire.py", ".restore(value, tuple", ".restore(0 * value, tuple"),
        ],
        ["but never applied it", "mass is off"],
    ),
    (
        CASE["everyone", "DSpodFL"],
        Fault(0, 0, "expel", 1, 0.2, 1.0),
        # a link that a newer roster removes stays open
        [("transport/links.py", 'if peer not in (targets if way == "out" else sources):', "if 0:")],
        ["who has no link to it"],
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("case", "fault", "changes", "words"), PLANTED, ids=["lost", "let in"])
def test_faults_in_the_program_are_found(case, fault, changes, words, tmp_path, monkeypatch):
    shutil.copytree(Path(peerloom.__file__).parent, tmp_path / "src" / "peerloom")
    for name, right, wrong in changes:
        file = tmp_path / "src" / "peerloom" / name
        assert right in file.read_text(), f"{name} has changed: plant the fault anew"
        file.write_text(file.read_text().replace(right, wrong))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "src"))
    folder, machine = tmp_path / "run", command.look_at_machine(tmp_path)
    folder.mkdir()
    plan = RunPlan(1, 0, 3, case, (fault,))
    outcome = play(plan, folder, machine, 240.0, lambda what, **facts: None)
    for word in words:
        assert any(word in text for text in outcome.violations), outcome.violations


@pytest.mark.slow
@pytest.mark.parametrize("relayed", [False, True], ids=["dialled", "through a relay"])
def test_the_flood_of_a_linked_member_is_let_in_and_held_off(relayed, tmp_path):
    """The flood that the tester starts, as a process, on an endpoint of this one."""
    guest, founder = (Home.create(tmp_path / name, name, (), name == "b") for name in "ab")
    with contextlib.ExitStack() as stack:
        relays = ()
        if relayed:
            relay = stack.enter_context(RelayProcess(tmp_path / "relay", founder.identity.id))
            relays = (relay.entry,)
        member = Member("a", guest.identity.certificate.decode())
        links = (Link(member.id, founder.identity.id, 0.25, 0.25),)
        changes = {"members": (*founder.roster.members, member), "links": links, "relays": relays}
        roster = founder.trust(founder.roster.amended(founder.identity, **changes)).roster
        listen = None if relayed else ("127.0.0.1", 0)
        post = stack.enter_context(
            Endpoint(founder.identity, roster, RUN, tmp_path / "state", listen, QUICK)
        )
        place = relays[0].addresses[0] if relayed else f"127.0.0.1:{post.port}"
        held_off = tmp_path / "held off"
        folders = f"--guest {guest.folder} --founder {founder.folder}".split()
        where = f"--victim {founder.identity.id} --place {place} --channel 0 --length 40000"
        run = f"--run {RUN.run_id} --agreement {RUN.agreement}"
        words = [*folders, *where.split(), *run.split(), "--held-off", str(held_off)]
        flood = subprocess.Popen([sys.executable, "-m", "chaos.soak.flood", *words])
        try:
            assert until(held_off.exists, 60.0)
            assert flood.poll() is None
        finally:
            flood.kill()
            flood.wait()
        assert post.refusals()["too_fast"] >= 1
        assert sum(link.reconnects.get("too_fast", 0) for link in post.links()) >= 1, "let in first"


@pytest.mark.slow
@pytest.mark.chaos
def test_a_minute_of_faults_breaks_no_promise(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n{}\n{}\nafter\n".format(*marks(command.MARK)))
    code, lines = soak(tmp_path, "--minutes", "1", "--seed", "403", "--write", str(page))
    assert [line["text"] for line in lines if line["what"] == "violation"] == []
    assert code == 0
    counts = Counter(line["what"] for line in lines)
    assert counts["begin"] == counts["end"] >= 3
    assert "| nothing wrong |" in page.read_text()

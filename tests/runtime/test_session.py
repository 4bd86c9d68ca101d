"""One loop over a rule: who drives it, how it ends, who is told."""

import ast
import json
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import peerloom as pl
from peerloom import graphs
from peerloom.codecs import Dense
from peerloom.core import Caution, Draws, LocalWire
from peerloom.core.events import (
    Alarm,
    Diverged,
    Evaluated,
    Finished,
    Late,
    LinkDown,
    LinkUp,
    Refused,
    RelayChanged,
    RosterChanged,
    RoundDone,
    Saved,
    Started,
)
from peerloom.errors import ConfigError, DivergedError
from peerloom.peers.federation import Federation
from peerloom.peers.log import EventLog
from peerloom.peers.telemetry import link_event
from peerloom.rules import DGD, DSpodFL
from peerloom.runtime import Guard, Session, StopRule, build_port, simulation
from peerloom.runtime.shards import run_sharded
from peerloom.schedules import Bernoulli
from peerloom.transport import Event as Told
from tests.builders import LINKS, experiment, quadratic

ROOT = Path(pl.__file__).parent
DRIVER = ROOT / "runtime" / "session.py"
# A rule made of another calls it in its own step.
WRAPPERS = [ROOT / "rules" / name for name in ("alternating.py", "chebyshev.py")]
GRAPH = graphs.ring(5)


def busy(**options):
    options = {
        "problem": quadratic(5, noise=0.5),
        "schedule": Bernoulli(0.6, 0.6),
        "rounds": 12,
        "seed": 4,
        **options,
    }
    return experiment(GRAPH, DSpodFL(0.05), **options)


# -- the only driver


def driven(tree):
    """Calls of a rule's `init` or `step`, and assignments to a port's round."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("init", "step")
        ):
            whose = ast.unparse(node.func.value)
            # `opt` is a script's optimizer, whose step a rule asks for: see peerloom.live.
            drivers = ("session", "self.session", "self._session", "mll_sgd", "super()", "opt")
            if whose not in drivers:
                yield f"{whose}.{node.func.attr}()"
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            for part in ast.walk(target) if isinstance(target, ast.AST) else ():
                if (
                    isinstance(part, ast.Attribute)
                    and part.attr == "t"
                    and isinstance(part.ctx, ast.Store)
                ):
                    yield f"{ast.unparse(part)} ="


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_only_the_session_drives_a_rule(path):
    found = set(driven(ast.parse(path.read_text())))
    if path in WRAPPERS:
        assert found == {"self.rule.init()", "self.rule.step()"}
    elif path == DRIVER:
        assert {"rule.init()", "self._exp.algorithm.step()", "port.t ="} <= found
    else:
        assert found <= {"self.t ="}, "only runtime/session.py calls a rule or writes its round"
        assert not found or path == ROOT / "runtime" / "port.py"


def test_the_check_sees_a_second_driver():
    text = (
        "state = exp.algorithm.init(x, net)\n"
        "for net.t in range(3):\n"
        "    state = rule.step(state, net)\n"
        "port.t += 1"
    )
    assert set(driven(ast.parse(text))) == {
        "exp.algorithm.init()",
        "net.t =",
        "rule.step()",
        "port.t =",
    }


# -- how it ends


def test_a_session_stands_where_its_last_round_left_it():
    session = simulation(busy())
    with pytest.raises(RuntimeError, match="has not begun"):
        _ = session.t
    assert session.start().t == 0
    assert [session.step().t for _ in range(12)] == list(range(1, 13))
    assert (session.t, session.finished) == (12, "rounds")
    with pytest.raises(RuntimeError, match=r"ended after round 12 \(rounds\)"):
        session.step()


def test_a_request_ends_it_after_the_round():
    session, seen = simulation(busy()), []
    for snapshot in session:
        seen.append(snapshot.t)
        if snapshot.t == 5:
            session.request_stop()
    assert seen == list(range(6))
    assert session.finished == "asked"


def test_a_run_that_is_over_is_finished_and_not_stopped():
    session = simulation(busy())
    for snapshot in session:
        if snapshot.t == 12:
            session.request_stop()
    assert session.finished == "rounds"


def test_the_stop_rule_is_the_experiments():
    exp = busy(until_delay=7.0, until_settled=0.1)
    rule = StopRule.of(exp)
    assert (rule.rounds, rule.delay, rule.settled, rule.clients) == (12, 7.0, 0.1, 5)
    assert not rule.has_settled([1.0, 1.0])
    assert rule.has_settled([9.0, 1.0, 1.01, 1.02])
    assert not rule.has_settled([1.0, 1.01, 1.2])  # of the sum over clients
    assert simulation(exp).start().t == 0


@pytest.mark.parametrize("given", [{"until_delay": 5.0}, {"until_settled": 0.1}])
def test_engines_refuse_what_they_cannot_judge_before_anything_starts(given, tmp_path):
    exp, name = busy(**given), next(iter(given))
    with pytest.raises(ConfigError, match=f"{name} cannot be judged here: it depends on all rows"):
        Federation(exp, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match=f"{name} cannot be judged here: every shard"):
        run_sharded(exp, [[0, 1], [2, 3, 4]])


@pytest.mark.slow
def test_up_refuses_before_it_makes_a_folder(tmp_path):
    out = tmp_path / "out"
    words = ["up", "--set", "until_delay=5.0", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "peerloom", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "until_delay cannot be judged here" in done.stderr.replace("\n", " ")
    assert not out.exists()


# -- who is told


def test_observers_hear_of_everything_in_order(tmp_path):
    events = []
    exp = busy(evaluate=pl.Evaluate(every=6))
    pl.simulate(exp, observers=[events.append])
    kinds = [(type(event), event.t) for event in events]
    assert kinds == [
        (Started, 0), (Evaluated, 0), *((RoundDone, t) for t in range(1, 7)), (Evaluated, 6),
        *((RoundDone, t) for t in range(7, 13)), (Evaluated, 12), (Finished, 12),
    ]  # fmt: skip
    assert events[-1].why == "rounds"
    assert events[1].metrics["round"] == 0
    assert all(event.seconds > 0 for event in events if isinstance(event, RoundDone))


def test_an_observer_that_fails_is_dropped_and_the_run_goes_on(caplog):
    heard = []

    def fails(event):
        heard.append(event.t)
        if event.t == 3:
            raise ValueError("no")

    with caplog.at_level(logging.ERROR):
        result = pl.simulate(busy(), observers=[fails])
    assert torch.equal(result.x, pl.simulate(busy()).x)
    assert max(heard) == 3
    assert "An observer failed at RoundDone" in caplog.text


def test_the_old_way_to_hear_of_rounds_still_works_and_says_so():
    seen = []
    with pytest.warns(Caution, match=r"observers=\[...\]"):
        pl.simulate(busy(), on_round=seen.append)
    assert seen == list(range(13))


@pytest.mark.parametrize("path", ["matrix", "links"])
@pytest.mark.parametrize(
    "guard", [Guard(), Guard(every=1, replay=False), Guard(every=100), Guard(every=7)]
)
def test_every_guard_names_the_same_round_and_row(guard, path):
    exp = experiment(GRAPH, DGD(1e30), rounds=60)
    wire, events = (None if path == "matrix" else LINKS), []
    session = Session(
        exp, build_port(exp, mixer="links", wire=wire), guard=guard, observers=[events.append]
    )
    with pytest.raises(DivergedError) as caught:
        for _ in session:
            pass
    looked = Session(exp, build_port(exp, mixer="links"), guard=Guard(every=1, replay=False))
    with pytest.raises(DivergedError) as wanted:
        for _ in looked:
            pass
    assert (caught.value.round, caught.value.row) == (wanted.value.round, wanted.value.row)
    told = [event for event in events if isinstance(event, Diverged)]
    assert [(event.t, event.row, event.text) for event in told] == [
        (caught.value.round, caught.value.row, str(caught.value))
    ]


def test_saving_is_an_event():
    events = []
    session = simulation(busy(), observers=[events.append])
    session.start()
    session.saved(0, 0.5)
    assert events[-1] == Saved(0, 0.5)


# -- all or nothing


class Interrupted(BaseException):
    """As a request to stop that a wait raises."""


class Failing(LocalWire):
    """A durable wire that stops in the second mixing of a round."""

    def __init__(self, at):
        super().__init__(Dense(), Draws(0))
        self.at, self.remembered = at, []

    def exchange(self, tag, *rest):
        if tag == self.at:
            raise Interrupted
        return super().exchange(tag, *rest)

    def resume(self, t, memory):
        self.remembered = [t]

    def memory(self, t):
        return dict


def test_a_round_that_is_interrupted_leaves_no_trace():
    rule = pl.rules.Depositum(alpha=0.05, beta=0.5)  # two mixings in a round
    exp = replace(busy(), algorithm=rule, schedule=pl.schedules.Always())
    session = Session(exp, build_port(exp, mixer="links", wire=Failing((6, 2))))
    with pytest.raises(Interrupted):
        for _ in session:
            pass
    with pytest.raises(RuntimeError, match="Round 6 was interrupted"):
        session.step()
    before = simulation(replace(exp, rounds=5), path="links")
    for _ in before:
        pass
    assert session.t == 5
    assert all(torch.equal(a, b) for a, b in zip(session.state, before.state, strict=True))
    for name, values in before.ledger.arrays().items():
        assert (session.ledger.arrays()[name] == values).all(), name
    rest = Session(exp, build_port(exp, mixer="links"), resume=session.checkpoint())
    whole = simulation(exp, path="links")
    for one in (rest, whole):
        for _ in one:
            pass
    assert torch.equal(rest.state.x, whole.state.x)
    assert rest.ledger.messages == whole.ledger.messages


def test_the_words_of_the_transport_are_events_and_the_log_says_them(tmp_path):
    """Every kind of the transport's events has its event here, and the log a line for each."""
    kinds = {
        "up": LinkUp,
        "down": LinkDown,
        "late": Late,
        "refused": Refused,
        "alarm": Alarm,
        "roster": RosterChanged,
        "relay": RelayChanged,
    }
    lines = []
    log = EventLog(lines.append, as_json=True)
    for kind, event in kinds.items():
        found = link_event(Told(kind, "", f"text of {kind}"))
        assert type(found) is event
        log.observe(found)
    log.observe(RoundDone(3, 0.1))
    log.observe(Finished(9, "asked"))
    log.close()
    told = [json.loads(line) for line in lines]
    assert [line["kind"] for line in told] == [*kinds, "end"]
    assert told[0]["text"] == "text of up"
    assert "round 9, stopped; the same command goes on" in told[-1]["text"]


def test_a_round_that_a_fault_of_the_rule_ends_leaves_no_checkpoint():
    """Without a durable wire the account of the round before is gone; the state is not."""

    class Faulty(DSpodFL):
        def step(self, s, port):
            found = super().step(s, port)
            if port.t == 4:
                raise ZeroDivisionError
            return found

    session = simulation(replace(busy(), algorithm=Faulty(0.05)))
    with pytest.raises(ZeroDivisionError):
        for _ in session:
            pass
    assert session.t == 3
    with pytest.raises(RuntimeError, match="account of round 3 is gone"):
        session.checkpoint()

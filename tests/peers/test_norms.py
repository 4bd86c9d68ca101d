"""`--largest-norm`: no honest sum is refused for its age, and no lie passes for being a sum."""

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.peers.async_wire import AsyncWire
from peerloom.peers.floats import to_body
from peerloom.peers.folder import PeerFolder
from peerloom.peers.wire_plan import WirePlan
from peerloom.schedules import Bernoulli
from peerloom.transport import Parcel, RefusedError
from tests.memory_runs import SLOW, experiment, roster_for, run_in_memory, spec_hash

NORM = 12.0


def sums(exp, folder):
    """The running sums in the checkpoints of all rows."""
    for row in range(exp.graph.rows):
        memory = PeerFolder(folder / str(row), spec_hash(exp)).newest().memory()
        yield from (
            value for name, value in memory.items() if name.split("/")[0] in ("rho", "flow")
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SpodGT", "DSpodFL"])
def test_honest_peers_that_wait_for_nobody_notice_no_limit(name, identities, tmp_path):
    """Their sums grow beyond it; the run is the same, bit by bit, as without a limit."""
    exp = experiment(
        name, rounds=300, message=pl.messages.Dense(), schedule=Bernoulli(nodes=0.8, links=0.8)
    )
    for folder in "ab":
        (tmp_path / folder).mkdir()
    events, crashes = [], [(0.7, 2, 0.2), (1.1, 4, 0.3)]
    unlimited = run_in_memory(exp, identities, tmp_path / "a", SLOW, 3, crashes, free=True)
    longest = [float(result.state.x.norm()) for result in unlimited]
    limit = 0.8 * max(np.linalg.norm(value) for value in sums(exp, tmp_path / "a"))
    assert limit > 1.5 * max(longest), "or models would be refused, not sums"
    limited = run_in_memory(
        exp, identities, tmp_path / "b", SLOW, 3, crashes, free=True, largest_norm=limit,
        seen=lambda *event: events.append(str(event)),
    )  # fmt: skip
    for one, other in zip(limited, unlimited, strict=True):
        assert torch.equal(one.state.x, other.state.x)
    assert not [event for event in events if "norm" in event]


class Refusals:
    """A transport that only counts refusals."""

    def __init__(self):
        self.told = []

    def refuse(self, why, detail, peer=""):
        self.told.append((why, peer))


@pytest.mark.parametrize("name", ["SpodGT", "DSpodFL"])
def test_a_lie_in_a_sum_moves_nothing(name, identities):
    """Each parcel is counted once, and an honest sum after the lie is taken whole."""
    exp = experiment(name, message=pl.messages.Dense())
    plan, roster = WirePlan.of(exp, None, True, NORM), roster_for(exp.graph, identities)
    post = Refusals()
    wire, key = AsyncWire(post, 1, plan, roster), (1, 0, 0)

    def take(round, value, times=1):
        parcel = Parcel(1, round, 1, to_body(np.zeros(1)), "", 0, 1, round)
        return [wire._new(key, np.full(5, value), parcel)[0] for _ in range(times)][-1]

    assert take(1, 2.0) == 2.0
    for round, lie in ((2, 1e9), (3, -1e9), (4, 1e308), (5, 100.0)):
        assert take(round, lie, times=3) == 0.0
    assert post.told == [("norm", roster.members[0].id)] * 4
    assert take(6, 4.0) == 2.0, "what is new since it was believed"
    assert take(200, 104.0) == 100.0, "in so many rounds an honest one may have pushed that"
    assert take(190, 90.0) == 0.0, "an older parcel"


def test_models_are_judged_beside_sums_of_any_size():
    exp = experiment("DSpodFL", message=pl.messages.Dense())
    plan = WirePlan.of(exp, None, True, NORM)
    (channel,) = plan.channels.values()
    model, moved = np.full(5, 1.0), np.full(5, 1e9)
    channel.check(memoryview(to_body(np.concatenate([model, moved]))))
    for bad in (np.full(5, 10.0), np.full(5, 1e200)):
        with pytest.raises(RefusedError, match="norm"):
            channel.check(memoryview(to_body(np.concatenate([bad, moved]))))
    with pytest.raises(RefusedError, match="not_finite"):
        channel.check(memoryview(to_body(np.append(np.ones(9), np.inf))))


def test_each_vector_of_a_message_has_the_limit_of_its_own():
    """Where peers wait, a model and a tracker travel together, as long as the limit each."""
    exp = experiment("SpodGT", message=pl.messages.Dense())
    channel = next(iter(WirePlan.of(exp, None, False, NORM).channels.values()))
    count = channel.longest // 8
    assert count == 10
    long, short = np.full(5, 5.0), np.zeros(5)
    channel.check(memoryview(to_body(np.concatenate([long, long]))))
    for bad in ([2 * long, short], [short, 2 * long]):
        with pytest.raises(RefusedError, match="norm"):
            channel.check(memoryview(to_body(np.concatenate(bad))))

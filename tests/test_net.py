"""The port: columns of constants, of activity and of draws, the same wherever a row lives."""

import numpy as np
import pytest
import torch
from builders import experiment, quadratic

from peerloom import graphs
from peerloom.core import Draws, MemoryWire
from peerloom.errors import ConfigError
from peerloom.runtime import build_net
from peerloom.schedules import Bernoulli

EXP = experiment(graphs.ring(6), schedule=Bernoulli(nodes=0.5, links=0.5), seed=3)
SOME = np.array([1, 4])


def nets():
    """All rows here, and two of them here; both in round 5."""
    whole, part = build_net(EXP), build_net(EXP, SOME, wire=MemoryWire())
    whole.t = part.t = 5
    return whole, part


def test_active_is_the_schedule_of_the_round_as_a_column():
    whole, part = nets()
    v = EXP.schedule.bind(EXP.graph, Draws(3)).nodes(5)
    assert whole.active().tolist() == [[float(each)] for each in v]
    assert torch.equal(part.active(), whole.active()[SOME])


def test_own_gives_the_hosted_rows_of_a_constant():
    whole, part = nets()
    assert whole.own(range(6)).tolist() == [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    assert part.own(range(6)).tolist() == [[1.0], [4.0]]
    assert part.own(7).tolist() == [[7.0], [7.0]]
    with pytest.raises(ConfigError, match="for 6 clients"):
        part.own([1.0, 2.0])


def test_draws_follow_the_row_wherever_it_lives():
    whole, part = nets()
    u = whole.draw("coin")
    assert u.shape == (6, 1)
    assert len(set(u.flatten().tolist())) == 6
    assert torch.equal(part.draw("coin"), u[SOME])
    assert not torch.equal(whole.draw("other"), u)
    whole.t = 6
    assert not torch.equal(whole.draw("coin"), u)


def test_a_shared_draw_is_one_number_for_all_rows():
    whole, part = nets()
    assert torch.equal((whole.own(0) + whole.draw("coin", shared=True))[SOME], part.own(0) + part.draw("coin", shared=True))
    assert len(torch.unique(whole.own(0) + whole.draw("coin", shared=True))) == 1


def test_what_a_rule_does_to_its_draws_is_its_own_affair():
    whole, _ = nets()
    first = whole.draw("coin").clone()
    whole.draw("coin").zero_()
    assert torch.equal(whole.draw("coin"), first)


def test_a_gradient_without_a_mask_is_everybodys():
    whole, _ = nets()
    x = torch.ones(6, 3, dtype=torch.float64)
    problem = EXP.problem
    wanted = np.einsum("ijk,k->ij", problem.A, np.ones(3)) - problem.b
    torch.testing.assert_close(whole.grad(x), torch.from_numpy(wanted), rtol=1e-13, atol=1e-13)
    some = whole.grad(x, whole.active())
    torch.testing.assert_close(some, torch.from_numpy(wanted) * whole.active(), rtol=1e-13, atol=1e-13)


def test_noise_has_its_size_and_is_the_same_for_every_call_of_a_round():
    net = build_net(experiment(graphs.ring(6), problem=quadratic(6, noise=0.7)))
    x, noise = torch.zeros(6, 3, dtype=torch.float64), []
    exact = -torch.from_numpy(net.problem._problem.b)
    for net.t in range(1, 400):
        g = net.grad(x)
        assert torch.equal(g, net.grad(x))
        noise.append(g - exact)
    z = torch.stack(noise) / 0.7
    assert abs(z.mean().item()) < 4.5 / z.numel() ** 0.5
    assert z.std().item() == pytest.approx(1, abs=4.5 / (2 * z.numel()) ** 0.5)

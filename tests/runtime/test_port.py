"""The port: columns of constants, of activity and of draws, the same wherever a row lives."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

from peerloom import core, graphs, rules
from peerloom.core import Draws, Port
from peerloom.errors import Caution, ConfigError
from peerloom.runtime import build_port, iterate
from peerloom.schedules import Bernoulli
from tests.builders import LINKS, experiment, quadratic

EXP = experiment(graphs.ring(6), schedule=Bernoulli(nodes=0.5, links=0.5), seed=3)
SOME = np.array([1, 4])


def ports():
    """All rows here, and two of them here; both in round 5."""
    whole, part = build_port(EXP), build_port(EXP, SOME, mixer="links")
    whole.t = part.t = 5
    return whole, part


def test_active_is_the_schedule_of_the_round_as_a_column():
    whole, part = ports()
    v = EXP.schedule.bind(EXP.graph, Draws(3)).nodes(5)
    assert whole.active().tolist() == [[float(each)] for each in v]
    assert torch.equal(part.active(), whole.active()[SOME])


def test_constant_gives_the_hosted_rows_of_a_constant():
    whole, part = ports()
    assert whole.constant(range(6)).tolist() == [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    assert part.constant(range(6)).tolist() == [[1.0], [4.0]]
    assert part.constant(7).tolist() == [[7.0], [7.0]]
    with pytest.raises(ConfigError, match="for 6 clients"):
        part.constant([1.0, 2.0])


def test_draws_follow_the_row_wherever_it_lives():
    whole, part = ports()
    u = whole.uniform("coin")
    assert u.shape == (6, 1)
    assert len(set(u.flatten().tolist())) == 6
    assert torch.equal(part.uniform("coin"), u[SOME])
    assert not torch.equal(whole.uniform("other"), u)
    whole.t = 6
    assert not torch.equal(whole.uniform("coin"), u)


def test_a_shared_draw_is_one_number_for_all_rows():
    whole, part = ports()
    assert torch.equal(
        (whole.constant(0) + whole.uniform("coin", shared=True))[SOME],
        part.constant(0) + part.uniform("coin", shared=True),
    )
    assert len(torch.unique(whole.constant(0) + whole.uniform("coin", shared=True))) == 1


def test_what_a_rule_does_to_its_draws_is_its_own_affair():
    whole, _ = ports()
    first = whole.uniform("coin").clone()
    whole.uniform("coin").zero_()
    assert torch.equal(whole.uniform("coin"), first)


def test_a_gradient_without_a_mask_is_everybodys():
    whole, _ = ports()
    x = torch.ones(6, 3, dtype=torch.float64)
    problem = EXP.problem
    wanted = np.einsum("ijk,k->ij", problem.A, np.ones(3)) - problem.b
    torch.testing.assert_close(whole.grad(x), torch.from_numpy(wanted), rtol=1e-13, atol=1e-13)
    some = whole.grad(x, whole.active())
    torch.testing.assert_close(
        some, torch.from_numpy(wanted) * whole.active(), rtol=1e-13, atol=1e-13
    )


def test_noise_has_its_size_and_is_the_same_for_every_call_of_a_round():
    net = build_port(experiment(graphs.ring(6), problem=quadratic(6, noise=0.7)))
    x, noise = torch.zeros(6, 3, dtype=torch.float64), []
    exact = -torch.from_numpy(net.problem._problem.b)
    for net.t in range(1, 400):
        g = net.grad(x)
        assert torch.equal(g, net.grad(x))
        noise.append(g - exact)
    z = torch.stack(noise) / 0.7
    assert abs(z.mean().item()) < 4.5 / z.numel() ** 0.5
    assert z.std().item() == pytest.approx(1, abs=4.5 / (2 * z.numel()) ** 0.5)


# -- the narrow port


def test_a_port_offers_rules_what_the_protocol_names():
    port = build_port(EXP)
    named = {name for name in vars(Port) if not name.startswith("_")}
    assert named == {
        "t", "active", "grad", "prox", "constant", "uniform", "mix", "received", "fires",
        "compress",
    }  # fmt: skip
    assert all(hasattr(port, name) for name in named)


def test_the_rules_of_the_registry_use_nothing_else_of_the_port():
    used = set()
    for path in Path(rules.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "port"
            ):
                used.add(node.attr)
    assert used
    assert used <= {name for name in vars(Port) if not name.startswith("_")}


def test_old_names_of_the_port_still_work_and_say_so():
    port = build_port(EXP)
    port.mix(torch.zeros(EXP.graph.rows, 3, dtype=torch.float64))
    pairs = {
        "own": (port.own, port.constant, (2.0,)), "draw": (port.draw, port.uniform, ("noise",)),
        "heard": (port.heard, port.received, ()), "talks": (port.talks, port.fires, ()),
    }  # fmt: skip
    for name, (old, new, arguments) in pairs.items():
        with pytest.warns(Caution, match=f"`{name}` is now called `{new.__name__}`"):
            assert torch.equal(old(*arguments), new(*arguments))
    with pytest.warns(Caution, match="now called Port"):
        assert core.Net is Port
    with pytest.warns(Caution, match="now called Requirements"):
        assert core.Needs is core.Requirements
    with pytest.warns(Caution, match="now called `port`"):
        assert next(iterate(EXP)).net.network is EXP.graph
    with pytest.raises(AttributeError, match="no attribute 'Nett'"):
        _ = core.Nett


def test_the_engine_chooses_the_mixer_by_name():
    assert build_port(EXP).mixer == "auto"
    assert build_port(EXP, mixer="links").mixer == "links"
    for mixer in ("auto", "matrix"):
        with pytest.raises(ValueError, match="A wire carries rows link by link, but the mixer is"):
            build_port(EXP, mixer=mixer, wire=LINKS)
    assert build_port(EXP, mixer="links", wire=LINKS).twin().mixer == "links"

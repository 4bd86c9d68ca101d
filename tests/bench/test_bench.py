"""The benchmark compares like with like, and says what it found. How fast it is, no test asks."""

import io
import json

import pytest
import torch
from rich.console import Console

from peerloom import bench
from peerloom.bench import contenders, timing
from peerloom.bench.agreement import check
from peerloom.bench.cases import CASES
from peerloom.bench.codecs import FAST, codec_speeds
from peerloom.bench.gradients import workloads
from peerloom.bench.links import links
from peerloom.bench.live import handover, live_steps
from peerloom.bench.peers import parts_of_a_round
from peerloom.bench.relays import WAYS, through_relays
from peerloom.codecs import CODECS
from peerloom.errors import ConfigError, PeerloomError


@pytest.mark.parametrize("name", ["softmax-10", "mlp-10"])
def test_the_contenders_compute_the_same_round(name):
    assert all(difference < 1e-4 for difference in check(name, CASES[name]).values())


@pytest.mark.parametrize("what", workloads())
def test_fast_and_readable_gradients_are_the_same(what):
    workload, fast = workloads()[what]
    with torch.no_grad():
        found = [call() for call in workload.contenders(fast).values()]
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)


def test_a_contender_that_computes_something_else_is_caught(monkeypatch):
    monkeypatch.setattr(contenders, "LR", 1.01 * contenders.LR)
    with pytest.raises(PeerloomError, match="softmax-10"):
        check("softmax-10", CASES["softmax-10"])


@pytest.mark.slow
def test_the_document_is_json_and_can_be_shown():
    document = bench.run(["softmax-10", "startup"], seconds=0.3)
    assert json.loads(json.dumps(document)) == document
    ratio = next(
        line for line in document["lines"] if line["what"] == "times faster than the papers' style"
    )
    assert ratio["wanted"] == 8.0
    assert ratio["met"] == (ratio["value"] >= 8.0)
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(bench.render(document))
    assert "softmax-10" in console.export_text()


def test_every_codec_is_measured():
    found = codec_speeds({100: 1})
    assert {name.partition("(")[0] for name, _ in found} == set(CODECS)
    assert set(FAST) <= {name for name, _ in found}
    assert all(encode > 0 and decode > 0 for encode, decode in found.values())


def test_an_unknown_case_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'softmax-10'"):
        bench.run(["softmax-1oo"])


def test_a_link_is_measured_beside_a_bare_socket():
    found = links({"4 KB": (1000, 5), "400 KB": (100_000, 2)})
    assert list(found) == ["4 KB", "400 KB"]
    assert all(link > 0 and bare > 0 for link, bare in found.values())


def test_steps_of_a_loop_are_measured_turn_by_turn(monkeypatch):
    for name in ("_TURN", "_REST"):
        monkeypatch.setattr(timing, name, 0.0)
    steps = live_steps(100, 0.0)
    assert list(steps) == ["SGD", "DSpodFL", "SpodGT", "DSpodFL, two neighbours"]
    for found in (handover(0.0), *steps.values()):
        assert len(found) == 4
        assert min(found) > 0


@pytest.mark.slow
def test_ways_through_a_relay_are_measured():
    found = through_relays({"4 KB": (1000, 3), "400 KB": (100_000, 2)})
    assert tuple(found) == WAYS
    for crossing in found.values():
        assert set(crossing.ms) == {"4 KB", "400 KB"}
        assert all(value > 0 for value in crossing.ms.values())
    assert found["direct"].relay_cpu_per_gb is None
    assert found["bare"].relay_bytes > 0


def test_a_step_and_a_checkpoint_of_a_row_are_measured():
    threads = torch.get_num_threads()
    assert all(spent > 0 for spent in parts_of_a_round().values())
    assert torch.get_num_threads() == threads, "what is measured next has as many as before"

"""Frozen weights that a model's factory maps from a file stay there: processes share its pages."""

import re
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

import peerloom as pl
from peerloom.measures import measure
from peerloom.problems import Task
from peerloom.runtime import simulation

WIDTH = 512
BASE = WIDTH * WIDTH * 4

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps").exists(), reason="only Linux says which pages are shared"
)


def network():
    """A large frozen layer, and a small one that is trained."""
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 3))
    module[0].requires_grad_(False)
    return module


def mapped(file):
    """The same, with weights that lie in this file."""
    with torch.device("meta"):  # no memory for what is mapped
        module = network()
    module.load_state_dict(safetensors.torch.load_file(file), assign=True)
    module[0].requires_grad_(False)
    return module


def task(model):
    return Task(
        model,
        lambda net, batch: net(batch).square().mean(),
        lambda i: torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(i)),
        batch=4,
    )


def run(model):
    """The last snapshot of a short run that is judged, and its problem."""
    graph, rule = pl.graphs.complete(3), pl.rules.SpodGT(0.1)
    session = simulation(pl.Experiment(graph, task(model), rule, rounds=3))
    *_, last = session
    measure(last, seconds=0.0)
    return last, session.port.problem


def copied(file):
    """Bytes of the mapped file of which this process has copies, as it wrote to them."""
    found, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            ours = line.endswith(str(file))
        elif ours and line.startswith("Anonymous:"):
            found += 1024 * int(line.split()[1])
    return found


def lies_in(file, tensor):
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(end, 16) for end in line.split()[0].split("-"))
        if low <= tensor.data_ptr() < high:
            return line.endswith(str(file))
    return False


def test_frozen_weights_stay_in_the_file_they_were_mapped_from(tmp_path):
    file = tmp_path / "base.safetensors"
    torch.manual_seed(5)
    safetensors.torch.save_file(network().state_dict(), file)
    last, problem = run(lambda: mapped(file))
    assert lies_in(file, problem.module[0].weight)
    assert copied(file) < BASE / 8  # the small layer, and the pages that its ends lie on
    in_memory, _ = run(lambda: _loaded(file))
    assert torch.equal(last.x, in_memory.x)


def test_pages_that_are_written_are_seen(tmp_path):
    """The check itself: weights that were changed are the process's own."""
    file = tmp_path / "base.safetensors"
    safetensors.torch.save_file(network().state_dict(), file)
    module = mapped(file)
    before = copied(file)
    with torch.no_grad():
        module[0].weight.add_(1)
    assert before < BASE / 8 < BASE <= copied(file)


def _loaded(file):
    module = network()
    module.load_state_dict(safetensors.torch.load_file(file))
    return module

"""What is set for the whole process: nothing on import, and one call that says what holds."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import peerloom as pl
from peerloom.runs import RunFolder
from peerloom.runtime import ProcessFacts, prepare_process

mkl = pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="this torch has no MKL")


def python(code, **environment):
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MKL_CBWR", "OMP_NUM_THREADS")
    }
    made = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(made, env=kept | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_imports_change_nothing_of_the_process():
    """Neither of the package nor of any of its public names."""
    code = """
import json, os, signal, sys, warnings
import networkx, scipy.sparse.linalg, scipy.special  # these change filters of warnings
import torch

def look():
    scheduler = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else None
    handlers = [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    threads = [torch.get_num_threads(), torch.get_num_interop_threads()]
    state = [threads, str(torch.get_default_dtype()), torch.initial_seed()]
    warned = [str(warnings.filters), str(warnings.showwarning)]
    return [dict(os.environ), list(sys.path), scheduler, state, handlers, warned]

before = look()
import peerloom
assert look() == before, "peerloom"
for name in peerloom.__all__:
    getattr(peerloom, name)
    assert look() == before, name
import peerloom.peers.federation, peerloom.runs.pool, peerloom.bench
assert look() == before, "rooms"
from peerloom.runtime import keep_freed_memory
assert not keep_freed_memory.cache_info().currsize
print(json.dumps("quiet"))
"""
    assert python(code) == "quiet"


def test_the_check_of_imports_sees_what_an_import_sets(tmp_path):
    """The same comparison, with a module that does what the package once did."""
    (tmp_path / "loud.py").write_text("import os\nos.environ.setdefault('MKL_CBWR', 'AUTO')\n")
    code = (
        "import json, os\nbefore = dict(os.environ)\nimport loud\n"
        "print(json.dumps(dict(os.environ) == before))"
    )
    assert python(code, PYTHONPATH=str(tmp_path)) is False


ASK = """
import json, warnings
import peerloom
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    facts = peerloom.prepare_process(threads={threads})
print(json.dumps([facts._asdict(), [str(one.message) for one in said]]))
"""
MULTIPLY = "import torch\na = torch.ones(64, 64)\na @ a\n"


@pytest.mark.slow
@mkl
def test_sums_in_a_fixed_order_are_asked_for_in_time():
    for before in ("", "import torch\n"):
        facts, said = python(before + ASK.format(threads=1))
        assert facts["mkl_cbwr"] == "AUTO"
        assert facts["fixed_order"] is True
        assert facts["threads"] == 1
        assert not said
    facts, said = python(MULTIPLY + ASK.format(threads=1), MKL_CBWR="AUTO")
    assert (facts["fixed_order"], said) == (True, [])


@pytest.mark.slow
@mkl
def test_torch_that_has_computed_before_is_noticed():
    processors = Path("/proc/cpuinfo")
    intel = processors.exists() and "GenuineIntel" in processors.read_text()
    facts, said = python(MULTIPLY + ASK.format(threads=None))
    assert facts["fixed_order"] is False
    assert len(said) == (0 if intel else 1)
    assert all("AMD" in text and "prepare_process" in text for text in said)


@pytest.mark.slow
def test_a_setting_of_the_user_is_kept():
    facts, said = python(ASK.format(threads=2), MKL_CBWR="COMPATIBLE")
    assert (facts["mkl_cbwr"], facts["fixed_order"], facts["threads"], said) == (
        "COMPATIBLE",
        None,
        2,
        [],
    )


def test_a_run_stores_the_settings_of_its_process(tmp_path):
    exp = pl.Experiment(
        pl.graphs.ring(3), pl.testing.random_quadratic(3, 2), pl.rules.DGD(0.1), rounds=2
    )
    pl.simulate(exp, out=tmp_path)
    assert ProcessFacts(**RunFolder(tmp_path).info()["process"]) == prepare_process()


def test_asking_for_the_settings_of_the_process_changes_none():
    before = torch.get_num_threads()
    assert prepare_process(keep_memory=False).threads == before


BLOCKS = """
import json, os
import torch
from torch import nn
import peerloom as pl
from peerloom.runtime import simulation

def in_the_heap(nbytes):
    block = torch.empty(nbytes, dtype=torch.uint8)
    with open("/proc/self/maps") as maps:
        heap = [line.split()[0] for line in maps if line.rstrip().endswith("[heap]")]
    ends = [[int(end, 16) for end in each.split("-")] for each in heap]
    return any(low <= block.data_ptr() < high for low, high in ends)

width = int(os.environ["WIDTH"])
task = pl.problems.Task(
    lambda: nn.Linear(width, 1025, bias=False), lambda model, batch: model(batch).mean(),
    lambda i: torch.ones(2, width),
)
simulation(pl.Experiment(pl.graphs.complete(2), task, pl.rules.DGD(0.1), rounds=1))
print(json.dumps([in_the_heap(1 << 20), in_the_heap(40 << 20)]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
@pytest.mark.parametrize(("width", "kept"), [(8, [True, True]), (8192, [True, False])])
def test_only_runs_whose_rows_are_large_hand_large_blocks_back(width, kept):
    assert python(BLOCKS, WIDTH=str(width)) == kept

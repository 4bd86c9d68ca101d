"""Settings that all tests share."""

import itertools
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# On tensors this small a second thread costs more than it brings. Set before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests compute with torch before an engine could ask for this; see peerloom.prepare_process.
os.environ.setdefault("MKL_CBWR", "AUTO")

# What needs a framework is collected only where that is installed: see `tests/environments.py`.
_NEEDED = {"hosts/in_flower/*": "flwr", "language/in_peft/*": "peft"}
collect_ignore_glob = [tests for tests, package in _NEEDED.items() if not find_spec(package)]

# Data sets and the papers' texts may lie beside the repository.
_BESIDE = Path(__file__).parents[2] / "shared"
for _name, _folder in {"PEERLOOM_DATA": "data", "PEERLOOM_PAPERS": "papers"}.items():
    if (_BESIDE / _folder).is_dir():
        os.environ.setdefault(_name, str(_BESIDE / _folder))

# The same examples on every run: a failure that is seen once is seen again.
settings.register_profile(
    "peerloom",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("peerloom")


@pytest.fixture(scope="session")
def cifar10_root(tmp_path_factory):
    """A folder with CIFAR-10 in both of its forms, restored from the lossless pack.

    Takes four seconds and 354 MB.
    """
    pack = Path(os.environ.get("PEERLOOM_DATA", "nowhere")) / "cifar10-lossless"
    script = pack.parent / "unpack_cifar10.py"
    if not (pack.is_dir() and script.is_file() and find_spec("PIL")):
        pytest.skip("the pack of CIFAR-10 is not on this machine, or Pillow is not installed")
    root = tmp_path_factory.mktemp("cifar10")
    subprocess.run(
        [sys.executable, script, pack, root, "--bin"], check=True, stdout=subprocess.DEVNULL
    )
    yield root
    for file in root.glob("*/*"):
        file.unlink()


@pytest.fixture(scope="session")
def identities(tmp_path_factory):
    """Keys for the rows of a small federation.

    They are the same in every session: a network in memory takes peers in the order of their ids,
    and what it draws for them can then be repeated.
    """
    from cryptography.hazmat.primitives.asymmetric import ec

    from peerloom.transport import Identity

    folder, numbers = tmp_path_factory.mktemp("keys"), itertools.count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ec, "generate_private_key", lambda curve: ec.derive_private_key(next(numbers), curve)
        )
        return [Identity.create(folder / str(k)) for k in range(9)]


@pytest.fixture(autouse=True)
def _path_of_imports(monkeypatch):
    """What a test adds to the path of imports goes with it."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def small_threads(monkeypatch):
    """Processes that a test starts compute with one thread each."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

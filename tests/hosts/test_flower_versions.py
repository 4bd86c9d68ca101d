"""The tests of `in_flower`, run in an environment of its own for each version of Flower."""

import subprocess

import pytest

from peerloom.core import ConfigError
from peerloom.hosts import FlowerApp
from tests.flower_environments import ROOT, VERSIONS, python_of, why_missing

pytestmark = pytest.mark.slow  # starts processes, or runs for long


@pytest.mark.parametrize("version", VERSIONS)
def test_flower_apps_run_under_this_version(version):
    if missing := why_missing(version):
        pytest.skip(missing)
    # Flower's own packages warn of each other.
    words = ["-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning"]
    words += ["-m", "", "tests/hosts/in_flower"]
    done = subprocess.run(
        [python_of(version), *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " skipped" not in done.stdout


def test_without_flower_one_sentence_says_what_to_install():
    with pytest.raises(
        ConfigError, match=r"needs the package flwr.*pip install 'peerloom\[flower\]'"
    ):
        FlowerApp(None, list)

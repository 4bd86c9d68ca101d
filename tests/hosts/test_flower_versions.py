"""The tests of `in_flower`, run in an environment of its own for each version of Flower."""

import pytest

from peerloom.core import ConfigError
from peerloom.hosts import FlowerApp
from tests.environments import named, run_tests

pytestmark = pytest.mark.slow  # starts processes, or runs for long


@pytest.mark.parametrize("flower", named("flower"))
def test_flower_apps_run_under_this_version(flower):
    run_tests(flower, "tests/hosts/in_flower")


def test_without_flower_one_sentence_says_what_to_install():
    with pytest.raises(
        ConfigError, match=r"needs the package flwr.*pip install 'peerloom\[flower\]'"
    ):
        FlowerApp(None, list)

"""The tests of `in_peft`, run in an environment of its own; what is said where PEFT is missing."""

from importlib.util import find_spec

import pytest

from peerloom.core import ConfigError
from peerloom.language import Transformer, with_adapters, write_adapter
from tests.environments import named, run_tests

pytestmark = pytest.mark.slow  # starts processes, or runs for long


@pytest.mark.parametrize("peft", named("peft"))
def test_adapters_are_trained_with_this_version(peft):
    run_tests(peft, "tests/language/in_peft")


@pytest.mark.skipif(find_spec("peft") is not None, reason="PEFT is installed")
def test_without_peft_one_sentence_says_what_to_install(tmp_path):
    said = r"needs the package peft.*pip install 'peerloom\[peft\]'"
    with pytest.raises(ConfigError, match=f"LoRA {said}"):
        with_adapters(Transformer(4, 8), ("q",))
    with pytest.raises(ConfigError, match=f"An export for PEFT {said}"):
        write_adapter(None, tmp_path)

"""The examples run as their page says."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from peerloom.config import comparison_from, read_file
from tests.builders import needs_data
from tests.environments import named, python_of, why_missing

pytestmark = pytest.mark.slow  # starts processes, or runs for long

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (EXAMPLES / "README.md").read_text()


def run(command, folder, *more, python=sys.executable):
    """Run a command of the page, from the repository's folder where the page has it run."""
    assert f"`{command}`" in PAGE
    words = [*command.replace("examples/", f"{EXAMPLES}/").split(), *more]
    if words[0] == "peerloom" and python != sys.executable:
        words[:1] = [python, "-m", "peerloom"]  # other environments have no such script
    environment = {**os.environ, "PATH": f"{Path(python).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def four_free_ports():
    """The first of four neighbouring ports that nothing listens on."""
    for first in range(20_000 + os.getpid() % 5000, 40_000, 10):
        sockets = [socket.socket() for _ in range(4)]
        try:
            for k, one in enumerate(sockets):
                one.bind(("127.0.0.1", first + k))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    pytest.fail("no four neighbouring ports are free")


def test_every_example_is_on_the_page():
    names = {
        path.name for path in EXAMPLES.iterdir() if path.name not in ("README.md", "__pycache__")
    }
    assert names == set(re.findall(r"^\| \[([\w.]+)\]", PAGE, flags=re.M))


def test_the_first_run_ends_with_a_report(tmp_path):
    said = run(
        "peerloom run examples/first_run.toml", tmp_path, "--set", "rounds=60", "--out", "out"
    )
    assert "DSpodFL" in said
    assert (tmp_path / "out" / "report.html").exists()


def test_optimizers_that_talk_seldom_reach_as_much(tmp_path):
    said = run("peerloom run examples/optimizers.toml", tmp_path, "--set", "seeds=[1]")
    rows = re.findall(r"│ (\w+) +│ +1 │ +(\d+) │ +([\d.]+) % │.*│ +([\d.]+) (\w)B │", said)
    found = {
        name: (int(rounds), float(accuracy), float(sent) * {"M": 1, "G": 1000}[unit])
        for name, rounds, accuracy, sent, unit in rows
    }
    assert list(found) == ["DSGT", "LocalAdamW", "DiLoCo", "NoLoCo"]
    assert all(accuracy > 92 for _, accuracy, _ in found.values())
    megabytes = [sent for *_, sent in found.values()]
    assert megabytes == sorted(megabytes, reverse=True)
    assert found["DSGT"][2] > 30 * found["NoLoCo"][2]


@needs_data("tinyshakespeare")
def test_a_language_model_is_learnt_for_fewer_bytes(tmp_path):
    said = run("peerloom run examples/language.toml", tmp_path, "--out", "out", "--json")
    found = {one["label"]: one["figures"] for one in json.loads(said)["final"]}
    assert list(found) == ["DSpodFL", "DSGT", "LocalAdamW", "NoLoCo"]
    perplexity, sent = (
        [one[name]["median"] for one in found.values()] for name in ("mean_perplexity", "bytes")
    )
    assert max(perplexity) < 24  # a guess by the letters' frequencies has 28
    assert max(perplexity[2:]) < min(perplexity[:2])
    assert sent[1] > sent[0] > 9 * sent[2] > 30 * sent[3]
    assert "perplexity, averaged model" in (tmp_path / "out" / "report.html").read_text()


@needs_data("tinyshakespeare")
def test_the_long_form_is_the_same_comparison():
    forms = [
        comparison_from(read_file(EXAMPLES / f"{name}.toml")).experiments
        for name in ("language", "language_long")
    ]
    for short, long in zip(*forms, strict=True):
        assert type(short.algorithm) is type(long.algorithm)
        assert long.rounds == 20 * short.rounds
        assert long.problem.n > 3 * short.problem.n


def test_the_own_rule_passes_the_contract_and_learns(tmp_path):
    said = run("python examples/own_rule.py", tmp_path)
    found = dict(re.findall(r"(\w+): accuracy ([\d.]+)", said))
    assert float(found["Momentum"]) > float(found["DGD"]) > 0.3


def test_the_own_rule_is_that_of_the_documents():
    body = re.search(r"    lr: float.*?\n\n\nif", (EXAMPLES / "own_rule.py").read_text(), re.S)[
        0
    ].removesuffix("\n\n\nif")
    code = re.sub(r'\n {8}""".*?"""', "", body)
    assert code in (ROOT / "docs" / "new-algorithm.md").read_text()


def test_a_loss_of_ones_own_is_learnt_together(tmp_path):
    said = run("python examples/own_loss.py", tmp_path)
    found = {
        name: tuple(map(float, numbers))
        for name, *numbers in re.findall(
            r"(\w+): loss ([\d.]+), below the line ([\d.]+) where empty, ([\d.]+) where full", said
        )
    }
    assert found["together"][0] < found["alone"][0] / 3
    assert min(found["together"][1:]) > 0.75
    assert min(found["alone"][1:]) < 0.5  # sites that never saw full hours


def test_a_loop_of_ones_own_learns_what_its_clients_do_not_know_alone(tmp_path):
    said = run("python examples/own_loop.py", tmp_path)
    found = {name: float(error) for name, error in re.findall(r"(\w+): error ([\d.]+)", said)}
    assert max(found["DSpodFL"], found["SpodGT"]) < found["before"] / 5


def test_two_peers_train_by_scripts_of_their_own(tmp_path):
    said = run("sh examples/two_peers_own_loop/run.sh", tmp_path, "two", str(four_free_ports()))
    errors = [float(error) for error in re.findall(r"error over all ages ([\d.]+)", said)]
    assert len(errors) == 2
    assert max(errors) < 0.1
    assert said.count("round 120 of 120, as one tensor 'x'") == 2


@pytest.mark.parametrize("flower", named("flower"))
def test_a_flower_app_learns_together_what_its_clients_do_not_know_alone(flower, tmp_path):
    if missing := why_missing(flower):
        pytest.skip(missing)
    said = run("python examples/flower_app.py", tmp_path, python=python_of(flower))
    found = {
        name: tuple(map(float, numbers))
        for name, *numbers in re.findall(r"(\w+): error ([\d.]+) -> ([\d.]+)", said)
    }
    assert found["together"][1] < found["alone"][1] / 3 < found["alone"][0] / 6


def test_the_segmentation_runs_and_shows_its_metric(tmp_path):
    said = run(
        "peerloom --path examples/ run examples/segmentation.toml",
        tmp_path,
        "--out",
        "out",
        "--json",
    )
    for one in json.loads(said)["final"]:
        assert one["figures"]["mean_iou"]["median"] > 0.6
    page = (tmp_path / "out" / "report.html").read_text()
    assert "iou of own models, mean" in page
    assert "iou, averaged model" in page


@pytest.mark.parametrize("peft", named("peft"))
@needs_data("tinyshakespeare")
def test_adapters_are_tuned_as_well_as_with_all_data_in_one_place(peft, tmp_path, monkeypatch):
    if missing := why_missing(peft):
        pytest.skip(missing)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    python = python_of(peft)
    run("python examples/lora.py pretrain", tmp_path, "--steps", "300", python=python)
    said = run("python examples/lora.py compare", tmp_path, python=python)
    found = {
        name: tuple(map(float, numbers))
        for name, *numbers in re.findall(r"(\w+): held-out loss ([\d.]+) -> ([\d.]+)", said)
    }
    assert found["apart"][1] < 1.03 * found["pooled"][1] < 0.7 * found["pooled"][0]
    assert float(re.search(r"misses ([\d.e-]+) of the mean adapter", said)[1]) < 0.01
    words = ("--set", "rounds=2", "--out", "out")
    run("peerloom --path examples/ run examples/lora.toml", tmp_path, *words, python=python)
    assert (tmp_path / "out" / "report.html").exists()


def test_three_sites_train_and_export_their_models(tmp_path):
    said = run("sh examples/three_sites/run.sh", tmp_path, "sites", str(four_free_ports()))
    for site in ("north", "south", "west"):
        assert f"{site} end: round 200, done" in (tmp_path / "sites" / site / "log").read_text()
        assert (tmp_path / "sites" / site / "model.safetensors").stat().st_size > 16
    assert said.count("4 parameters") == 3

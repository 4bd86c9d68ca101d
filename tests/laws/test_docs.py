"""What the documents show works as shown."""

import pkgutil
import re
import sys
import tomllib
from pathlib import Path

import pytest

import peerloom as pl
from peerloom import core
from peerloom.config import comparison_from
from peerloom.core import Port
from peerloom.datasets import CATALOGUE, locate
from peerloom.language.text import TEXTS
from peerloom.measures import DIAGNOSTICS, METRICS, OWN, TRAINING
from peerloom.problems import DATA
from peerloom.registry import build, signature

ROOT = Path(__file__).parents[2]


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / path).read_text(), flags=re.M | re.S)


def test_the_skeleton_of_a_new_algorithm_works(tmp_path, monkeypatch):
    rule, check = blocks("docs/new-algorithm.md", "python")
    (tmp_path / "mine.py").write_text(rule)
    monkeypatch.syspath_prepend(tmp_path)
    exec(compile(check, "new-algorithm.md", "exec"), {})
    table, rate = map(tomllib.loads, blocks("docs/new-algorithm.md", "toml"))
    table["algorithms"][1] |= rate
    table |= {"rounds": 30, "seeds": [1]}
    for exp in comparison_from(table).experiments:
        result = pl.simulate(exp)
        assert result.metrics["mean_loss"][-1] < result.metrics["mean_loss"][0]
    sys.modules.pop("mine", None)


def test_the_files_of_the_page_on_data_run(tmp_path, monkeypatch):
    (own,) = blocks("docs/data.md", "python")
    (tmp_path / "mine.py").write_text(own)
    monkeypatch.syspath_prepend(tmp_path)
    named, hospitals, mine = map(tomllib.loads, blocks("docs/data.md", "toml"))
    for table in (hospitals, mine) if locate(CATALOGUE["heart-disease"]) else (mine,):
        (exp,) = comparison_from(table | {"rounds": 30}).experiments
        result = pl.simulate(exp)
        assert result.metrics["mean_loss"][-1] < result.metrics["mean_loss"][0]
    if locate(CATALOGUE["fashion-mnist"]):
        assert build("problems", named["problem"], "problem").n == 7850
    sys.modules.pop("mine", None)


def test_the_task_of_the_page_on_training_learns(capsys):
    task, several = blocks("docs/training.md", "python")
    names = {}
    exec(compile(task, "training.md", "exec"), names)
    before, after = map(float, re.findall(r"[\d.]+", capsys.readouterr().out))
    assert after < before / 2
    exec(compile(several, "training.md", "exec"), names)
    exp = pl.Experiment(pl.graphs.ring(3), names["problem"], pl.rules.DGD(lr=0.5), rounds=40)
    found = pl.simulate(exp).metrics["mean_all_right"]
    assert found[-1] > found[0] + 0.3


def test_the_language_model_of_the_page_learns(capsys):
    (code,) = blocks("docs/language-models.md", "python")
    exec(compile(code, "language-models.md", "exec"), {})
    before, after = map(float, re.findall(r"[\d.]+", capsys.readouterr().out))
    assert before > 15
    assert after < 5


def test_the_page_on_training_names_every_setting_of_a_task():
    text = (ROOT / "docs" / "training.md").read_text()
    for name in signature(pl.problems.Task):
        assert re.search(rf"`{name}\b", text), name


def test_the_loop_of_the_page_on_loops_learns_and_repeats_itself(capsys):
    loop, *_, check, _, _ = blocks("docs/own-loop.md", "python")
    names = {}
    exec(compile(loop, "own-loop.md", "exec"), names)
    assert float(capsys.readouterr().out) < 0.2
    exec(compile(check, "own-loop.md", "exec"), names)


def test_the_page_on_flower_names_every_setting_of_an_app():
    text = (ROOT / "docs" / "flower.md").read_text()
    for name in signature(pl.hosts.FlowerApp):
        assert f"`{name}`" in text, name


def test_the_page_on_data_names_every_public_data_set():
    text = (ROOT / "docs" / "data.md").read_text()
    for name, source in CATALOGUE.items():
        assert f"| `{name}` |" in text
        assert name in {*DATA, *TEXTS}
        assert set(source.needs) <= set(CATALOGUE)


def test_the_example_of_the_readme_runs(capsys):
    (code,) = blocks("README.md", "python")
    assert len(code.strip().splitlines()) <= 15
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_the_readme_has_two_commands_on_its_first_screen():
    first = (ROOT / "README.md").read_text().split("\n## ")[0]
    assert re.findall(r"^make \w+", first, flags=re.M) == ["make run", "make test"]


PAGES = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path):
    for target, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", path.read_text()):
        if "://" not in target:
            page = path.parent / target if target else path
            assert page.exists(), target
            assert not heading or heading in headings(page), f"{target}#{heading}"


def promises(page):
    """The rows of all tables of a section of promises: their last cells."""
    section = (ROOT / page).read_text().split("\n## What is promised\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [row.rpartition(" | ")[2] for row in rows if not row.endswith("| tests |")]


@pytest.mark.parametrize("page", ["docs/security.md", "docs/reliability.md"])
def test_every_promise_names_tests_that_exist(page):
    cells = promises(page)
    assert len(cells) > 10
    for cell in cells:
        files = re.findall(r"`([\w/]+/test_\w+\.py)`", cell)
        assert files, f"{page}: no test in {cell}"
        text = "".join((ROOT / "tests" / name).read_text() for name in files)
        for name in re.findall(r"`(test_\w+)`", cell):
            assert f"def {name}(" in text, f"{page}: none of {files} has {name}"


def headings(path):
    """The headings of a page, as links name them."""
    found = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.M)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in found}


def test_the_glossary_names_things_that_exist():
    text = (ROOT / "docs" / "glossary.md").read_text()
    found = re.findall(r"`(Links|Ledger|Cycle|Every|DFedAvg|Activity)\.(\w+)", text)
    assert found
    for owner, name in found:
        home = (
            getattr(core, owner, None)
            or getattr(pl.schedules, owner, None)
            or getattr(pl.rules, owner)
        )
        assert name in home.__dict__ or name in home.__dataclass_fields__, f"{owner}.{name}"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "papers").glob("*.md")), ids=lambda path: path.stem
)
def test_the_command_of_every_paper_runs(path):
    (text,) = blocks(path.relative_to(ROOT), "toml")
    for exp in comparison_from(tomllib.loads(text) | {"rounds": 4, "seeds": [1]}).experiments:
        assert pl.simulate(exp).finished


def test_the_page_on_metrics_names_every_column():
    text = (ROOT / "docs" / "metrics.md").read_text()
    for name, meaning in (METRICS | DIAGNOSTICS | OWN | TRAINING).items():
        cell = meaning.replace("|", r"\|")  # a bare one would end the cell
        assert f"| `{name}` | {cell} |" in text


def test_the_architecture_page_lists_the_port_and_stays_short():
    text = (ROOT / "docs" / "architecture.md").read_text()
    calls = {name for name in vars(Port) if not name.startswith("_")}
    assert set(re.findall(r"^\| `port\.(\w+)", text, flags=re.M)) == calls
    assert len(re.findall(r"\w[\w'.,-]*", text)) < 2300, (
        "fifteen minutes; the rest belongs on the rooms' pages"
    )


def test_every_room_has_a_page_that_names_files_that_exist():
    pages = {path.stem: path.read_text() for path in (ROOT / "docs" / "rooms").glob("*.md")}
    for room in (
        info.name for info in pkgutil.iter_modules(pl.__path__) if info.name != "__main__"
    ):
        folder = Path(pl.__file__).parent / room
        if not folder.is_dir():
            assert any(f"`{room}`" in text for text in pages.values()), f"no page names {room}"
            continue
        files = re.findall(r"^\|([^|]*\.py`[^|]*)\|", pages[room], flags=re.M)
        for name in re.findall(r"`([\w/]+\.py)`", " ".join(files)):
            assert (folder / name).exists(), f"docs/rooms/{room}.md: there is no {name}"


def test_every_decision_is_listed_and_says_why():
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        text = path.read_text()
        assert f"({path.name})" in index
        assert f"[{text.splitlines()[0].removeprefix('# ').replace('.', '', 1)}]" in index
        assert re.match(r"# \d{3}\. .+\n\n20\d\d-\d\d-\d\d", text)
        assert "**Context.**" in text
        assert "**Decision" in text

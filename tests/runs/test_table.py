"""Tables of named columns: types, rows and back, JSON lines that may be cut short."""

import json
import math
import sys

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import peerloom as pl
from peerloom.core.events import Evaluated, each_round
from peerloom.errors import ConfigError, DataError
from peerloom.runs import RunFolder, Table
from peerloom.runs.table import json_line, read_json_lines, read_parquet

number = st.floats(width=64) | st.none()
row = st.fixed_dictionaries(
    {
        "round": st.integers(-(2**63), 2**63 - 1),
        "loss": number,
        "label": st.text(),
        "clients": st.lists(st.floats(width=64), min_size=3, max_size=3) | st.none(),
    }
)


def test_the_four_types_of_columns():
    table = Table(
        {
            "t": [0, 1],
            "x": [1, None],
            "word": ["a", None],
            "each": [[1, 2], None],
            "none": [None, None],
        }
    )
    assert [table[name].dtype.kind for name in table.columns] == ["i", "f", "O", "f", "f"]
    assert table["each"].tolist()[0] == [1.0, 2.0]
    assert np.isnan(table["each"][1]).all()
    assert np.isnan(table["none"]).all()
    assert table.row(-1, named=False)[0] == table.row(1)["t"] == 1
    with pytest.raises(ValueError, match="different lengths"):
        Table({"a": [1], "b": [1, 2]})
    with pytest.raises(IndexError):
        table.row(2)


@given(st.lists(row))
def test_rows_and_lines_give_the_same_table_back(tmp_path_factory, rows):
    table = Table.of(rows)
    assert len(table) == len(rows)
    assert Table.of(table.rows()).equals(table)
    assert Table.concat([Table.of(rows[:1]), Table.of(rows[1:])]).equals(table)
    assert (Table.of(rows[:-1]).append(rows[-1]) if rows else table).equals(table)
    path = tmp_path_factory.mktemp("table") / "metrics.jsonl"
    path.write_text("".join(map(json_line, rows)), encoding="utf-8")
    assert read_json_lines(path).equals(table)


def test_every_json_reader_takes_the_lines():
    line = json_line(
        {"a": math.inf, "b": -math.inf, "c": math.nan, "d": [1.5, math.nan], "e": "1e999"}
    )

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads(line, parse_constant=refuse) == {
        "a": math.inf, "b": -math.inf, "c": None, "d": [1.5, None], "e": "1e999",
    }  # fmt: skip


def test_a_line_that_was_cut_is_left_out_and_a_broken_one_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    whole = json_line({"round": 0}) + json_line({"round": 5})
    for cut in range(len(whole)):
        path.write_text(whole[:cut])
        assert len(read_json_lines(path)) == whole[:cut].count("\n")
    for broken in ('{"round": 0\n', "[1]\n", '{"round": 0}\n\n'):
        path.write_text(broken)
        with pytest.raises(DataError, match=r"metrics.jsonl cannot be read"):
            read_json_lines(path)


def test_other_libraries_get_the_same_values():
    table = Table(
        {"t": [0, 1], "x": [1.5, None], "word": ["a", "b"], "each": [[1.0, 2.0], [3.0, 4.0]]}
    )
    frame = table.to_polars()
    assert frame["x"].to_list() == [1.5, None]
    assert Table(frame.to_dict(as_series=False)).equals(table)
    assert polars.read_csv(table.drop("each").to_csv().encode()).equals(frame.drop("each"))


@pytest.mark.parametrize(
    ("call", "says"), [("to_polars", "peerloom\\[tables\\]"), ("to_pandas", "pip install pandas")]
)
def test_a_missing_library_is_named_with_its_remedy(call, says, monkeypatch):
    monkeypatch.setitem(sys.modules, call.removeprefix("to_"), None)
    with pytest.raises(ConfigError, match=says):
        getattr(Table({"a": [1]}), call)()


def experiment():
    return pl.Experiment(
        pl.graphs.ring(4),
        pl.testing.random_quadratic(4, 3),
        pl.rules.DGD(0.1),
        rounds=20,
        evaluate=pl.Evaluate(every=3),
    )


def test_a_folder_of_version_0_1_is_read_and_resumed(tmp_path, monkeypatch):
    whole = pl.simulate(experiment()).metrics
    seen = []
    pl.simulate(
        experiment(), out=tmp_path, observers=[each_round(seen.append)], stop=lambda: seen[-1] >= 10
    )
    folder = RunFolder(tmp_path)
    kept = folder.read().metrics
    kept.to_polars().write_parquet(tmp_path / "metrics.parquet")
    (tmp_path / "metrics.jsonl").unlink()
    assert folder.read().metrics.equals(kept)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "polars", None)
        with pytest.raises(
            ConfigError,
            match=r"metrics.parquet, which Peerloom 0.1 wrote, needs the package polars",
        ):
            folder.read()
    rest = pl.simulate(experiment(), out=tmp_path, resume=True).metrics
    assert rest.drop("seconds").equals(whole.drop("seconds"))
    assert folder.read().metrics.equals(rest)
    assert not (tmp_path / "metrics.parquet").exists()
    (tmp_path / "broken.parquet").write_bytes(b"broken")
    with pytest.raises(DataError, match=r"broken.parquet cannot be read"):
        read_parquet(tmp_path / "broken.parquet")


def test_evaluations_can_be_followed_while_a_run_goes_on(tmp_path):
    counts = []

    def follow(event):
        if isinstance(event, Evaluated):
            counts.append((event.t, len(RunFolder(tmp_path).rows())))

    pl.simulate(experiment(), out=tmp_path, observers=[follow])
    assert counts == [(t, k + 1) for k, t in enumerate([*range(0, 20, 3), 20])]

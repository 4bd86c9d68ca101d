"""A site's own samples: what a file says of them, what is refused, what stays the same."""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.config import comparison_from, experiment_to_toml, spec_hash
from peerloom.core import Draws, Placement
from peerloom.errors import ConfigError, DataError
from peerloom.peers.federation import Federation
from peerloom.peers.samples import with_samples
from peerloom.problems.own import fill, own, read_samples
from peerloom.runtime import build_port

FILE = """
rounds = 5
dtype = "float64"
[graph]
name = "ring"
clients = 3
[problem]
name = "Classification"
model = "logistic"
[problem.data]
name = "own"
features = ["age", "pressure"]
classes = 2
label = "ill"
neutral = [50, 130]
scale = [10, 20]
[algorithm]
name = "DSpodFL"
lr = 0.1
"""


def experiment(text=FILE):
    return comparison_from(tomllib.loads(text)).experiments[0]


@pytest.fixture
def csv(tmp_path):
    def write(text):
        path = tmp_path / "patients.csv"
        path.write_text(text)
        return str(path)

    return write


def test_a_csv_becomes_samples_by_constants_of_the_file(csv):
    path = csv("ill,pressure,age,ward\n1,150,60,a\n0,,40,b\n1,110,?,c\n0,130,50,d\n")
    exp = experiment(FILE.replace("scale = [10, 20]", "scale = [10, 20]\ntest = 0.0"))
    data = with_samples(exp, 0, path).problem.data
    assert data.x.tolist() == [[1, 1], [-1, 0], [0, -1], [0, 0]], (
        "columns in the agreed order; missing is neutral"
    )
    assert data.y.tolist() == [1, 0, 1, 0]
    assert data.test_x is None


def test_a_csv_as_spreadsheets_write_it(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_bytes(b'\xef\xbb\xbf"ill","pressure","age"\r\n1," 150 ",60\r\n\r\n0, NA ,"40"\r\n')
    exp = experiment(FILE.replace("scale = [10, 20]", "scale = [10, 20]\ntest = 0.0"))
    data = with_samples(exp, 0, str(path)).problem.data
    assert data.x.tolist() == [[1, 1], [-1, 0]]
    path.write_bytes(b"age,pressure,ill\n60,\xff,1\n")
    with pytest.raises(DataError, match="cannot be read as CSV"):
        with_samples(exp, 0, str(path))


def test_a_share_is_held_out_and_depends_on_the_count_alone(csv):
    place = own(1, 2, label="y", test=0.25)
    lines = "x,y\n" + "".join(f"{k},{k % 2}\n" for k in range(40))
    data = fill(place, read_samples(place, Path(csv(lines))))
    assert (len(data.y), len(data.test_y)) == (30, 10)
    assert sorted([*data.x[:, 0], *data.test_x[:, 0]]) == list(range(40))
    other = fill(place, read_samples(place, Path(csv(lines.replace(",0\n", ",1\n")))))
    assert np.array_equal(other.test_x, data.test_x)


def test_the_hash_knows_the_agreement_and_not_the_samples(csv, tmp_path):
    exp = experiment()
    one = with_samples(exp, 0, csv("age,pressure,ill\n60,150,1\n40,120,0\n"))
    np.savez(tmp_path / "other.npz", x=np.ones((5, 2)), y=np.array([0, 1, 1, 1, 0]))
    two = with_samples(exp, 1, str(tmp_path / "other.npz"))
    assert spec_hash(one) == spec_hash(two) == spec_hash(exp)
    assert spec_hash(experiment(experiment_to_toml(exp))) == spec_hash(exp), (
        "written and read again it is the same"
    )
    assert spec_hash(experiment(FILE.replace("50, 130", "50, 131"))) != spec_hash(exp)


def test_own_data_cannot_be_simulated(tmp_path):
    with pytest.raises(ConfigError, match="start each peer by itself"):
        Federation(experiment(), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    for engine in (pl.simulate, build_port):
        with pytest.raises(ConfigError, match="peer start FILE --data"):
            engine(experiment())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("age,pressure\n60,150\n", "no column 'ill'"),
        ("age,ill\n60,1\n", "no column 'pressure'"),
        ("age,pressure,ill\n60,150,2\n40,120,0\n50,130,1\n50,130,1\n", "2 classes.*such as 2"),
        ("age,pressure,ill\n60,high,1\n", "line 2, column 'pressure': 'high'"),
        ("age,pressure,ill\n60,150,\n", "line 2: the label is missing"),
        (
            "age,pressure,ill\n60,150,1\n1\n",
            "cannot be read as CSV.*line 3 has 1 fields, the header 3",
        ),
        (
            "age,pressure,ill\n60,150,1\n1,2,3,4\n",
            "cannot be read as CSV.*line 3 has 4 fields, the header 3",
        ),
        ('age,pressure,ill\n60,"150,1\n', "cannot be read as CSV.*unexpected end of data"),
        (
            "age,pressure,ill,age\n60,150,1,60\n",
            "cannot be read as CSV.*two columns have the same name",
        ),
        ("", "cannot be read as CSV.*it is empty"),
        ("age,pressure,ill\n60,\x00,1\n", "line 2, column 'pressure'|cannot be read as CSV.*NUL"),
        ('age,pressure,ill\n60,"150\n",1\n\n60,low,1\n', "line 5, column 'pressure': 'low'"),
    ],
)
def test_a_csv_that_does_not_fit_is_refused_in_words(text, says, csv):
    with pytest.raises(DataError, match=says):
        with_samples(experiment(), 0, csv(text))


def test_other_mistakes_are_named(csv, tmp_path, monkeypatch):
    unscaled = FILE.replace("neutral = [50, 130]\nscale = [10, 20]\n", "")
    by_count = unscaled.replace('["age", "pressure"]', "3").replace('label = "ill"\n', "")
    path = csv("a,b,y\n1,2,0\n2,3,1\n")
    with pytest.raises(DataError, match="--label"):
        with_samples(experiment(by_count), 0, path)
    with pytest.raises(DataError, match=r"3 features, but .* has 2 columns"):
        with_samples(experiment(by_count), 0, path, "y")
    with pytest.raises(DataError, match="1 missing values"):
        with_samples(experiment(by_count), 0, csv("a,b,c,y\n1,,2,0\n2,3,3,1\n"), "y")
    np.savez(tmp_path / "bad.npz", x=np.ones((2, 4)), y=np.array([0, 1]))
    with pytest.raises(DataError, match=r"shape \[3\], but those of this site have shape \[4\]"):
        with_samples(experiment(by_count), 0, str(tmp_path / "bad.npz"))
    np.savez(tmp_path / "bad.npz", x=np.array([{}]), y=np.array([0, 1]))
    with pytest.raises(DataError, match="plain numbers"):
        with_samples(experiment(by_count), 0, str(tmp_path / "bad.npz"))
    with pytest.raises(DataError, match="There is no file"):
        with_samples(experiment(), 0, "nowhere.csv")
    with pytest.raises(ConfigError, match=r"Give this site's: --data"):
        with_samples(experiment(), 0, "")
    with pytest.raises(ConfigError, match="names the data itself"):
        with_samples(replace(experiment(), problem=pl.problems.Classification()), 0, path)
    with pytest.raises(ConfigError, match=r"\.csv or \.npz"):
        with_samples(experiment(), 0, "patients")
    with pytest.raises(ConfigError, match="nothing to deal"):
        experiment(
            FILE.replace("[algorithm]", "[problem.partition]\nname = 'Natural'\n[algorithm]")
        )
    for wrong in (
        "features = 0",
        "features = []",
        "features = ['a', 'a']",
        "features = 2\nscale = [1]",
        "features = [0, 2]",
    ):
        with pytest.raises(ConfigError):
            experiment(unscaled.replace('features = ["age", "pressure"]', wrong))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "site_loader.py").write_text(
        "import numpy as np\nfrom peerloom.problems import Dataset\n"
        "def arrays():\n    return np.ones((4, 2)), [0, 1, 1, 0]\n"
        "def whole():\n    return Dataset.of(*arrays(), *arrays())\n"
        "def wrong():\n    return 3\n"
    )
    assert with_samples(experiment(), 0, "site_loader:arrays").problem.data.y.tolist() == [
        0,
        1,
        1,
        0,
    ]
    assert len(with_samples(experiment(), 0, "site_loader:whole").problem.data.test_y) == 4
    with pytest.raises(DataError, match="gave int"):
        with_samples(experiment(), 0, "site_loader:wrong")
    with pytest.raises(ConfigError, match="cannot be imported"):
        with_samples(experiment(), 0, "site_loader:nothing")
    with pytest.raises(ConfigError, match="--label names a column"):
        with_samples(experiment(), 0, "site_loader:arrays", "ill")


def test_targets_of_a_regression_are_read_as_real_numbers(csv):
    text = FILE.replace("logistic", "least_squares").replace("classes = 2", "classes = 0")
    data = with_samples(
        experiment(text), 0, csv("age,pressure,ill\n60,150,1.5\n40,120,-2\n")
    ).problem.data
    assert data.y.dtype == np.float64


@pytest.mark.parametrize("batch", [4, "all"])
def test_a_site_computes_what_a_simulation_of_all_data_computes_there(batch):
    """A client's gradients have the same bits whether its samples lie with others or alone."""
    rng = np.random.default_rng(0)
    x, y, owners = (
        rng.normal(size=(30, 2)),
        rng.integers(0, 2, 30),
        np.repeat([0, 1, 2], [5, 10, 15]),
    )
    together = pl.problems.Classification(
        "logistic", pl.problems.Dataset.of(x, y, owners=owners), pl.problems.Natural(), batch
    )
    draws, dtype = Draws(3), torch.float64
    for row in range(3):
        place = Placement(np.array([row]), 3, torch.device("cpu"), dtype)
        mine = fill(own(2, 2), pl.problems.Dataset.of(x[owners == row], y[owners == row]))
        alone = replace(together, data=mine, partition=pl.problems.IID())
        model = torch.from_numpy(rng.normal(size=(1, 3)))
        grads = [p.bind(place, draws).grad(model, np.array([0]), t=7) for p in (together, alone)]
        assert torch.equal(*grads)


def test_a_hub_needs_no_samples():
    rule = pl.rules.MLLSGD(lr=0.1)
    graph = pl.testing.graph_for(rule)
    for data in (pl.problems.digits(), own(64, 10)):
        exp = pl.Experiment(graph, pl.problems.Classification("softmax", data), rule, rounds=2)
        build_port(with_samples(exp, graph.rows - 1, ""), np.array([graph.rows - 1]))
    with pytest.raises(ConfigError, match="hubs have no data"):
        with_samples(exp, graph.rows - 1, "x.csv")

"""Experiment files: read to experiments, refused with a clear reason, written back."""

import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import tomli_w
import torch

import peerloom as pl
from peerloom.config import (
    comparison_from,
    experiment_to_table,
    experiment_to_toml,
    override,
    read_file,
)
from peerloom.errors import ConfigError
from peerloom.registry import KINDS, build, describe
from peerloom.runs import RunFolder

SMALL = """
rounds = 5
seeds = [1, 2]
dtype = "float64"
[graph]
name = "ring"
clients = 4
[schedule]
name = "Bernoulli"
nodes = 0.5
links = { name = "Beta", a = 0.5, b = 0.5 }
[problem]
name = "Classification"
model = "svm"
data = "digits"
partition = { name = "Labels", per_client = 2 }
batch = 4
[[algorithms]]
name = "DSpodFL"
lr = 0.1
[[algorithms]]
name = "DGD"
lr = { name = "InverseSqrt", start = 0.1, gamma = 10.0 }
label = "slower and slower"
schedule = "Always"
rounds = 3
"""


def small(*settings):
    return comparison_from(override(tomllib.loads(SMALL), settings))


def test_an_algorithm_may_be_judged_in_rounds_of_its_own():
    found = small("evaluate.every=2", "algorithms.1.evaluate={every=3}").experiments
    assert {exp.name: exp.evaluate.every for exp in found} == {"DSpodFL": 2, "slower and slower": 3}


def test_every_algorithm_runs_with_every_seed():
    found = [(exp.name, exp.seed, exp.rounds) for exp in small().experiments]
    assert found == [
        ("DSpodFL", 1, 5),
        ("slower and slower", 1, 3),
        ("DSpodFL", 2, 5),
        ("slower and slower", 2, 3),
    ]


def test_an_own_schedule_leaves_the_resources_as_the_file_has_them():
    own = small().experiments[1]
    assert isinstance(own.schedule, pl.schedules.Always)
    assert isinstance(own.resources, pl.schedules.Bernoulli)


def test_the_seed_reaches_random_graphs_that_name_none():
    graphs = [
        exp.graph for exp in small('graph={name="geometric", clients=6, radius=0.5}').experiments
    ]
    assert graphs[0].recipe["seed"] == 1
    assert not np.array_equal(graphs[0].positions, graphs[2].positions)
    fixed = [
        exp.graph
        for exp in small('graph={name="geometric", clients=6, radius=0.5, seed=9}').experiments
    ]
    assert np.array_equal(fixed[0].positions, fixed[2].positions)


def test_an_experiment_written_to_a_file_runs_to_the_same_bits():
    for exp in small().experiments:
        again = comparison_from(tomllib.loads(experiment_to_toml(exp))).experiments[0]
        assert torch.equal(pl.simulate(again).x, pl.simulate(exp).x)
        assert experiment_to_table(again) == experiment_to_table(exp)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("graphs", pl.graphs.grid(2, 3)),
        ("graphs", pl.graphs.from_edges(3, [(0, 1), (2, 1)], directed=True)),
        ("graphs", pl.graphs.from_matrix([[0.5, 0.5], [0.5, 0.5]])),
        (
            "schedules",
            pl.schedules.Cycle(resources=pl.schedules.Bernoulli(pl.laws.Uniform(0.2, 0.9))),
        ),
        ("schedules", pl.schedules.Explicit(nodes=np.ones((3, 2), bool))),
        (
            "problems",
            pl.problems.Quadratic(np.eye(2)[None], np.ones((1, 2)), h=pl.problems.MCP(0.1, 3.0)),
        ),
        (
            "problems",
            pl.problems.Classification(pl.problems.MLP((8,)), partition=pl.problems.Dirichlet(0.3)),
        ),
        ("algorithms", pl.rules.DFedAvg(pl.rates.Pieces((0.1, 0.01), (1, 50)), rounding="floor")),
    ],
)
def test_parts_survive_the_way_to_a_file_and_back(kind, part):
    said = describe(part)
    assert describe(build(kind, tomllib.loads(_toml(said))["part"], "here")) == said


def _toml(part):
    return tomli_w.dumps({"part": part})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("graph.radus=3", "graph.radus: 'ring' has no such key.*Known: clients"),
        ("graph.name=rng", "graph: there is no 'rng' among the graphs. Did you mean 'ring'"),
        ("graph.clients=four", "graph.clients: 'four' is not allowed. It must be a whole number"),
        ("graph.clients=2.5", "graph.clients: 2.5 is not allowed. It must be a whole number"),
        ("graph.clients=true", "graph.clients: True is not allowed. It must be a whole number"),
        ("graph.clients=1979-05-27", "graph.clients: .* is not allowed. It must be a whole number"),
        ("graph.clients=1", "graph: A graph of 1 clients was asked for; it needs at least 2"),
        ("roundz=3", "roundz: a file has no such key. Did you mean 'rounds'"),
        ("rounds=many", "rounds: 'many' is not allowed. It must be a whole number"),
        ("rounds=-1", "rounds must not be negative"),
        ("dtype=float16", "dtype must be 'float32' or 'float64'"),
        (
            "problem.modle=svm",
            "problem.modle: 'Classification' has no such key. Did you mean 'model'",
        ),
        ("problem.model=smv", "there is no 'smv' among the models. Did you mean 'svm'"),
        ("problem.batch=0", "batch must be at least 1"),
        (
            "problem.strategy=fast",
            (
                "problem.strategy: 'fast' is not allowed. "
                "It must be 'auto', 'closed', 'vmap' or 'loop'"
            ),
        ),
        ("problem.partition={name='Labels', per=1}", "Known: compat, per_client"),
        ("problem.partition=BySize", "'BySize' needs sizes"),
        ("schedule.links={name='Bata', a=1, b=1}", "Did you mean 'Beta'"),
        ("schedule.nodes=1.5", "probabilities from 0 to 1"),
        ("algorithms.DSpodFL.lr=-1", "lr must be a number above 0"),
        ("algorithms.DSpodFL.rl=1", "algorithms.DSpodFL.rl: .*Known: lr"),
        ("algorithms.DSpod.lr=1", "no entry 'DSpod'. Did you mean 'DSpodFL'"),
        ("algorithms=[]", "one algorithm at least"),
        ("algorithms.1.label=DSpodFL", "same name"),
        ("evaluate.evry=3", "give every = N"),
        ("evaluate.closely=3", "evaluate.closely: 3 is not allowed. It must be true or false"),
        ("evaluate.last=some", "evaluate.last: 'some' is not allowed"),
        ("evaluate.last=-1", "evaluate.last must be at least 0 rounds, found -1"),
        ("evaluate.grid=linear", "evaluate.grid: 'linear' is not allowed. It must be 'log'"),
        ("seeds=[1, 1]", "different whole numbers"),
        ("until_delay=soon", "until_delay: 'soon' is not allowed"),
        (
            "graph={name='directed_ring', clients=4}",
            "DSpodFL needs symmetric links, but graph 'directed_ring' is directed",
        ),
        ("rounds.x=5", "there is nothing below 5|has no key 'x'"),
        ("algorithms.lr=0.1", "has no key 'lr'"),
        ("rounds.a.b=1", "there is nothing below 5"),
        ("algorithms=[5]", "5 is neither a name nor a table"),
        (
            "algorithms.0.lr=fast",
            "'fast' is not allowed. It must be a number or a name or table of one of the rates",
        ),
        (
            "algorithms.0.lr=[0.1]",
            "lr: \\[0.1\\] is not allowed. It must be a number or a name or table",
        ),
        (
            "algorithms.0.lr={start=0.1}",
            "algorithms.DSpodFL.lr: needs a name.* Known rates: Cosine, InverseSqrt, Pieces, War",
        ),
        (
            "algorithms.0.lr=InverseSqrt",
            "algorithms.DSpodFL.lr: 'InverseSqrt' needs start and gamma",
        ),
        (
            "schedule.nodes=often",
            (
                "'often' is not allowed.* a number, a list of numbers or "
                "a name or table of one of the laws"
            ),
        ),
        (
            "schedule.compat=['xor']",
            "schedule.compat: \\['xor'\\] is not allowed. It must be a list of 'or' or 'latch'",
        ),
        (
            "schedule={name='Split', nodes={name='Beta', a=1, b=1}}",
            "schedule.nodes: there is no 'Beta' among the schedules",
        ),
        (
            "schedule={name='Cycle', resources=7}",
            "It must be a name or table of one of the schedules",
        ),
        (
            "problem.batch=half",
            (
                "problem.batch: 'half' is not allowed. "
                "It must be a whole number, 'all' or a list of whole numbers"
            ),
        ),
        (
            "problem.model=7",
            (
                "problem.model: 7 is not allowed. "
                "It must be a string or a name or table of one of the models"
            ),
        ),
        (
            "problem.model={name='mlp', hidden=[8, 2.5]}",
            "hidden: .* is not allowed. It must be a list of whole numbers",
        ),
        ("problem.h=5", "a name or table of one of the regularisers"),
        ("problem.partition=5", "a name or table of one of the partitions"),
        (
            "problem.data=5",
            "problem.data: 5 is not allowed. It must be a name or table of one of the data",
        ),
        ("x0=zeros", "x0 must be numbers"),
        (
            "graph={name='from_edges', n=4, edges=[['a', 1]]}",
            "pairs \\(source, target\\) of whole numbers",
        ),
        ("graph={name='from_edges', n=4, edges=[[0]]}", "pairs \\(source, target\\)"),
        ("graph={name='grid', height=-2, width=-2}", "at least 1"),
        (
            "problem.h={name='L1', lam=0.1}",
            "DSpodFL takes no proximal step, so it would not see the regulariser",
        ),
        ("algorithms.0.name=nowhere:Rule", "'nowhere:Rule' cannot be imported"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(settings, said):
    with pytest.raises(ConfigError, match=said):
        small(settings).experiments[0].start([0])


def test_missing_parts_are_named():
    for key in ("graph", "problem"):
        table = tomllib.loads(SMALL)
        del table[key]
        with pytest.raises(ConfigError, match=rf"no \[{key}\]"):
            comparison_from(table)


def test_a_file_that_is_not_there_or_not_toml(tmp_path):
    with pytest.raises(ConfigError, match="There is no file"):
        read_file(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("rounds = = 3")
    with pytest.raises(ConfigError, match=r"bad.toml is not valid TOML.*line 1"):
        read_file(tmp_path / "bad.toml")


def test_your_own_rule_and_model_by_module_and_name(tmp_path, monkeypatch):
    (tmp_path / "own_parts.py").write_text(
        "from dataclasses import dataclass\n"
        "from torch import nn\n"
        "from peerloom.rules import DSpodFL\n"
        "@dataclass(frozen=True)\n"
        "class Rule:\n"
        "    lr: float\n"
        "    needs = DSpodFL.needs\n"
        "    init, step = DSpodFL.init, DSpodFL.step\n"
        "def model():\n"
        "    return nn.Linear(64, 10)\n"
    )
    with pytest.raises(ConfigError, match="cannot be imported"):
        small("algorithms.0.name=own_parts:Rule")
    monkeypatch.syspath_prepend(tmp_path)
    exp = small("algorithms.0.name=own_parts:Rule", "problem.model=own_parts:model").experiments[0]
    assert type(exp.algorithm).__name__ == "Rule"
    assert exp.problem.n == 650
    assert experiment_to_table(exp)["algorithm"] == {"name": "own_parts:Rule", "lr": 0.1}
    assert experiment_to_table(exp)["problem"]["model"] == "own_parts:model"


def test_what_lives_in_memory_only_says_so(tmp_path):
    data = pl.problems.Dataset.of(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1])
    exp = small().experiments[0]
    exp = replace(exp, graph=pl.graphs.ring(4), problem=pl.problems.Classification("softmax", data))
    result = pl.simulate(exp, out=tmp_path)  # kept all the same, with the fingerprint of the arrays
    assert torch.equal(pl.simulate(exp, out=tmp_path, resume=True).x, result.x)
    with pytest.raises(ConfigError, match="arrays in memory"):
        RunFolder(tmp_path).experiment()
    with pytest.raises(ConfigError, match="no module that can be imported"):
        describe(lambda: None)
    other = pl.problems.Dataset.of(np.ones((4, 2)), [0, 1, 0, 1])
    with pytest.raises(ConfigError, match="another experiment"):
        pl.simulate(
            replace(exp, problem=pl.problems.Classification("softmax", other)),
            out=tmp_path,
            resume=True,
        )


def test_your_own_data_and_a_model_with_arguments_by_module_and_name(tmp_path, monkeypatch):
    (tmp_path / "own_data.py").write_text(
        "import numpy as np\n"
        "from torch import nn\n"
        "from peerloom.problems import Dataset\n"
        "def load(samples=20):\n"
        "    x = np.arange(samples * 3.0).reshape(-1, 3) % 7\n"
        "    return Dataset.of(x, np.arange(samples) % 2)\n"
        "class Net(nn.Sequential):\n"
        "    def __init__(self, width):\n"
        "        super().__init__(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    table = tomllib.loads(SMALL)
    table["problem"] = {
        "name": "Classification",
        "data": {"name": "own_data:load", "samples": 40},
        "model": {"name": "own_data:Net", "width": 5},
    }
    exp = comparison_from(table).experiments[0]
    assert exp.problem.n == 3 * 5 + 5 + 5 * 2 + 2
    again = comparison_from(experiment_to_table(exp)).experiments[0]
    assert torch.equal(pl.simulate(exp).x, pl.simulate(again).x)


def test_the_full_batch_survives_the_way_to_a_file():
    exp = small("problem.batch=all").experiments[0]
    assert exp.problem.batch == pl.problems.Classification(batch=None).batch == "all"
    again = comparison_from(experiment_to_table(exp)).experiments[0]
    assert torch.equal(pl.simulate(exp).x, pl.simulate(again).x)


def test_every_name_of_a_registry_is_the_part_of_that_name():
    for kind, parts in KINDS.items():
        assert list(parts) == sorted(parts, key=str), f"{kind} is not in order"
        for name, part in parts.items():
            assert callable(part), f"{kind}.{name}"


def test_the_built_in_example_is_a_valid_file():
    example = Path(str(files("peerloom") / "examples" / "dspodfl.toml"))
    comparison = comparison_from(read_file(example))
    assert len(comparison.experiments) == 15
    assert {exp.name for exp in comparison.experiments} == {
        "DSpodFL",
        "DGD",
        "RandomizedGossip",
        "SporadicSGD",
        "DFedAvg",
    }


def test_set_reaches_into_lists_by_number_and_refuses_a_name_that_is_two():
    assert [exp.seed for exp in small("seeds.0=5").experiments] == [5, 5, 2, 2]
    table = tomllib.loads(SMALL)
    table["algorithms"][1]["name"] = "DSpodFL"
    with pytest.raises(ConfigError, match="names 2 entries"):
        override(table, ["algorithms.DSpodFL.lr=1"])


def test_a_graph_made_of_a_graph_in_a_file():
    rule = {"name": "SpodGT", "lr": [0.1, 0.1, 0.1, 0.2]}
    table = tomllib.loads(SMALL) | {"algorithms": [rule]}
    table["graph"] = {"name": "two_way", "graph": {"name": "ring", "clients": 4}}
    exp = comparison_from(table).experiments[0]
    again = comparison_from(experiment_to_table(exp)).experiments[0]
    assert again.graph.directed
    assert again.algorithm.lr == (0.1, 0.1, 0.1, 0.2)
    assert torch.equal(pl.simulate(exp).x, pl.simulate(again).x)


def test_a_list_in_a_file_may_hold_parts_beside_numbers():
    """A step size per client: numbers, and rates by their tables."""
    text = """
    [[algorithms]]
    name = "SpodGT"
    lr = [0.1, { name = "InverseSqrt", start = 0.2, gamma = 5.0 }, 1, 0.3]
    """
    table = tomllib.loads(SMALL) | tomllib.loads(text)
    exp = comparison_from(table).experiments[0]
    assert exp.algorithm.lr == (0.1, pl.rates.InverseSqrt(0.2, 5.0), 1.0, 0.3)
    again = comparison_from(tomllib.loads(experiment_to_toml(exp))).experiments[0]
    assert again.algorithm == exp.algorithm
    assert torch.equal(pl.simulate(exp).x, pl.simulate(again).x)
    for lr, said in (
        ('["fast"]', r"SpodGT.lr.0: 'fast' is not allowed.* a number or .* one of the rates"),
        ('[{ name = "InverseSqr", start = 1 }]', r"lr.0: there is no 'InverseSqr' among the rates"),
        ("true", r"lr: True is not allowed. It must be a number, a list of numbers or a name or"),
        ("[0.1, 0.1]", "SpodGT.lr has 2 entries for 4 clients. Give one for each"),
        ("[]", "SpodGT.lr must be a number above 0"),
    ):
        with pytest.raises(ConfigError, match=said):
            comparison_from(override(table, [f"algorithms.0.lr={lr}"]))


def test_an_algorithm_may_have_a_graph_of_its_own_and_inner_graphs_follow_the_seed():
    table = {
        "rounds": 2,
        "until_settled": 0.5,
        "seeds": [1, 2],
        "graph": {"name": "two_way", "graph": {"name": "geometric", "clients": 6, "radius": 0.5}},
        "problem": {"name": "Classification", "model": "softmax"},
        "algorithms": [
            {"name": "SpodGT", "lr": 0.1},
            {
                "name": "SpodGT",
                "lr": 0.1,
                "label": "ring",
                "graph": {"name": "directed_ring", "clients": 6},
            },
        ],
    }
    first, own, second, _ = comparison_from(table).experiments
    assert (first.graph.name, own.graph.name) == ("two_way", "directed_ring")
    assert not np.array_equal(first.graph.positions, second.graph.positions)
    (again,) = comparison_from(tomllib.loads(experiment_to_toml(second))).experiments
    assert np.array_equal(again.graph.positions, second.graph.positions)
    assert again.until_settled == 0.5

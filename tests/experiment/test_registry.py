"""Every registered name makes its part from a file, and is written back unchanged."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import tomli_w
from numpy.typing import ArrayLike

from peerloom.arguments import MismatchError, allowed, alternatives, fitted, hints_of
from peerloom.core import Rate
from peerloom.errors import ConfigError, DataError
from peerloom.registry import KIND_OF, KINDS, build, describe, signature
from peerloom.schedules.distributions import Distribution

# Arguments that have no default, by their names.
NEEDED = {
    "A": [[[1.0, 0.0], [0.0, 2.0]]] * 2,
    "D": 3,
    "K": 2,
    "W": [[0.5, 0.5], [0.5, 0.5]],
    "a": 0.5,
    "alpha": 0.1,
    "b": 0.5,
    "beta": 0.5,
    "classes": 3,
    "clients": 6,
    "degree": 2,
    "edges": [[0, 1], [0, 2], [1, 2]],
    "eta": 0.5,
    "features": 4,
    "first": [[0, 2]],
    "fraction": 0.5,
    "gamma": 0.5,
    "graph": {"name": "ring", "clients": 4},
    "height": 2,
    "hi": 1.0,
    "hub_graph": {"name": "ring", "clients": 3},
    "kappa": 2,
    "lam": 0.1,
    "data": "tests.tasks:Points",
    "lo": -1.0,
    "loss": "tests.tasks:loss",
    "lr": {"name": "InverseSqrt", "start": 0.1, "gamma": 10.0},
    "mean": 0.5,
    "model": {"name": "tests.tasks:net", "dropout": 0.3},
    "mean1": 0.2,
    "mean2": 0.8,
    "modulus": 0.7,
    "n": 3,
    "nodes": 0.5,
    "of": {"name": "digits", "test": 0.2},
    "p": 0.6,
    "per_client": 2,
    "q": 2,
    "radius": 0.6,
    "rates": [0.1, 0.01],
    "rewire": 0.2,
    "rho": 0.01,
    "rounds": 10,
    "rule": {"name": "DSGT", "lr": 0.1, "form": 6},
    "run": "somewhere",
    "s": 2,
    "samples": 30,
    "share": 0.5,
    "shares": [1.0, 2.0],
    "sigma": 0.5,
    "sizes": [1.0, 2.0],
    "start": 0.1,
    "starts": [1, 5],
    "std": 0.1,
    "T0": 2,
    "tau": 2,
    "then": {"name": "Cosine", "start": 0.1, "rounds": 10, "end": 0.01},
    "theta": 3.0,
    "width": 3,
    "word": 4,
    "workers": [2, 2, 2],
}
# Where a name means something else, or is needed in spite of its default.
OTHERS = {("problems", "Quadratic", "b"): [[1.0, 2.0]] * 2, ("schedules", "Cycle", "D"): 3}
NAMED = [(kind, name) for kind, parts in KINDS.items() for name in parts]


def example(kind, name):
    needed = {}
    for key, p in signature(KINDS[kind][name]).items():
        if p.default is p.empty or (kind, name, key) in OTHERS:
            needed[key] = OTHERS.get((kind, name, key), NEEDED[key])
            if key == "lr" and Rate not in alternatives(hints_of(KINDS[kind][name])["lr"]):
                needed[key] = 0.1
    return {"name": name, **needed}


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_every_name_is_made_from_a_file_and_written_back(kind, name):
    given = example(kind, name)
    try:
        part = build(kind, tomllib.loads(tomli_w.dumps(given)), "here")
    except DataError:
        pytest.skip("its files are not on this machine")
    said = describe(part)
    if kind != "models":  # a model's name may stand for another with an argument
        assert said["name"] == name
    assert {key: said[key] for key in given if key != "name"} == {
        key: given[key] for key in given if key != "name"
    }
    again = build(kind, tomllib.loads(tomli_w.dumps(said)), "here")
    assert type(again) is type(part)
    assert describe(again) == said


def test_every_kind_of_part_has_a_type_and_a_registry():
    assert sorted(KIND_OF.values()) == sorted(KINDS)


def test_every_argument_of_every_part_has_a_type_that_can_be_checked():
    for kind, name in NAMED:
        hints = hints_of(KINDS[kind][name])
        for key in signature(KINDS[kind][name]):
            types = alternatives(hints[key])
            assert allowed(types) or any(one in KIND_OF for one in types), (
                f"{kind}.{name}.{key}: {hints[key]}"
            )


@pytest.mark.parametrize(
    ("value", "hint", "found"),
    [
        (1, float, 1.0),
        (1, int, 1),
        (float("inf"), float, float("inf")),
        ([1, 2], tuple[float, ...], (1.0, 2.0)),
        ([1, "a"], tuple[int, str], (1, "a")),
        ([], tuple[int, ...], ()),
        ([[1], [2, 3]], Sequence[Sequence[int]], [[1], [2, 3]]),
        ([1, "x"], Iterable[int], [1, "x"]),
        ("b", Literal["a", "b"], "b"),
        (["b"], tuple[Literal["a", "b"], ...], ("b",)),
        (8, Literal[6, 8], 8),
        ([[True, False]], ArrayLike, [[True, False]]),
        (0.5, float | ArrayLike | Distribution, 0.5),
        ({"a": [1]}, dict[str, list[int]], {"a": [1]}),
        ({"a": 1}, Any, {"a": 1}),
        (["a"], int | tuple[int, ...] | tuple[str, ...], ("a",)),
        (True, bool, True),
    ],
)
def test_values_that_fit_become_what_the_annotation_asks_for(value, hint, found):
    made = fitted(value, hint)
    assert made == found
    assert type(made) is type(found)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("1", float), ("1", int), (True, int), (True, float), (1, bool), (1.0, int), (1, str),
        (None, int), ([1, 2.5], tuple[int, ...]), ([1], tuple[int, int]), (1, tuple[int, ...]),
        ("ab", tuple[str, ...]), ("c", Literal["a", "b"]), (True, Literal[1]), (1.0, Literal[1]),
        ("x", ArrayLike), ([["x"]], ArrayLike), ({"a": 1}, ArrayLike), ({"a": "b"}, dict[str, int]),
        ([1], dict[str, int]), ("x", float | ArrayLike | Distribution), ({}, Rate),
        (1, Rate | None),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused(value, hint):
    with pytest.raises(MismatchError):
        fitted(value, hint)


@dataclass(frozen=True)
class Own:
    """A part of somebody else's, with arguments of two kinds that may be parts."""

    either: "float | Distribution | Rate" = 1.0
    thing: "range | None" = None


def test_a_part_is_of_the_kind_that_the_annotation_names(monkeypatch):
    monkeypatch.setitem(KINDS["schedules"], "Own", Own)

    def made(**given):
        return build("schedules", {"name": "Own"} | given, "here")

    assert type(made(either={"name": "Uniform"}).either).__name__ == "Uniform"
    assert type(made(either="Uniform").either).__name__ == "Uniform"
    assert made(either={"name": "InverseSqrt", "start": 1, "gamma": 2}).either.at(1) == 1.0
    assert made(either=2).either == 2.0
    with pytest.raises(
        ConfigError, match="a number, a name or table of one of the laws or a name or table"
    ):
        made(either="often")
    with pytest.raises(ConfigError, match=r"here.thing: 3 is not allowed. Leave it out"):
        made(thing=3)


def test_annotations_that_name_what_is_not_imported_are_named(monkeypatch):
    def own(value: "Nowhere"):  # noqa: F821
        return value

    monkeypatch.setitem(KINDS["data"], "own2", own)
    with pytest.raises(
        ConfigError, match=r"annotations of .*own cannot be read: name 'Nowhere' is not defined"
    ):
        build("data", {"name": "own2", "value": 3}, "here")

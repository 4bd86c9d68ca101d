"""Experiment files: TOML to experiments and back. One file drives every command."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from .core import ConfigError, Network, Problem, nearest
from .experiment import Evaluate, Experiment
from .registry import build, describe
from .schedules import Measured

__all__ = [
    "Comparison", "comparison_from", "experiment_to_toml", "override", "parse", "read_bytes",
    "read_file", "spec_hash", "table_hash",
]  # fmt: skip

Table = dict[str, Any]

# Every key of a file, and what it is for.
KEYS: dict[str, str] = {
    "title": "what the comparison is called",
    "rounds": "rounds of every run",
    "until_delay": "end a run once this delay (as run) is reached",
    "until_settled": "end a run once the last three evaluations of f(mean of x) deviate less than "
    "this (PaME's rule)",
    "seed": "one seed",
    "seeds": "several seeds: each algorithm runs once with each",
    "dtype": "float32 or float64",
    "x0": "the first model, a list of numbers; by default the problem's own",
    "graph": "who may talk to whom",
    "schedule": "who computes and which links fire",
    "resources": "how able clients and links are; by default the schedule, "
    "'measured': found out by peers",
    "message": "what a link carries",
    "problem": "what is minimised",
    "evaluate": "when models are judged: every = N, or grid = 'log'; last = N for each of the last "
    "N rounds as well; closely = true for more about a rule's directions, train = true for the "
    "training loss",
    "algorithm": "one algorithm",
    "algorithms": "several, to compare; each may have a label, a graph, a schedule, a message, "
    "rounds and evaluations of its own",
}
# What an algorithm's table may hold beside its arguments.
_OWN = ("label", "graph", "schedule", "message", "rounds", "evaluate")


@dataclass(frozen=True)
class Comparison:
    """Several experiments that share data and resources.

    Those of one seed also share the graph, unless one has its own.
    """

    title: str
    experiments: tuple[Experiment, ...]


def read_bytes(path: Path) -> bytes:
    """The bytes of an experiment file, not looked at yet."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(
            f"There is no file {path}. Give the path of an experiment file; "
            "`peerloom run` alone runs an example."
        ) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


def parse(data: bytes, source: object) -> Table:
    """The table of a TOML file's bytes, or an error that says where it is wrong."""
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source} cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}.") from error


def read_file(path: Path) -> Table:
    """The table of a TOML file."""
    return parse(read_bytes(path), path)


def override(table: Table, settings: Iterable[str]) -> Table:
    """Put settings `a.b=value` into a copy of the table, as `--set` does.

    Values are read as TOML, and as text where they are not valid TOML.

    >>> override({"graph": {"radius": 0.4}}, ["graph.radius=0.6"])
    {'graph': {'radius': 0.6}}
    """
    table = _copy(table)
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise ConfigError(
                f"--set {setting}: write a.b=value, such as graph.radius=0.6 "
                "or algorithms.DGD.lr=0.1."
            )
        *parents, last = path.split(".")
        at: Any = table
        for depth, key in enumerate(parents):
            at = _enter(at, key, ".".join(parents[: depth + 1]))
        if isinstance(at, list) and last.isdigit() and int(last) < len(at):
            at[int(last)] = _value(text)
        elif isinstance(at, dict):
            at[last] = _value(text)
        else:
            raise ConfigError(
                f"--set {setting}: '{'.'.join(parents)}' has no key '{last}': it is {at!r}."
            )
    return table


def comparison_from(table: Table, name: str = "experiment") -> Comparison:
    """Build all experiments of a file: every algorithm with every seed."""
    for key in table:
        if key not in KEYS:
            raise ConfigError(f"{key}: a file has no such key. {nearest(key, KEYS)}")
    for key in ("graph", "problem"):
        if key not in table:
            raise ConfigError(f"The file has no [{key}], which says {KEYS[key]}. Add one.")
    rules = _rules(table)
    seeds = _seeds(table)
    problem = build("problems", table["problem"], "problem")
    experiments = []
    for seed in seeds:
        graph = build("graphs", table["graph"], "graph", seed=seed)
        shared = _Shared(table, seed, graph, problem)
        experiments += [_experiment(shared, where, rule) for where, rule in rules]
    if len({(exp.name, exp.seed) for exp in experiments}) < len(experiments):
        raise ConfigError(
            'Two of the algorithms have the same name. Give each a label of its own: label = "...".'
        )
    return Comparison(str(table.get("title", name)), tuple(experiments))


class _Shared(NamedTuple):
    """What the experiments of one seed share."""

    table: Table
    seed: int
    graph: Network
    problem: Problem


def _experiment(shared: _Shared, where: str, rule: Table) -> Experiment:
    """Build the experiment of one algorithm, whose table stands at `where` in the file."""
    table, seed = shared.table, shared.seed
    own = {key: rule[key] for key in _OWN if key in rule}
    arguments = {key: value for key, value in rule.items() if key not in _OWN}
    resources = None
    if "resources" in table:
        resources = build("schedules", table["resources"], "resources")
    # Measured resources decide who acts, unless a schedule is given beside them.
    usual = "measured" if isinstance(resources, Measured) else "Always"
    common = schedule = build("schedules", table.get("schedule", usual), "schedule")
    if "schedule" in own:
        schedule = build("schedules", own["schedule"], f"{where}.schedule")
    graph = shared.graph
    if "graph" in own:
        graph = build("graphs", own["graph"], f"{where}.graph", seed=seed)
    return Experiment(
        graph=graph,
        problem=shared.problem,
        algorithm=build("algorithms", arguments, where),
        schedule=schedule,
        message=build("messages", own.get("message", table.get("message", "Dense")), "message"),
        rounds=_number(own.get("rounds", table.get("rounds", 1000)), "rounds", int),
        seed=seed,
        x0=table.get("x0"),
        dtype=table.get("dtype", "float32"),
        evaluate=_evaluate(own.get("evaluate", table.get("evaluate", {}))),
        resources=common if resources is None else resources,
        until_delay=_optional(table, "until_delay"),
        until_settled=_optional(table, "until_settled"),
        label=str(own.get("label", "")),
    )


def experiment_to_table(exp: Experiment) -> Table:
    """One experiment as a file would say it; `comparison_from` makes it again."""
    table: Table = {"rounds": exp.rounds, "seed": exp.seed, "dtype": exp.dtype}
    if exp.until_delay is not None:
        table["until_delay"] = exp.until_delay
    if exp.until_settled is not None:
        table["until_settled"] = exp.until_settled
    if exp.x0 is not None:
        table["x0"] = describe(exp.x0)
    table["graph"] = describe(exp.graph)
    table["problem"] = describe(exp.problem)
    table["schedule"] = describe(exp.schedule)
    if exp.resources is not None and describe(exp.resources) != table["schedule"]:
        table["resources"] = describe(exp.resources)
    table["message"] = describe(exp.message)
    judged = {
        "every": exp.evaluate.every,
        "grid": exp.evaluate.grid,
        "closely": exp.evaluate.closely or None,
        "last": exp.evaluate.last or None,
        "train": exp.evaluate.train or None,
    }
    table["evaluate"] = {key: value for key, value in judged.items() if value is not None}
    table["algorithm"] = describe(exp.algorithm) | ({"label": exp.label} if exp.label else {})
    return table


def experiment_to_toml(exp: Experiment) -> str:
    """One experiment as TOML text."""
    return tomli_w.dumps(experiment_to_table(exp))


def spec_hash(exp: Experiment) -> str:
    """Hash everything that determines a run; peers talk only to peers with the same hash."""
    return table_hash(experiment_to_table(exp))


def table_hash(table: Table) -> str:
    """The hash of an experiment that is given as a table."""
    return hashlib.sha256(tomli_w.dumps(table).encode()).hexdigest()


def _rules(table: Table) -> list[tuple[str, Table]]:
    if ("algorithm" in table) == ("algorithms" in table):
        raise ConfigError(
            "A file has either [algorithm] or several [[algorithms]]. Give one of the two."
        )
    given = [table["algorithm"]] if "algorithm" in table else table["algorithms"]
    if not isinstance(given, list) or not given:
        raise ConfigError(
            "algorithms: give a list of tables, [[algorithms]], with one algorithm at least."
        )
    rules = [{"name": rule} if isinstance(rule, str) else rule for rule in given]
    if strange := [rule for rule in rules if not isinstance(rule, dict)]:
        raise ConfigError(f"algorithms: {strange[0]!r} is neither a name nor a table.")
    single = "algorithm" in table
    return [
        ("algorithm" if single else f"algorithms.{rule.get('name', k)}", rule)
        for k, rule in enumerate(rules)
    ]


def _seeds(table: Table) -> list[int]:
    if "seed" in table and "seeds" in table:
        raise ConfigError("A file has either seed or seeds, not both.")
    seeds = table.get("seeds", [table.get("seed", 0)])
    if not isinstance(seeds, list) or not seeds or len(set(map(repr, seeds))) < len(seeds):
        raise ConfigError(f"seeds: give a list of different whole numbers, found {seeds!r}.")
    return [_number(seed, "seed", int) for seed in seeds]


def _evaluate(given: object) -> Evaluate:
    known = {"every", "grid", "closely", "last", "train"}
    if not isinstance(given, dict) or set(given) - known:
        raise ConfigError(
            'evaluate: give every = N or grid = "log", and last = N, closely = true or train = '
            f"true if wanted; found {given!r}."
        )
    if given.get("grid") not in (None, "log"):
        raise ConfigError(f"evaluate.grid: {given['grid']!r} is not allowed. It must be 'log'.")
    every = None if "every" not in given else _number(given["every"], "evaluate.every", int)
    for name in ("closely", "train"):
        if not isinstance(given.get(name, False), bool):
            raise ConfigError(
                f"evaluate.{name}: {given[name]!r} is not allowed. It must be true or false."
            )
    last = _number(given.get("last", 0), "evaluate.last", int)
    more = {name: given.get(name, False) for name in ("closely", "train")}
    return Evaluate(every, given.get("grid"), last=last, **more)


def _number(value: object, where: str, kind: type) -> Any:
    allowed = (int,) if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        wanted = "whole number" if kind is int else "number"
        raise ConfigError(f"{where}: {value!r} is not allowed. It must be a {wanted}.")
    return kind(value)


def _optional(table: Table, key: str) -> float | None:
    return _number(table[key], key, float) if key in table else None


def _enter(at: Any, key: str, path: str) -> Any:
    """One level down, into a table, or into a list by number or by an entry's name."""
    if isinstance(at, list):
        tables = [entry for entry in at if isinstance(entry, dict)]
        named = [entry for entry in tables if key in (entry.get("name"), entry.get("label"))]
        found = [at[int(key)]] if key.isdigit() and int(key) < len(at) else named
        if len(found) == 1:
            return found[0]
        names = [str(entry.get("label", entry.get("name"))) for entry in tables]
        problem = f"there is no entry '{key}'"
        if found:
            problem = f"'{key}' names {len(found)} entries; use its number or label"
        raise ConfigError(f"--set {path}: {problem}. {nearest(key, names)}")
    if not isinstance(at, dict):
        raise ConfigError(f"--set {path}: there is nothing below {at!r}.")
    if isinstance(at.get(key), str):
        at[key] = {"name": at[key]}
    return at.setdefault(key, {})


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(entry) for key, entry in value.items()}
    return [_copy(entry) for entry in value] if isinstance(value, list) else value

"""The experiment of a peer: read from its file, signed, and refused where it does not fit."""

from __future__ import annotations

from pathlib import Path

from ..code import Loader, loading_code_by
from ..config import comparison_from, parse, read_bytes, spec_hash
from ..errors import ConfigError
from ..experiment import Experiment
from ..runtime import trace
from ..transport import Home, Roster

__all__ = [
    "check_deadline",
    "check_enough",
    "check_free",
    "check_roster",
    "only_experiment",
    "run_folder",
    "signed_experiment",
]


def only_experiment(file: Path, data: bytes | None = None) -> Experiment:
    """The experiment of a file, or of its bytes, that holds exactly one."""
    found = comparison_from(
        parse(read_bytes(file) if data is None else data, file), file.stem
    ).experiments
    if len(found) != 1:
        raise ConfigError(
            f"{file} holds {len(found)} runs (algorithms times seeds), and peers run one. Write a "
            "file with one algorithm and one seed; `peerloom up` takes them one after the other."
        )
    return found[0]


def signed_experiment(home: Home, file: Path, code: Loader) -> Experiment:
    """Return the experiment of a file that the founder signed; `code` loads what it names.

    A run that began before the founder signed the next experiment may go on: the roster with which
    it began names it.
    """
    data, roster = read_bytes(file), home.roster
    began = (path.read_bytes() for path in sorted(home.state.glob("*/began.json")))
    if not (
        roster.signs(data)
        or any(Roster.from_bytes(known, roster.founder).signs(data) for known in began)
    ):
        roster.check_file(data, file)
    with loading_code_by(code):
        return only_experiment(file, data)


def run_folder(home: Home, exp: Experiment) -> Path:
    """Where a peer keeps this run: every experiment has a folder of its own."""
    return home.state / spec_hash(exp)[:16]


def check_roster(roster: Roster, exp: Experiment) -> None:
    """Refuse a roster whose members, links or experiment are not those of `exp`."""
    members, graph = roster.members, exp.graph
    if roster.spec and roster.spec != spec_hash(exp):
        raise ConfigError(
            f"The founder signed experiment {roster.spec[:12]} in the roster, but this file is "
            f"{spec_hash(exp)[:12]}. Take the file that was agreed on (`peerloom peer kit open` "
            "brings it), or ask the founder to sign this one."
        )
    if len(members) != graph.rows:
        raise ConfigError(
            f"The experiment has {graph.rows} rows, but the roster {len(members)} members."
        )
    ids = [member.id for member in members]
    wanted = {
        (ids[source], ids[target], layer)
        for layer, links in graph.layers.items()
        for source, target in zip(links.src, links.dst, strict=True)
    }
    if wanted != {(link.source, link.target, link.layer) for link in roster.links}:
        raise ConfigError(
            "The links of the roster are not those of the experiment's graph. The founder sets "
            "them with `peerloom peer roster graph FILE` and sends the roster to all."
        )


def check_deadline(exp: Experiment, deadline: float | None) -> None:
    """Refuse to go on without those who are late under a rule that cannot bear it."""
    needs = exp.algorithm.needs
    bears = needs.links == "any" and ("part" in needs.accepts or needs.keeps_mean)
    if deadline is not None and not bears:
        raise ConfigError(
            f"{type(exp.algorithm).__name__} needs every message of every round, and cannot go on "
            "without those who are late. Leave the deadline out, or use DSpodFL, SpodGT, "
            "Depositum, MLLSGD or PaME."
        )


def check_enough(enough: float | None, deadline: float | None, free: bool) -> None:
    """Refuse to go on with the first neighbours where that makes no sense."""
    if enough is None:
        return
    if not 0 < enough <= 1:
        raise ConfigError(f"--enough must be a share above 0 and at most 1, found {enough:g}.")
    if free:
        raise ConfigError(
            f"--enough {enough:g} would have no effect: with --free peers wait for nobody. Leave "
            "one of the two out."
        )
    if deadline is None:
        raise ConfigError(
            f"--enough {enough:g} says with how many neighbours a round goes on before its "
            "deadline, and there is none. Give --deadline SECONDS, too."
        )


def check_free(exp: Experiment) -> None:
    """Refuse to wait for nobody under a rule, a graph or a message that cannot bear it."""
    needs, name = exp.algorithm.needs, type(exp.algorithm).__name__
    if needs.links != "any":
        raise ConfigError(
            f"{name} needs every message of every round: its peers must wait for each other. Leave "
            "--free out."
        )
    if trace(exp.algorithm).draws:
        raise ConfigError(
            f"{name} draws numbers that all rows of a round have alike, but peers that wait for "
            "nobody are in different rounds. Leave --free out."
        )
    if exp.message.fit not in ("whole", "rounded"):
        raise ConfigError(
            f"Where peers wait for nobody rows travel whole, so {exp.message!r} cannot be used. "
            "Use Dense."
        )

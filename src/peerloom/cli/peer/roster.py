"""`peerloom peer roster`: who takes part, and which links there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..console import err, show
from ..options import Json
from .shared import (
    HERE,
    Folder,
    changed,
    document_of,
    founder_of,
    members_table,
    read,
    show_unwrapped,
    summary,
)

__all__ = ["roster_app"]

roster_app = typer.Typer(
    help="See and change who takes part and which links there are.", no_args_is_help=True
)


@roster_app.command("show")
def roster_show(folder: Folder = HERE, as_json: Json = False) -> None:
    """Who takes part, with ids, addresses and links."""
    from ...transport import Home

    roster = Home.open(folder).roster
    show(document_of(roster), members_table(roster), as_json)


@roster_app.command("add")
def roster_add(
    request: Annotated[
        Path,
        typer.Argument(help="The file that a newcomer made with 'peer join TOKEN --request FILE'."),
    ],
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Accept a join request that came as a file (founder only)."""
    from ...transport import Home

    home = Home.open(folder)
    home.check_asked()  # before the invitation is used up
    changed(home, home.invitations.accept(home.identity, home.roster, read(request)), as_json)


@roster_app.command("remove")
def roster_remove(
    member: Annotated[str, typer.Argument(help="Name or id.")],
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Remove a member (founder only). Running peers close its links at once.

    They go on without it, or say why they cannot.
    """
    from ...transport import Home

    home = Home.open(folder)
    changed(home, home.roster.without_member(home.identity, member), as_json)


@roster_app.command("link")
def roster_link(
    source: Annotated[str, typer.Argument(help="Who sends: name or id.")],
    target: Annotated[str, typer.Argument(help="Who receives.")],
    a: Annotated[float, typer.Option(min=0, help="The receiver's weight, for pulling.")] = 0.0,
    b: Annotated[float, typer.Option(min=0, help="The sender's weight, for pushing.")] = 0.0,
    both: Annotated[
        bool, typer.Option("--both", help="Both directions, with the same weights.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the link away instead.")] = False,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Set one link for the next run, or remove one, also for the run under way (founder only).

    Setting a link begins a new epoch.
    """
    from ...transport import Home, Link

    home = Home.open(folder)
    roster = home.roster
    one, other = roster.member(source).id, roster.member(target).id
    pairs = {(one, other), (other, one)} if both else {(one, other)}
    if remove:
        changed(home, roster.without_links(home.identity, pairs), as_json)
    else:
        links = [link for link in roster.links if (link.source, link.target) not in pairs]
        links += [Link(*pair, a, b) for pair in sorted(pairs)]
        changed(home, roster.with_links(home.identity, links), as_json)


@roster_app.command("graph")
def roster_graph(
    file: Annotated[
        Path,
        typer.Argument(
            help="An experiment file; its graph must have as many rows as there are members."
        ),
    ],
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Agree on an experiment (founder only): its links, its weights and its file's hash.

    Member i becomes row i, and a new epoch begins.
    """
    import hashlib

    from ...config import spec_hash
    from ...errors import ConfigError
    from ...peers.experiments import only_experiment
    from ...transport import Home, Link

    home = Home.open(folder)
    data = read(file)
    roster, exp = home.roster, only_experiment(file, data)
    graph = exp.graph
    if graph.rows != len(roster.members):
        raise ConfigError(
            f"The graph of {file} has {graph.rows} rows, but the roster has {len(roster.members)} "
            "members. Invite the rest, or change the graph."
        )
    ids = [member.id for member in roster.members]
    links = [
        Link(ids[source], ids[target], float(a), float(b), layer)
        for layer, part in graph.layers.items()
        for source, target, a, b in zip(part.src, part.dst, part.a, part.b, strict=True)
    ]
    agreed: dict[str, Any] = {
        "links": tuple(links),
        "spec": spec_hash(exp),
        "file": hashlib.sha256(data).hexdigest(),
    }
    changed(home, roster.amended(home.identity, **agreed, new_epoch=True), as_json)


@roster_app.command("save")
def roster_save(
    file: Annotated[Path, typer.Argument(help="Where to write it.")],
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Write the signed roster to a file for others."""
    from ...transport import Home
    from ...transport.files import write_whole

    roster = Home.open(folder).roster
    write_whole(file, roster.to_bytes())
    show_unwrapped(
        {"file": str(file), **summary(roster)},
        f"Version {roster.version} of the roster: {file}",
        as_json,
    )


@roster_app.command("take")
def roster_take(
    file: Annotated[Path, typer.Argument(help="A roster that the founder saved.")],
    founder: Annotated[
        str, typer.Option(metavar="ID", help="The founder's id, the first time.")
    ] = "",
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Accept a roster from a file, if the founder signed it and it is newer than the one here."""
    from ...transport import Home, Roster, read_id

    home = Home.open(folder)
    before = home.roster.version if home.founder else 0
    roster = Roster.from_bytes(read(file), founder_of(home, read_id(founder) if founder else ""))
    home = home.trust(roster)
    if roster.version >= before:
        home.asked()  # the operator brought it
    else:
        err.print(
            f"{file} has version {roster.version} of the roster, which is older than the one here: "
            "nothing was changed.",
            highlight=False,
            soft_wrap=True,
            markup=False,
        )
    show(document_of(home.roster), members_table(home.roster), as_json)

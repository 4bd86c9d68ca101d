"""`peerloom peer`: identities, invitations, rosters and kits. Each command works on one folder and without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from .app import Json, err, out, show

if TYPE_CHECKING:
    from ..transport import Home, Roster

__all__ = ["peer_app"]

peer_app = typer.Typer(
    help="Peers on real machines: identity, membership, and what a site needs to join.", no_args_is_help=True
)
roster_app = typer.Typer(help="See and change who takes part and which links there are.", no_args_is_help=True)
kit_app = typer.Typer(
    help="Hand everything a site needs over as one file; private keys are never in it.", no_args_is_help=True
)
peer_app.add_typer(roster_app, name="roster")
peer_app.add_typer(kit_app, name="kit")

Folder = Annotated[Path, typer.Option("--folder", metavar="DIR", help="The folder of this peer.")]
HERE = Path("peer")


@peer_app.command()
def init(
    name: Annotated[str, typer.Argument(help="What others call this peer, for example hospital-b.")],
    address: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="Where others reach this peer; may be repeated.")
    ] = None,
    found: Annotated[
        bool, typer.Option("--found", help="Also found a federation, with this peer as its first member.")
    ] = False,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Make this peer's key. It stays in the folder, readable by you only."""
    from ..transport import Home

    home = Home.create(folder, name, tuple(address or ()), found)
    facts = {**_identity(home), "founded": found}
    first = "Invite others: peerloom peer invite" if found else "Join a federation: peerloom peer join TOKEN"
    _say(facts, f"{name} is\n  {facts['spelled']}\nKey: {home.identity.key_file}\n{first}", as_json)


@peer_app.command()
def invite(
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where the newcomer reaches this desk. By default what --listen says.")
    ] = "",
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Wait here for the newcomer. Without it the answer comes as a file.")
    ] = "",
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for the newcomer.")] = 600.0,
    hours: Annotated[float, typer.Option(min=0.01, help="How long the invitation is good for.")] = 48.0,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Make an invitation for one newcomer: one line to hand over by a way you trust. It works once."""
    from ..transport import Home, JoinDesk
    from ..transport.roster import parse_address

    home = Home.open(folder)
    book = home.invitations
    invitation = book.invite(home.identity, address or listen, hours)
    token = invitation.token()
    if not listen:
        after = "The newcomer runs: peerloom peer join TOKEN --request FILE\nThen here: peerloom peer roster add FILE"
        _say({"token": token, "expires": invitation.expires}, f"{token}\n{after}", as_json)
        return
    err.print(token, highlight=False, soft_wrap=True)
    err.print(f"Waiting on {listen} for {wait:.0f} s ...", highlight=False)

    def accept(data: bytes) -> Roster:
        roster = book.accept(home.identity, home.roster, data)
        home.trust(roster)
        return roster

    desk = JoinDesk(home.identity, parse_address(listen))
    try:
        roster = desk.serve(accept, wait, lambda why: err.print(f"refused: {why}", highlight=False, markup=False))
    finally:
        desk.close()
    if roster is None:
        from ..errors import PeerError

        raise PeerError(
            f"Nobody came within {wait:.0f} s. The invitation stays good; wait again, or take the answer as a file."
        )
    newcomer = roster.members[-1]
    text = f"{newcomer.name} is a member now. Compare its id by another way:\n  {_spelled(newcomer.id)}"
    _say({"token": token, "member": newcomer.name, **_summary(roster)}, text, as_json)


@peer_app.command()
def join(
    token: Annotated[str, typer.Argument(help="The line that the founder sent.")],
    request: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the answer to a file for the founder, and take the roster back as a file."),
    ] = None,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Answer an invitation: over the network, or with a file."""
    from ..transport import Home, Invitation, join_online, join_request
    from ..transport.files import write_whole

    home = Home.open(folder)
    invitation = Invitation.read(token)
    answer = join_request(home.identity, invitation, home.name, home.addresses)
    if request is not None:
        write_whole(request, answer)
        after = (
            f"Send {request} to the founder, then: peerloom peer roster take FILE --founder {_spelled(invitation.founder)}"
        )
        _say({"request": str(request), "founder": invitation.founder}, after, as_json)
        return
    home = home.trust(join_online(invitation, answer))
    show({"joined": True, **_summary(home.roster)}, _members(home.roster), as_json)


# -- roster


@roster_app.command("show")
def roster_show(folder: Folder = HERE, as_json: Json = False) -> None:
    """Who takes part, with ids, addresses and links."""
    from ..transport import Home

    roster = Home.open(folder).roster
    show(_document(roster), _members(roster), as_json)


@roster_app.command("add")
def roster_add(
    request: Annotated[Path, typer.Argument(help="The file that a newcomer made with 'peer join TOKEN --request FILE'.")],
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Accept a join request that came as a file (founder only)."""
    from ..transport import Home

    home = Home.open(folder)
    _changed(home, home.invitations.accept(home.identity, home.roster, _read(request)), as_json)


@roster_app.command("remove")
def roster_remove(
    member: Annotated[str, typer.Argument(help="Name or id.")], folder: Folder = HERE, as_json: Json = False
) -> None:
    """Remove a member (founder only): its links close as soon as a neighbour hears of it. A new epoch begins."""
    from ..transport import Home

    home = Home.open(folder)
    _changed(home, home.roster.without_member(home.identity, member), as_json)


@roster_app.command("link")
def roster_link(
    source: Annotated[str, typer.Argument(help="Who sends: name or id.")],
    target: Annotated[str, typer.Argument(help="Who receives.")],
    a: Annotated[float, typer.Option(min=0, help="The receiver's weight, for pulling.")] = 0.0,
    b: Annotated[float, typer.Option(min=0, help="The sender's weight, for pushing.")] = 0.0,
    both: Annotated[bool, typer.Option("--both", help="Both directions, with the same weights.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the link away instead.")] = False,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Set or remove one link (founder only). A new epoch begins."""
    from ..transport import Home, Link

    home = Home.open(folder)
    roster = home.roster
    one, other = roster.member(source).id, roster.member(target).id
    pairs = {(one, other), (other, one)} if both else {(one, other)}
    links = [link for link in roster.links if (link.source, link.target) not in pairs]
    links += [] if remove else [Link(*pair, a, b) for pair in sorted(pairs)]
    _changed(home, roster.with_links(home.identity, links), as_json)


@roster_app.command("graph")
def roster_graph(
    file: Annotated[Path, typer.Argument(help="An experiment file; its graph must have as many rows as there are members.")],
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Agree on an experiment (founder only): its graph's links and weights, member i as row i, and its hash. A new epoch."""
    from ..errors import ConfigError
    from ..peers.row import spec_hash
    from ..peers.start import only_experiment
    from ..transport import Home, Link

    home = Home.open(folder)
    roster, exp = home.roster, only_experiment(file)
    graph = exp.graph
    if graph.rows != len(roster.members):
        raise ConfigError(
            f"The graph of {file} has {graph.rows} rows, but the roster has {len(roster.members)} members. "
            "Invite the rest, or change the graph."
        )
    ids = [member.id for member in roster.members]
    links = [
        Link(ids[source], ids[target], float(a), float(b), layer)
        for layer, part in graph.layers.items()
        for source, target, a, b in zip(part.src, part.dst, part.a, part.b, strict=True)
    ]
    _changed(home, roster.amended(home.identity, links=tuple(links), spec=spec_hash(exp), new_epoch=True), as_json)


@roster_app.command("save")
def roster_save(
    file: Annotated[Path, typer.Argument(help="Where to write it.")], folder: Folder = HERE, as_json: Json = False
) -> None:
    """Write the signed roster to a file for others."""
    from ..transport import Home
    from ..transport.files import write_whole

    roster = Home.open(folder).roster
    write_whole(file, roster.to_bytes())
    _say({"file": str(file), **_summary(roster)}, f"Version {roster.version} of the roster: {file}", as_json)


@roster_app.command("take")
def roster_take(
    file: Annotated[Path, typer.Argument(help="A roster that the founder saved.")],
    founder: Annotated[str, typer.Option(metavar="ID", help="The founder's id, the first time.")] = "",
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Accept a roster from a file, if the founder signed it and it is newer than the one here."""
    from ..transport import Home, Roster, read_id

    home = Home.open(folder)
    roster = Roster.from_bytes(_read(file), _founder(home, read_id(founder) if founder else ""))
    _changed(home, roster, as_json)


# -- kit


@kit_app.command("make")
def kit_make(
    file: Annotated[Path, typer.Argument(help="The archive to write.")],
    experiment: Annotated[Path | None, typer.Option(metavar="FILE", help="The experiment file that all will run.")] = None,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Put roster and experiment into one archive for other sites."""
    from ..transport import Home, write_kit

    home = Home.open(folder)
    write_kit(file, home.kit(None if experiment is None else _read(experiment)))
    _say({"file": str(file), **_summary(home.roster)}, f"Kit: {file}. It holds no private key.", as_json)


@kit_app.command("open")
def kit_open(
    file: Annotated[Path, typer.Argument(help="The archive.")],
    founder: Annotated[str, typer.Option(metavar="ID", help="The founder's id, the first time.")] = "",
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Take roster and experiment out of an archive, if the founder signed the roster."""
    from ..transport import Home, read_id, read_kit
    from ..transport.files import write_whole

    home = Home.open(folder)
    kit = read_kit(file, _founder(home, read_id(founder) if founder else ""))
    home = home.trust(kit.roster)
    if kit.experiment is not None:
        write_whole(folder / "experiment.toml", kit.experiment)
    facts = {"experiment": None if kit.experiment is None else str(folder / "experiment.toml"), **_summary(home.roster)}
    show(facts, _members(home.roster), as_json)


# -- running


@peer_app.command()
def start(
    file: Annotated[Path, typer.Argument(help="The experiment file, the same at every site: one algorithm, one seed.")],
    data: Annotated[
        str,
        typer.Option(
            metavar="SAMPLES", help="This site's samples: a .csv or .npz file, or module:function. They stay here."
        ),
    ] = "",
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="The label's column in a CSV, if the experiment does not name it.")
    ] = "",
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen. By default this peer's first address.")
    ] = "",
    deadline: Annotated[
        float | None,
        typer.Option(min=0.01, help="Seconds to wait for a neighbour in a round; then the round goes on without it."),
    ] = None,
    free: Annotated[
        bool, typer.Option("--free", help="Wait for nobody: use the newest of every neighbour. Must be so at every site.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0.1, help="Seconds that a neighbour may be away before this peer gives up (or goes on).")
    ] = 60.0,
    dead: Annotated[
        float,
        typer.Option(min=0.5, help="Seconds of silence after which a link is given up. 3 suits a LAN, 30 lossy lines."),
    ] = 10.0,
    history: Annotated[bool, typer.Option("--history", help="Keep every event of every link, for the checker.")] = False,
    metrics: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Serve metrics for Prometheus there, on this machine only.")
    ] = "",
    log_json: Annotated[bool, typer.Option("--log-json", help="Say what happens as JSON, one object per line.")] = False,
    folder: Folder = HERE,
) -> None:
    """Train: this peer's row of the experiment, with its neighbours. Started again, it goes on where it was."""
    from ..peers.start import serve
    from ..transport import Settings

    def say(text: str) -> None:
        err.print(text, highlight=False, markup=False, soft_wrap=True)

    code = serve(
        folder, file, data=data, label=label, listen=listen, deadline=deadline, free=free, history=history,
        settings=Settings(wait=wait, dead=dead), metrics=metrics, log_json=log_json, say=say,
    )  # fmt: skip
    raise typer.Exit(code)


@peer_app.command()
def status(folder: Folder = HERE, as_json: Json = False) -> None:
    """How the runs of this peer stand: round, loss, every link with its lag and bytes, refusals by reason."""
    from .standing import status_of, told

    found = status_of(folder)
    show(found, told(found), as_json)


@peer_app.command()
def stop(
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for it to end.")] = 30.0, folder: Folder = HERE
) -> None:
    """Ask the running peer to end with a checkpoint."""
    import os
    import signal
    import time

    from ..errors import PeerError
    from ..peers.status import read_status
    from ..transport import Home
    from ..transport.files import is_locked

    running = [path.parent for path in Home.open(folder).state.glob("*/status.json") if is_locked(path.parent)]
    if not running:
        err.print("No peer runs here.", highlight=False)
        return
    for place in running:
        os.kill(read_status(place)["pid"], signal.SIGTERM)
    end = time.monotonic() + wait
    while any(is_locked(place) for place in running):
        if time.monotonic() > end:
            raise PeerError(
                f"The peer has not ended within {wait:.0f} s. It may be writing a large checkpoint; wait longer."
            )
        time.sleep(0.1)
    err.print("Stopped. The same start command goes on from here.", highlight=False)


# -- shared


def _say(document: dict[str, Any], text: str, as_json: bool) -> None:
    """Like `show`, but never breaks a line: tokens and ids are copied by hand."""
    if as_json:
        show(document, "", as_json)
    else:
        out.print(text, soft_wrap=True, markup=False, highlight=False)


def _read(path: Path) -> bytes:
    from ..errors import DataError

    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _founder(home: Home, given: str) -> str:
    from ..errors import PeerError

    if home.founder and given and home.founder != given:
        raise PeerError("This peer belongs to a federation of another founder. Use another folder for this one.")
    if not (home.founder or given):
        raise PeerError(
            "Whose signature is to be believed? Give the founder's id, as the founder told it to you: --founder ID"
        )
    return home.founder or given


def _changed(home: Home, roster: Roster, as_json: bool) -> None:
    home = home.trust(roster)
    show(_document(home.roster), _members(home.roster), as_json)


def _spelled(id: str) -> str:
    from ..transport import spelled_id

    return spelled_id(id)


def _identity(home: Home) -> dict[str, Any]:
    return {"name": home.name, "id": home.identity.id, "spelled": _spelled(home.identity.id), "folder": str(home.folder)}


def _summary(roster: Roster) -> dict[str, Any]:
    return {"founder": roster.founder, "version": roster.version, "epoch": roster.epoch, "members": len(roster.members)}


def _document(roster: Roster) -> dict[str, Any]:
    members = [
        {"row": row, "name": m.name, "id": m.id, "addresses": list(m.addresses)} for row, m in enumerate(roster.members)
    ]
    links = [{"from": roster.name(e.source), "to": roster.name(e.target), "a": e.a, "b": e.b} for e in roster.links]
    facts = {"run": roster.run, "spec": roster.spec, "hash": roster.hash}
    return {**_summary(roster), "members": members, "links": links, **facts}


def _members(roster: Roster) -> Table:
    title = f"Roster version {roster.version}, epoch {roster.epoch}, {len(roster.links)} links"
    table = Table("row", "name", "id", "addresses", "sends to", title=title)
    for row, member in enumerate(roster.members):
        targets = ", ".join(roster.name(target) for target in roster.targets(member.id))
        who = f"{member.name} (founder)" if member.id == roster.founder else member.name
        table.add_row(str(row), who, member.id[:14], ", ".join(member.addresses), targets)
    return table

"""`peerloom peer init`, `invite`, `join`: keys and invitations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..console import err, show
from ..options import Json
from .shared import HERE, Folder, identity_of, members_table, show_unwrapped, spelled, summary

if TYPE_CHECKING:
    from ...transport import Roster

__all__ = ["init", "invite", "join"]


def init(
    name: Annotated[
        str, typer.Argument(help="What others call this peer, for example hospital-b.")
    ],
    address: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="Where others reach this peer; may be repeated."),
    ] = None,
    found: Annotated[
        bool,
        typer.Option(
            "--found", help="Also found a federation, with this peer as its first member."
        ),
    ] = False,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Make this peer's key. It stays in the folder, readable by you only."""
    from ...transport import Home

    home = Home.create(folder, name, tuple(address or ()), found)
    facts = {**identity_of(home), "founded": found}
    first = (
        "Invite others: peerloom peer invite"
        if found
        else "Join a federation: peerloom peer join TOKEN"
    )
    show_unwrapped(
        facts, f"{name} is\n  {facts['spelled']}\nKey: {home.identity.key_file}\n{first}", as_json
    )


def invite(
    address: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where the newcomer reaches this peer. By default what --listen says.",
        ),
    ] = "",
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Wait here for the newcomer. Without it the answer comes as a file.",
        ),
    ] = "",
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for the newcomer.")] = 600.0,
    hours: Annotated[
        float, typer.Option(min=0.01, help="How long the invitation is good for.")
    ] = 48.0,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Make an invitation for one newcomer: a line to hand over by a way you trust, good once."""
    from ...transport import Home, JoinServer
    from ...transport.roster import parse_address

    home = Home.open(folder)
    book = home.invitations
    invitation = book.invite(home.identity, address or listen, hours)
    token = invitation.token()
    if not listen:
        after = (
            "The newcomer runs: peerloom peer join TOKEN --request FILE\n"
            "Then here: peerloom peer roster add FILE"
        )
        show_unwrapped(
            {"token": token, "expires": invitation.expires}, f"{token}\n{after}", as_json
        )
        return
    err.print(token, highlight=False, soft_wrap=True)
    err.print(f"Waiting on {listen} for {wait:.0f} s ...", highlight=False)

    def accept(data: bytes) -> Roster:
        roster = book.accept(home.identity, home.roster, data)
        home.trust(roster)
        return roster

    server = JoinServer(home.identity, parse_address(listen))
    try:
        roster = server.serve(
            accept, wait, lambda why: err.print(f"refused: {why}", highlight=False, markup=False)
        )
    finally:
        server.close()
    if roster is None:
        from ...errors import PeerError

        raise PeerError(
            f"Nobody came within {wait:.0f} s. The invitation stays good; wait again, or take the "
            "answer as a file."
        )
    newcomer = roster.members[-1]
    text = (
        f"{newcomer.name} is a member now. Compare its id by another way:\n  {spelled(newcomer.id)}"
    )
    show_unwrapped({"token": token, "member": newcomer.name, **summary(roster)}, text, as_json)


def join(
    token: Annotated[str, typer.Argument(help="The line that the founder sent.")],
    request: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the answer to a file for the founder, and take the roster back as a file.",
        ),
    ] = None,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Answer an invitation: over the network, or with a file."""
    from ...transport import Home, Invitation, join_online, join_request
    from ...transport.files import write_whole

    home = Home.open(folder)
    invitation = Invitation.read(token)
    answer = join_request(home.identity, invitation, home.name, home.addresses)
    if request is not None:
        write_whole(request, answer)
        after = (
            f"Send {request} to the founder, then: peerloom peer roster take FILE "
            f"--founder {spelled(invitation.founder)}"
        )
        show_unwrapped({"request": str(request), "founder": invitation.founder}, after, as_json)
        return
    home = home.trust(join_online(invitation, answer))
    show({"joined": True, **summary(home.roster)}, members_table(home.roster), as_json)

"""`peerloom peer init`, `invite`, `join`, `rekey`: keys and invitations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..console import err, show
from ..options import Json
from .shared import (
    HERE,
    Folder,
    Proxy,
    Wrapped,
    identity_of,
    members_table,
    show_unwrapped,
    spelled,
    summary,
)  # fmt: skip

if TYPE_CHECKING:
    from ...transport import Invitation, Roster

__all__ = ["init", "invite", "join", "rekey"]


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
    relay: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Wait for the newcomer at this relay of the roster, without a port of this site.",
        ),
    ] = "",
    proxy: Proxy = "",
    wrapped: Wrapped = False,
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for the newcomer.")] = 600.0,
    hours: Annotated[
        float, typer.Option(min=0.01, max=8760, help="How long the invitation is good for.")
    ] = 48.0,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Make an invitation for one newcomer: a line to hand over by a way you trust, good once."""
    import time
    from contextlib import ExitStack

    from ...errors import PeerError
    from ...peers.site_network import outbound_of
    from ...transport import Home, JoinServer
    from ...transport.relay.host import RelayHost
    from ...transport.roster import parse_address

    home = Home.open(folder)
    home.check_asked()
    book = home.invitations
    home.roster.check_time(time.time(), "An invitation")
    if (listen or relay) and home.roster.threshold > 1:
        raise PeerError(
            f"{home.roster.threshold} founders must sign for a newcomer, so it joins by files: "
            "leave --listen and --relay out."
        )
    named = home.roster.relay(relay) if relay else None

    def issued() -> Invitation:
        invitation = book.invite(home.identity, address or listen, hours, relay=named)
        home.audit.note("invitation", invitation=invitation.key, expires=invitation.expires)
        return invitation

    if not (listen or named):
        invitation = issued()
        token = invitation.token()
        after = (
            "The newcomer runs: peerloom peer join TOKEN --request FILE\n"
            "Then here: peerloom peer roster add FILE"
        )
        show_unwrapped(
            {"token": token, "expires": invitation.expires}, f"{token}\n{after}", as_json
        )
        return

    def accept(data: bytes) -> Roster:
        roster = book.accept(home.identity, home.roster, data)
        home.trust(roster)
        return roster

    with ExitStack() as stack:
        # Nobody may hold a token while nobody listens.
        server = JoinServer(home.identity, parse_address(listen) if listen else None)
        stack.callback(server.close)
        host = None
        if named is not None:
            outbound = outbound_of(folder, proxy, wrapped)
            host = RelayHost(
                named, home.identity, outbound, server, lambda: Home.open(folder).roster
            )
            stack.enter_context(host)
        invitation = issued()
        token = invitation.token()
        if host is not None:
            host.expect(invitation)
        err.print(token, highlight=False, soft_wrap=True)
        where = listen if named is None else f"relay {named.name}"
        err.print(f"Waiting on {where} for {wait:.0f} s ...", highlight=False)
        roster = server.serve(
            accept, wait, lambda why: err.print(f"refused: {why}", highlight=False, markup=False)
        )
        if roster is not None and host is not None and not host.bring_roster():
            err.print(
                "The relay does not have the new roster yet; the next member that is there "
                "brings it.",
                highlight=False,
            )
    if roster is None:
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
    proxy: Proxy = "",
    wrapped: Wrapped = False,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Answer an invitation: over the network, or with a file."""
    from ...peers.site_network import outbound_of
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
    home = home.trust(join_online(invitation, answer, outbound_of(folder, proxy, wrapped)))
    show({"joined": True, **summary(home.roster)}, members_table(home.roster), as_json)


def rekey(
    file: Annotated[Path, typer.Argument(help="Where to write the request for the founder.")],
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Ask for a new key in place of this peer's: between runs, and by a file.

    The new key lies in the folder `next` until a roster names it; then it takes the old one's
    place.
    """
    from ...errors import PeerError
    from ...transport import Home
    from ...transport.files import write_whole
    from ...transport.rekey import member_to_rekey, rekey_request

    home = Home.open(folder)
    for run in home.unfinished_runs():
        raise PeerError(
            f"Run {run.name} is not done, and it can go on with the old key only. "
            f"Finish it, or give it up: remove {run}"
        )
    member_to_rekey(home.roster, home.identity.id)  # before a key is made that nobody grants
    new = home.next_identity()
    write_whole(file, rekey_request(home.identity, new, home.roster))
    after = (
        f"The new key is\n  {spelled(new.id)}\nSend {file} to the founder (peerloom peer roster "
        "rekey FILE), then take the roster: peerloom peer roster take FILE"
    )
    show_unwrapped({"request": str(file), "id": new.id, "was": home.identity.id}, after, as_json)

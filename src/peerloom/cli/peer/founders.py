"""`peerloom peer roster renew`, `propose`, `sign` and more: what only founders do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..console import err
from ..options import Json
from .shared import HERE, Folder, changed, note_proposal, read, show_unwrapped, summary

__all__ = ["propose", "rekey", "relay", "renew", "sign", "withdraw"]


def propose(
    file: Annotated[Path, typer.Argument(help="Where to write the proposal.")],
    founder: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME_OR_ID",
            help="Who are the founders from then on: members by name, any key by its id. Repeat it "
            "for each. By default those of now.",
        ),
    ] = None,
    threshold: Annotated[
        int | None, typer.Option(min=1, help="How many of them must sign. By default as now.")
    ] = None,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Propose other founders, or another number of signatures (founder only).

    It needs enough signatures of the founders of now and of those it names.
    """
    from ...transport import Home, read_id
    from ...transport.files import write_whole
    from ...transport.identity import LENGTH, plain_id

    home = Home.open(folder)
    roster = home.roster
    ids = tuple(
        read_id(who) if len(plain_id(who)) >= LENGTH else roster.member(who).id
        for who in founder or roster.founders
    )
    needed = threshold or min(roster.threshold, len(ids))
    proposal = roster.amended(home.identity, founders=ids, threshold=needed)
    changed(home, proposal, as_json, file)
    write_whole(file, proposal.to_bytes())


def sign(
    file: Annotated[Path, typer.Argument(help="A proposal; the signature is added to it.")],
    only_show: Annotated[
        bool, typer.Option("--show", help="Only show what it changes, and do not sign.")
    ] = False,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Sign a proposal of another founder, after reading what it changes (founder only)."""
    from ...transport import Home
    from ...transport.files import write_whole
    from ...transport.proposals import differences, read_proposal

    home = Home.open(folder)
    known, proposal = home.roster, read_proposal(read(file))
    if not only_show:
        home.check_asked()
        proposal = home.proposals.sign(home.identity, proposal, known)
        note_proposal(home, proposal)
        write_whole(file, proposal.to_bytes())
    lines = differences(proposal, known)
    after = (
        f"It bears {proposal.lacks}: another founder signs {file} next."
        if proposal.lacks
        else f"It is complete. Everybody takes it: peerloom peer roster take {file}"
    )
    facts = {"file": str(file), **summary(proposal), "changes": lines, "lacks": proposal.lacks}
    what = f"{'Not signed' if only_show else 'Signed'}: version {proposal.version}"
    show_unwrapped(facts, "\n".join([what, *(f"  {line}" for line in lines), after]), as_json)


def withdraw(folder: Folder = HERE) -> None:
    """Forget the proposal that this founder signed last, so that it can sign another one.

    Only if no other founder has signed it: otherwise two rosters of one version may come to hold.
    """
    from ...transport import Home

    home = Home.open(folder)
    home.proposals.withdraw()
    home.audit.note("proposal", withdrawn=True)
    err.print("Forgotten. This founder may sign another proposal now.", highlight=False)


def renew(
    days: Annotated[
        float, typer.Option(min=1, max=3650, help="For how long it is good from now on.")
    ] = 90.0,
    speaks: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="VERSION",
            help="Also say that all members speak this version of the link protocol.",
        ),
    ] = None,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Sign the roster anew, so that it is good for longer (founder only)."""
    from ...errors import PeerError
    from ...transport import Home
    from ...transport.schemas import VERSION

    home = Home.open(folder)
    roster = home.roster
    said = roster.speaks if speaks is None else speaks
    if not roster.speaks <= said <= VERSION:
        raise PeerError(
            f"Members speak version {roster.speaks} at least, and this Peerloom {VERSION} at most; "
            f"{said} cannot be signed."
        )
    changed(home, roster.amended(home.identity, days=days, speaks=said), as_json)


def relay(
    name: Annotated[str, typer.Argument(help="What the relay is called.")],
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its certificate, identity.crt in the relay's folder."),
    ] = None,
    address: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="Where members reach it; may be repeated."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the relay away instead.")] = False,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Name a relay through which members reach each other, or remove it (founder only)."""
    from ...errors import ConfigError
    from ...transport import Home, Relay

    home = Home.open(folder)
    roster = home.roster
    kept = tuple(relay for relay in roster.relays if relay.name != name)
    if remove:
        if len(kept) == len(roster.relays):
            raise ConfigError(f"The roster has no relay '{name}'.")
    elif certificate is None or not address:
        raise ConfigError(
            "A relay has a certificate and an address: peerloom peer roster relay NAME "
            "--certificate FILE --address HOST:PORT"
        )
    else:
        text = read(certificate).decode("ascii", "replace")
        kept = (*kept, Relay(name, text, tuple(address)))
    changed(home, roster.amended(home.identity, relays=kept), as_json)


def rekey(
    request: Annotated[
        Path, typer.Argument(help="The file that a member made with 'peer rekey FILE'.")
    ],
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Give a member its new key (founder only), for the next run: name, row and links stay."""
    from ...transport import Home
    from ...transport.rekey import grant_rekey

    home = Home.open(folder)
    changed(home, grant_rekey(home.identity, home.roster, read(request)), as_json)

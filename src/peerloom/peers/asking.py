"""A peer whose folder came from a backup asks its neighbours for the newest roster first."""

from __future__ import annotations

from pathlib import Path

from ..errors import PeerError
from ..transport import Home, Transport

__all__ = ["ask_neighbours"]

_LOOK = 0.1  # seconds between two looks
_NO_NEWS = 2**62  # more than ever arrive: to let a little time pass


def ask_neighbours(home: Home, transport: Transport, run: Path, version: int) -> None:
    """Wait until every neighbour has said which roster it has, and a newer one has come.

    No round is begun before that. Refuses to go on without an answer of each: one alone might be
    a member that was removed since. Under a newer roster than `version` the peer starts again, as
    rows and links may be others.
    """
    looks = round(transport.wait / _LOOK)
    while (missing := transport.unasked()) and looks > 0:
        transport.wait_for_arrivals(_NO_NEWS, _LOOK)
        looks -= 1
    if missing:
        raise PeerError(
            "This peer was restored from a backup and must ask all neighbours for the newest "
            f"roster before it begins; {', '.join(missing)} did not answer. Start it again when "
            "they run, or take the roster from the founder: peerloom peer roster take FILE"
        )
    transport.save_roster()
    home.asked()
    newest = transport.offered() or transport.roster
    if newest.version > version:
        (run / "roster.json").unlink(missing_ok=True)  # nothing has begun under the old one
        raise PeerError(
            f"Neighbours have version {newest.version} of the roster, which is newer than the "
            "backup's. It is in the folder now: start this peer again."
        )

"""Whether one roster follows another: signed by those who may, and with the other in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ExcludedError, PeerError
from .founders import follow
from .rosterform import LONGEST_LOG

if TYPE_CHECKING:
    from .roster import Roster

__all__ = ["RosterForkError", "check_log", "succeeds"]


class RosterForkError(ExcludedError):
    """Two rosters of one federation that cannot both hold."""


def succeeds(new: Roster, known: Roster) -> bool:
    """Whether a roster is newer than a known one. Refuses what cannot follow from it."""
    if new.founder != known.founder:
        raise PeerError("This roster is of another federation than the one that is known.")
    if new.version < known.version:
        return False
    if new.version == known.version:
        if new.hash != known.hash:
            raise _fork(new.version)
        return False
    if new.format < known.format:
        raise PeerError(
            f"Version {new.version} of the roster is of an older format than the one here."
        )
    steps = [head for head in new.changes if head.version > known.version]
    follow(known.head, (*steps, new.head))
    check_log(new, known)
    return True


def check_log(new: Roster, known: Roster) -> None:
    """Refuse a version whose log does not name the one that is known."""
    back = new.version - known.version
    if new.epoch < known.epoch:
        raise _fork(new.version)
    if back > len(new.log) and known.format == 1:
        return  # versions of format 1 kept no log
    if back > LONGEST_LOG:
        raise PeerError(
            f"Version {new.version} of the roster names the {LONGEST_LOG} versions before it, and "
            f"the one here is version {known.version}: whether one follows from the other cannot "
            "be seen. Ask somebody for a version between (peerloom peer roster save FILE) and take "
            "that first."
        )
    if back > len(new.log) or new.log[-back] != known.hash:
        raise _fork(new.version)


def _fork(version: int) -> RosterForkError:
    return RosterForkError(
        f"Two different rosters claim version {version} of one federation. Somebody signed twice: "
        "ask the founder which one holds, and do not run before that."
    )

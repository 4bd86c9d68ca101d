"""Former members, as a relay knows them: each may still learn that it was removed, and no more.

Who can only dial out hears of its removal from no neighbour once the relay has cut it off. So it
may prove its key as before, and is shown the signed roster that removed it; never a later one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, Self

from ...errors import PeerError
from ..certificate import certificate_id, check_certificate
from ..json_files import COUNT, TEXT, Each, check_form
from ..roster import Roster
from .messages import Word, encode

__all__ = ["Former"]

_MOST = 64  # members that are remembered: the latest
_MOST_BYTES = 16 << 20  # of their rosters in all
_FORM = {"rosters": Each(TEXT), "members": Each({"certificate": TEXT, "roster": COUNT})}


class _Removal(NamedTuple):
    certificate: str
    roster: Roster  # the first one without this member
    message: bytes  # that shows it; members that were removed together share it


class Former:
    """The latest former members, and for each the first known roster without it."""

    def __init__(self) -> None:
        self._found: dict[str, _Removal] = {}  # by id, the latest last

    def __contains__(self, who: str) -> bool:
        return who in self._found

    @property
    def certificates(self) -> list[str]:
        """The certificates of all."""
        return [removal.certificate for removal in self._found.values()]

    def message(self, who: str) -> bytes:
        """The message that shows a former member the roster without it; empty for others."""
        removal = self._found.get(who)
        return b"" if removal is None else removal.message

    def follow(self, before: Roster | None, roster: Roster) -> None:
        """Note whom a newer roster removes, and forget who is a member again."""
        for who in [who for who in self._found if roster.has(who)]:
            del self._found[who]
        gone = [] if before is None else [m for m in before.members if not roster.has(m.id)]
        if gone:
            message = encode(Word.ROSTER, document=roster.to_bytes())
            for member in gone:
                self._found[member.id] = _Removal(member.certificate, roster, message)
        while len(self._found) > _MOST or self._size() > _MOST_BYTES:
            del self._found[next(iter(self._found))]

    def _size(self) -> int:
        return sum(map(len, {removal.message for removal in self._found.values()}))

    # -- as a file

    def to_bytes(self) -> bytes:
        """The file: every roster once."""
        versions = {removal.roster.version: removal.roster for removal in self._found.values()}
        places = {version: place for place, version in enumerate(versions)}
        document = {
            "rosters": [roster.to_bytes().decode() for roster in versions.values()],
            "members": [
                {"certificate": each.certificate, "roster": places[each.roster.version]}
                for each in self._found.values()
            ],
        }
        return json.dumps(document).encode()

    @classmethod
    def read(cls, path: Path, founder: str) -> Self:
        """What such a file says; nobody if there is none. Refuses one that is spoilt."""
        former = cls()
        if path.exists():
            try:
                former._take(json.loads(path.read_bytes()), founder)
            except (ValueError, IndexError, RecursionError, PeerError) as error:
                raise PeerError(
                    f"{path} is spoilt ({str(error)[:200]}). Remove it: members that were removed "
                    "before now will not be told so by this relay, and nothing else changes."
                ) from None
        return former

    def _take(self, document: Any, founder: str) -> None:
        check_form(document, _FORM)
        rosters = [Roster.from_bytes(text.encode(), founder) for text in document["rosters"]]
        messages = [encode(Word.ROSTER, document=roster.to_bytes()) for roster in rosters]
        for each in document["members"]:
            certificate, place = each["certificate"], each["roster"]
            check_certificate(certificate)
            who = certificate_id(certificate.encode())
            if rosters[place].has(who):
                raise ValueError(f"{who[:7]} is in the roster that should lack it")
            self._found[who] = _Removal(certificate, rosters[place], messages[place])

"""Links between peers on different machines: identities, rosters, frames, delivery. Needs no torch.

An engine needs `Endpoint` (over TLS, or one of a `MemoryNetwork` in tests: both are a `Post`) and the words of `types`.

```text
identity = Identity.load(folder)                       roster = RosterBook(folder / "roster.json", founder).current
run = RunIdentity("run-7", spec_hash, {0: Channel(4 * n, check, "float32 rows")})
with Endpoint(identity, roster, run, state_dir, listen=("0.0.0.0", 7400)) as post:
    for peer in roster.targets(post.me):               # synchronous: every parcel, in order
        post.send(peer, Parcel(0, round, turn, x))
    got = post.take_all([Wanted(peer, round, turn) for peer in roster.sources(post.me)], deadline_seconds=60)

    post.send(peer, Parcel(1, round, 0, sigma), keep="newest")     # asynchronous: the newest is enough
    seen = post.wait_news(seen, 1.0); post.newest(peer, 1)
```
"""

from ..errors import MissingExtraError

try:
    import cryptography as _cryptography  # noqa: F401
    import msgpack as _msgpack  # noqa: F401
    import xxhash as _xxhash  # noqa: F401
except ImportError as error:
    raise MissingExtraError("What runs between machines", str(error.name), "peers") from error

from .checker import check_histories
from .desk import JoinDesk, join_online
from .endpoint import Endpoint
from .history import History, read_history
from .home import Home
from .identity import Identity, read_id, short_id, spelled_id
from .invitations import Invitation, InvitationBook, join_request
from .kit import Kit, read_kit, write_kit
from .memory import CrashedError, Faults, MemoryNetwork
from .post import Post
from .roster import Link, Member, Roster, RosterForkError
from .rosterbook import RosterBook
from .sums import Flow, Inflow, Outflow
from .types import (
    Body,
    Channel,
    Event,
    Keep,
    LinkState,
    OutboxFullError,
    Parcel,
    Receipt,
    RefusedError,
    RunIdentity,
    Settings,
    Skipped,
    Tally,
    Wanted,
)

__all__ = [
    "Body",
    "Channel",
    "CrashedError",
    "Endpoint",
    "Event",
    "Faults",
    "Flow",
    "History",
    "Home",
    "Identity",
    "Inflow",
    "Invitation",
    "InvitationBook",
    "JoinDesk",
    "Keep",
    "Kit",
    "Link",
    "LinkState",
    "Member",
    "MemoryNetwork",
    "OutboxFullError",
    "Outflow",
    "Parcel",
    "Post",
    "Receipt",
    "RefusedError",
    "Roster",
    "RosterBook",
    "RosterForkError",
    "RunIdentity",
    "Settings",
    "Skipped",
    "Tally",
    "Wanted",
    "check_histories",
    "join_online",
    "join_request",
    "read_history",
    "read_id",
    "read_kit",
    "short_id",
    "spelled_id",
    "write_kit",
]

"""Links between peers on different machines: identities, rosters, frames, delivery.

This room needs no torch. An engine needs a `Transport`, such as `Endpoint`, and the classes of
`types`.

```text
identity = Identity.load(folder)
roster = RosterBook(folder / "roster.json", founder).current
run = RunIdentity("run-7", spec_hash, {0: Channel(4 * n, check, "float32 rows")})
with Endpoint(identity, roster, run, state_dir, listen=("0.0.0.0", 7400)) as transport:
    # synchronous: every parcel, in order
    for peer in roster.targets(transport.me):
        transport.send(peer, Parcel(0, round, mix_index, body))
    wanted = [Wanted(peer, round, mix_index) for peer in roster.sources(transport.me)]
    got = transport.receive_all(wanted, deadline_seconds=60)

    # asynchronous: the newest is enough
    transport.send(peer, Parcel(1, round, 0, body), mode="latest")
    seen = transport.wait_for_arrivals(seen, 1.0)
    parcel = transport.newest(peer, 1)
```
"""

from ..errors import MissingExtraError

try:
    import cryptography as _cryptography  # noqa: F401
    import msgpack as _msgpack  # noqa: F401
    import xxhash as _xxhash  # noqa: F401
except ImportError as error:
    raise MissingExtraError("What runs between machines", str(error.name), "peer") from error

from .endpoint import Endpoint
from .history import History, read_history
from .home import Home
from .identity import Identity, read_id, short_id, spelled_id
from .invitations import Invitation, InvitationBook, join_request
from .join_server import JoinServer, join_online
from .kit import Kit, read_kit, write_kit
from .roster import Link, Member, Relay, Roster, RosterForkError
from .rosterbook import RosterBook
from .sums import Flow, Inflow, Outflow
from .transport import Transport
from .types import (
    Body,
    Channel,
    Event,
    Gap,
    LinkState,
    Mode,
    OutboxFullError,
    Parcel,
    Receipt,
    RefusedError,
    RunIdentity,
    Settings,
    Skipped,
    StopRequested,
    Tally,
    Wanted,
)

__all__ = [
    "Body",
    "Channel",
    "Endpoint",
    "Event",
    "Flow",
    "Gap",
    "History",
    "Home",
    "Identity",
    "Inflow",
    "Invitation",
    "InvitationBook",
    "JoinServer",
    "Kit",
    "Link",
    "LinkState",
    "Member",
    "Mode",
    "OutboxFullError",
    "Outflow",
    "Parcel",
    "Receipt",
    "RefusedError",
    "Relay",
    "Roster",
    "RosterBook",
    "RosterForkError",
    "RunIdentity",
    "Settings",
    "Skipped",
    "StopRequested",
    "Tally",
    "Transport",
    "Wanted",
    "join_online",
    "join_request",
    "read_history",
    "read_id",
    "read_kit",
    "short_id",
    "spelled_id",
    "write_kit",
]

"""The port: all that an algorithm sees of the world. Row-wise arithmetic is free; only `mix` crosses rows."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..errors import ConfigError
from .draw import Draws
from .ledger import Ledger
from .matrix import MatrixMixer
from .network import Links, Network
from .offers import Offer, Packed, pull
from .ports import Activity, LocalProblem, MemoryWire, Message, Placement, Trip, Wire

__all__ = ["Net"]

Ids = NDArray[np.int64]


class Net:
    """The port of one process, whichever rows it hosts.

    Mixing goes link by link over the wire: pack, deliver, unpack, add up. Where no wire is given every row is here and
    nothing can be lost, so mixing is a matrix product if rows arrive whole. Both give the same numbers.
    """

    def __init__(
        self,
        place: Placement,
        network: Network,
        activity: Activity,
        message: Message,
        problem: LocalProblem,
        draws: Draws,
        *,
        resources: Activity | None = None,
        wire: Wire | None = None,
    ) -> None:
        self.t = 0
        self.place, self.network, self.activity, self.message = place, network, activity, message
        self.problem, self.draws = problem, draws
        self.wire, self.all_here = MemoryWire() if wire is None else wire, wire is None
        self.resources = activity if resources is None else resources
        self.ledger = Ledger(network)
        self._here = np.full(network.rows, -1)
        self._here[place.rows] = np.arange(len(place.rows))
        self._sends = {name: self._here[links.src] >= 0 for name, links in network.layers.items()}
        self._turns: dict[str, tuple[int, int]] = {}
        self._heard = np.empty(0, np.int64)
        self._nodes, self._active = np.empty(0, bool), torch.empty(0)  # of the last round: they seldom change under Always
        self._clients = int(np.searchsorted(place.rows, network.clients))  # hosted rows are sorted, hubs are last
        self._mixers: dict[str, MatrixMixer] = {}

    def active(self) -> Tensor:
        """v_i as a column: who computes in this round."""
        nodes = self.activity.nodes(self.t)
        if not np.array_equal(nodes, self._nodes):
            self._nodes, every = nodes.copy(), np.zeros(self.network.rows, bool)
            every[: self.network.clients] = nodes
            self._active = self._column(every[self.place.rows])
        return self._active

    def grad(self, x: Tensor, v: Tensor | None = None, batch: int = 0) -> Tensor:
        """v_i g_i(x_i); rows with v_i = 0, and hubs, are not computed.

        All calls of a round see one batch per row, unless they ask for another by its number, as local steps do.
        """
        clients = self._clients
        on = np.arange(clients) if v is None else np.flatnonzero(v[:clients].cpu().numpy()[:, 0])
        self.ledger.computed(self.place.rows[on], 1 / self.resources.node_probability(self.t))
        if len(on) == len(x):
            return self.problem.grad(x, on, self.t, batch)
        g = torch.zeros_like(x)
        if len(on):
            g[torch.from_numpy(on).to(x.device)] = self.problem.grad(x[:clients], on, self.t, batch)
        return g

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The proximal step of the problem's regulariser h."""
        return self.problem.prox(z, step)

    def own(self, per_node: ArrayLike) -> Tensor:
        """The hosted rows of a per-node constant, as a column: one number for all, one per client, or one per row."""
        given, rows, clients = np.asarray(per_node, np.float64), self.network.rows, self.network.clients
        if given.shape not in ((), (rows,), (clients,)):
            raise ConfigError(f"A constant of shape {list(given.shape)} was given for {clients} clients. Give one for each.")
        every = np.zeros(rows)
        every[: len(given) if given.ndim else rows] = given  # hubs, which have no constant of their own, get 0
        return self._column(every[self.place.rows])

    def draw(self, stream: str, shared: bool = False) -> Tensor:
        """Uniforms in [0, 1) as a column: one per row, or one that all rows agree on."""
        ids = np.zeros(1, np.int64) if shared else self.place.rows
        return self._column(self.draws(f"rule/{stream}", self.t, ids)[:, 0])

    def heard(self) -> Tensor:
        """How many messages each row got in the last mixing, as a column."""
        return self._column(np.bincount(self._heard, minlength=self.network.rows)[self.place.rows])

    @overload
    def mix(self, offer: Offer | Packed | Tensor, /, *, over: str = "peers") -> Tensor: ...
    @overload
    def mix(self, *offers: Offer | Packed | Tensor, over: str = "peers") -> list[Tensor]: ...
    def mix(self, *offers: Offer | Packed | Tensor, over: str = "peers") -> Any:
        """One message per live link, carrying every offer; each is combined by its own law. A bare tensor is pulled."""
        laws = [offer if isinstance(offer, Offer) else pull(offer) for offer in offers]
        links, live = self.network.layer(over), self.activity.links(self.t, over)
        out = np.flatnonzero(live & self._sends[over])
        bits = sum(self.message.bits(law.value.shape[1], law.value.dtype) for law in laws)
        paper_bits = sum(self.message.paper_bits(law.value.shape[1]) for law in laws)
        self.ledger.sent(over, out, bits, paper_bits, 1 / self.resources.link_probability(self.t, over))
        turn = self._next("mix")
        if self.all_here and (self.message.whole or all(law.packed is not None for law in laws)):
            if over not in self._mixers:
                self._mixers[over] = MatrixMixer(links, self.place.dtype, self.place.device)
            mixed = [self._mixers[over](law, live) for law in laws]
            self._heard = links.dst[out]
        else:
            mixed = self._by_links(laws, links, out, np.flatnonzero(live & (self._here[links.dst] >= 0)), turn)
        return mixed[0] if len(mixed) == 1 else mixed

    def compress(self, x: Tensor) -> Packed:
        """Rows as the message makes them, packed once for all receivers; what it leaves out arrives as zero.

        For differences from a copy that every neighbour keeps (CHOCO, BEER): `value` is what each of them adds to it.
        """
        trip = self._trip_of_rows(self.place.rows, self._next("compress"))
        packed = self.message.pack(x, trip)
        return Packed(self._decoded(packed, x.shape[1], trip), packed, trip.turn)

    def _by_links(self, laws: list[Offer], links: Links, out: Ids, into: Ids, turn: int) -> list[Tensor]:
        """The readable path, and the only one between processes: link by link, in link order."""

        def trip(of: Ids) -> Trip:  # a message's draws are keyed by its link, whatever its coin
            return Trip(self.draws, self.t, turn, links.dst[of] * links.rows + links.src[of], links.src[of])

        def pack(law: Offer) -> Tensor:
            senders = self._rows(links.src[out])
            return self.message.pack(law.value[senders], trip(out)) if law.packed is None else law.packed[senders]

        packed = [pack(law) for law in laws]
        came = self.wire.swap((self.t, turn), links, out, torch.cat(packed, dim=1), into)
        got, gone = torch.from_numpy(np.flatnonzero(came.arrived)), torch.from_numpy(np.flatnonzero(came.acked))
        into, out_acked = into[came.arrived], out[came.acked]
        self._heard = links.dst[into]
        widths = [part.shape[1] for part in packed]
        mixed = []
        for law, mine, theirs in zip(laws, packed, torch.split(came.payload[got], widths, dim=1), strict=True):
            x = law.value
            if law.packed is None:
                values, mask = self.message.unpack(theirs, x.shape[1], trip(into))
                given = self.message.unpack(mine[gone], x.shape[1], trip(out_acked))[1]
            else:  # packed by row in this round's compress of the same turn: whole, with zeros where nothing was carried
                values = self._decoded(theirs, x.shape[1], self._trip_of_rows(links.src[into], law.turn))
                mask, given = torch.ones_like(values[:, :1]), torch.ones_like(mine[gone][:, :1])
            weight = torch.from_numpy(links.weight(law.weight)).to(x)[:, None]
            total = self._add(weight[into] * mask * values, links.dst[into])
            mass = self._add(weight[into] * mask, links.dst[into])
            sent = self._add(weight[out_acked] * given, links.src[out_acked])
            scale, own = law.weigh(mass, sent)
            mixed.append(scale * total + own * x)
        return mixed

    def _decoded(self, packed: Tensor, n: int, trip: Trip) -> Tensor:
        values, mask = self.message.unpack(packed, n, trip)
        return values * mask

    def _trip_of_rows(self, rows: Ids, turn: int) -> Trip:
        """Draws keyed by the sender alone, so that all its receivers decode the same."""
        return Trip(self.draws, self.t, turn, rows, rows)

    def _next(self, what: str) -> int:
        """The how-manieth of its kind in this round."""
        round, turn = self._turns.get(what, (-1, 0))
        self._turns[what] = (self.t, turn + 1 if round == self.t else 1)
        return self._turns[what][1]

    def _add(self, terms: Tensor, rows: Ids) -> Tensor:
        # From -0.0, the true neutral element: a sum of nothing must not turn a row's -0.0 into 0.0.
        total = torch.full((len(self.place.rows), terms.shape[1]), -0.0, dtype=terms.dtype, device=terms.device)
        return total.index_add_(0, self._rows(rows), terms)

    def _rows(self, ids: Ids) -> Tensor:
        return torch.from_numpy(self._here[ids]).to(self.place.device)

    def _column(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.array(values)).to(self.place.device, self.place.dtype)[:, None]

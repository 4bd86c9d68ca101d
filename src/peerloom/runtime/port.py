"""The port of the rows that live in this process."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..core import (
    Activity,
    Codec,
    Compressed,
    Draws,
    Ledger,
    LocalProblem,
    LocalWire,
    Network,
    Offer,
    Placement,
    RowWire,
    WholeGradients,
    envelope_of_rows,
    pull,
)
from ..core.link_mixer import LinkMixer
from ..core.messages import message_nbytes
from ..core.wire import Lengths
from ..errors import Caution, ConfigError
from .matrix_mixer import MatrixMixer

__all__ = ["MixerName", "RowPort"]

MixerName = Literal["auto", "matrix", "links"]
"""How rows are mixed: as a matrix product, link by link over a wire, or by whichever fits."""

Ids = NDArray[np.int64]


class RowPort:
    """Implements `Port` for the rows that live here.

    The engine says how they are mixed. Link by link works wherever the neighbours are; a matrix
    product needs all rows here and messages that carry them whole. Both give the same numbers.
    """

    def __init__(
        self,
        place: Placement,
        network: Network,
        activity: Activity,
        codec: Codec,
        problem: LocalProblem,
        draws: Draws,
        *,
        resources: Activity | None = None,
        mixer: MixerName = "auto",
        wire: RowWire | None = None,
    ) -> None:
        if wire is not None and mixer != "links":
            raise ValueError(
                f"A wire carries rows link by link, but the mixer is '{mixer}'. Give mixer='links'."
            )
        self.t = 0
        self.place, self.network, self.activity, self.codec = place, network, activity, codec
        self.problem, self.draws, self.mixer = problem, draws, mixer
        self.wire = LocalWire(codec, draws) if wire is None else wire
        self.all_here = mixer != "links"
        self.resources = activity if resources is None else resources
        self.ledger = Ledger(network)
        self._here = np.full(network.rows, -1)
        self._here[place.rows] = np.arange(len(place.rows))
        self._sends = {name: self._here[links.src] >= 0 for name, links in network.layers.items()}
        self._hears = {name: self._here[links.dst] >= 0 for name, links in network.layers.items()}
        self._counts: dict[str, tuple[int, int]] = {}
        self._heard = np.empty(0, np.int64)
        # Of the last round: they never change under Always.
        self._nodes, self._active = np.empty(0, bool), torch.empty(0)
        # Hosted rows are sorted, hubs are last.
        self._clients = int(np.searchsorted(place.rows, network.clients))
        self._mixers: dict[str, MatrixMixer] = {}
        self._by_links = LinkMixer(place, self._here, self.wire)

    def twin(self) -> RowPort:
        """Another port of the same rows, in round 0 and with an empty ledger."""
        return RowPort(
            self.place, self.network, self.activity, self.codec, self.problem, self.draws,
            resources=self.resources, mixer=self.mixer, wire=None if self.all_here else self.wire,
        )  # fmt: skip

    def active(self) -> Tensor:
        """v_i as a column: who computes in this round."""
        nodes = self.activity.nodes(self.t)
        if not np.array_equal(nodes, self._nodes):
            self._nodes, every = nodes.copy(), np.zeros(self.network.rows, bool)
            every[: self.network.clients] = nodes
            self._active = self._column(every[self.place.rows])
        return self._active

    def grad(self, x: Tensor, v: Tensor | None = None, batch: int | Literal["all"] = 0) -> Tensor:
        """v_i g_i(x_i); rows with v_i = 0, and hubs, are not computed.

        All calls of a round see one batch per row, unless they ask for another by its number, as
        local steps do, or for all samples of the row, which count as so many batches.
        """
        clients = self._clients
        on = np.arange(clients) if v is None else v[:clients, 0].cpu().numpy().nonzero()[0]
        cost = 1 / self.resources.node_probability(self.t)
        if batch == "all":
            whole = self._whole()
            self.ledger.computed(self.place.rows[on], cost, whole.batches[on])
            compute = partial(whole.whole_gradients, on=on)
        else:
            self.ledger.computed(self.place.rows[on], cost)
            compute = partial(self.problem.grad, on=on, t=self.t, batch=batch)
        if len(on) == x.shape[0]:
            return compute(x)
        found = compute(x[:clients]) if len(on) else None
        g = torch.zeros_like(x)
        if found is not None:
            g[torch.from_numpy(on).to(x.device)] = found
        return g

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The proximal step of the problem's regulariser h."""
        return self.problem.prox(z, step)

    def constant(self, per_client: ArrayLike) -> Tensor:
        """The hosted rows of a constant, as a column: one number, one per client or one per row."""
        given = np.asarray(per_client, np.float64)
        rows, clients = self.network.rows, self.network.clients
        if given.shape not in ((), (rows,), (clients,)):
            raise ConfigError(
                f"A constant of shape {list(given.shape)} was given for {clients} clients. "
                "Give one for each."
            )
        every = np.zeros(rows)  # hubs that have no constant of their own get 0
        every[: len(given) if given.ndim else rows] = given
        return self._column(every[self.place.rows])

    def uniform(self, stream: str, shared: bool = False) -> Tensor:
        """Uniforms in [0, 1) as a column: one per row, or one that all rows agree on."""
        ids = np.zeros(1, np.int64) if shared else self.place.rows
        return self._column(self.draws(f"rule/{stream}", self.t, ids)[:, 0])

    def received(self) -> Tensor:
        """How many messages each row got in the last mixing, as a column."""
        return self._column(np.bincount(self._heard, minlength=self.network.rows)[self.place.rows])

    @overload
    def mix(self, offer: Offer | Compressed | Tensor, /, *, over: str = "peers") -> Tensor: ...
    @overload
    def mix(self, *offers: Offer | Compressed | Tensor, over: str = "peers") -> list[Tensor]: ...
    def mix(self, *offers: Offer | Compressed | Tensor, over: str = "peers") -> Any:
        """Send one message per live link, carrying every offer; combine each by its rule.

        A bare tensor is pulled.
        """
        combined = [offer if isinstance(offer, Offer) else pull(offer) for offer in offers]
        links, live = self.network.layer(over), self.activity.links(self.t, over)
        out, tag = (live & self._sends[over]).nonzero()[0], (self.t, self._next("mix"))
        if self.all_here and (
            self.codec.fit == "whole" or all(offer.compressed is not None for offer in combined)
        ):
            if over not in self._mixers:
                self._mixers[over] = MatrixMixer(links, self.place.dtype, self.place.device)
            mixed = [self._mixers[over](offer, live) for offer in combined]
            lengths, self._heard = self._lengths(combined, links.src[out]), links.dst[out]
        else:
            into = (live & self._hears[over]).nonzero()[0]
            mixed, self._heard, out, lengths = self._by_links(combined, links, out, into, tag)
        self._charge(combined, over, out, lengths)
        return mixed[0] if len(mixed) == 1 else mixed

    def fires(self, over: str = "peers") -> Tensor:
        """Whether a link of the row fires in this round, as a column.

        For rules that prepare what they send.
        """
        links, live = self.network.layer(over), self.activity.links(self.t, over)
        return self._column(
            np.bincount(links.src[live], minlength=self.network.rows)[self.place.rows] > 0
        )

    def compress(self, x: Tensor, send: Tensor | None = None) -> Compressed:
        """Encode rows once for all receivers; what the codec leaves out arrives as zero.

        For differences from a copy that every neighbour keeps (CHOCO, BEER): `value` is what each
        of them adds to it. Rows with 0 in the column `send` stay silent: nothing of them arrives,
        and nothing is charged.
        """
        codec, index = self.codec, self._next("compress")
        talks = None if send is None else (send[:, 0] > 0).cpu().numpy()
        if talks is None or talks.all():
            envelope = envelope_of_rows(self.draws, self.t, index, self.place.rows)
            nbytes, (value, _) = codec.nbytes(x, envelope), codec.through(x, envelope)
            each = self._paper_bits(nbytes, x.shape[1], self.place.rows)
            paper_bits = np.broadcast_to(each, len(x))
            every = np.arange(len(x))
            return self._compressed(
                Compressed(value, x, every, envelope, nbytes, paper_bits, send is not None)
            )
        talking, nbytes, paper_bits = talks.nonzero()[0], *np.zeros((2, len(x)), np.int64)
        at = torch.from_numpy(talking).to(x.device)
        source = x[at]
        envelope = envelope_of_rows(self.draws, self.t, index, self.place.rows[talking])
        value = torch.zeros_like(x)
        if len(talking):
            value.index_copy_(0, at, codec.through(source, envelope)[0])
            nbytes[talking] = codec.nbytes(source, envelope)
            paper_bits[talking] = self._paper_bits(
                nbytes[talking], x.shape[1], self.place.rows[talking]
            )
        return self._compressed(
            Compressed(value, source, talking, envelope, nbytes, paper_bits, silent=True)
        )

    # -- names up to Peerloom 0.1, for users' rules; to go with the next minor version

    def own(self, per_node: ArrayLike) -> Tensor:
        """The old name of `constant`."""
        return _renamed("own", "constant", self.constant(per_node))

    def draw(self, stream: str, shared: bool = False) -> Tensor:
        """The old name of `uniform`."""
        return _renamed("draw", "uniform", self.uniform(stream, shared))

    def heard(self) -> Tensor:
        """The old name of `received`."""
        return _renamed("heard", "received", self.received())

    def talks(self, over: str = "peers") -> Tensor:
        """The old name of `fires`."""
        return _renamed("talks", "fires", self.fires(over))

    def _whole(self) -> WholeGradients:
        if not isinstance(self.problem, WholeGradients):
            raise ConfigError(
                f"This rule takes gradients on all samples of a client, and the problem, "
                f"{type(self.problem).__name__}, has none. Use Classification, Task or Quadratic, "
                "or give yours `whole_gradients` and `batches`."
            )
        return self.problem

    def _compressed(self, made: Compressed) -> Compressed:
        """Drop what only encoding needs, where nothing travels: memory is best reused at once."""
        if not self.all_here:
            return made
        made.envelope.kept.clear()
        return replace(made, source=None)

    def _paper_bits(self, nbytes: Lengths, n: int, senders: Ids) -> Lengths:
        """The bits of these rows as the papers count them: by n, or what travels."""
        counted = self.codec.paper_bits(n)
        if counted is None:
            return 8 * nbytes
        return counted[senders] if isinstance(counted, np.ndarray) else counted

    def _lengths(self, offers: list[Offer], senders: Ids) -> list[Lengths]:
        """The bytes of each offer where nothing travels: of whole rows, or of compressed ones."""
        return [
            self.codec.longest(offer.value.shape[1], offer.value.dtype)
            if offer.compressed is None
            else offer.compressed.nbytes[senders]
            for offer in offers
        ]

    def _charge(self, offers: list[Offer], over: str, out: Ids, lengths: list[Lengths]) -> None:
        """One message per link, of all that it carries; rows that stay silent cost nothing."""
        cost = 1 / self.resources.link_probability(self.t, over)
        each = message_nbytes(self.codec, tuple(offer.part for offer in offers), lengths)
        paper_each: Lengths = 0
        senders = self.network.layer(over).src[out]
        for offer, length in zip(offers, lengths, strict=True):
            if offer.compressed is None:
                paper_each = paper_each + self._paper_bits(length, offer.value.shape[1], senders)
            else:
                paper_each = paper_each + offer.compressed.paper_bits[self._here[senders]]
        if any(offer.compressed is not None and offer.compressed.silent for offer in offers):
            loud = np.broadcast_to(each, len(out)) > 0
            out, each, paper_each = (
                np.broadcast_to(values, len(loud))[loud] for values in (out, each, paper_each)
            )
        self.ledger.sent(over, out, each, paper_each, cost)

    def _next(self, what: str) -> int:
        """Count the mixings, or compressions, of this round, from 1."""
        t, index = self._counts.get(what, (-1, 0))
        self._counts[what] = (self.t, index + 1 if t == self.t else 1)
        return self._counts[what][1]

    def _column(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.array(values)).to(self.place.device, self.place.dtype)[:, None]


def _renamed(old: str, new: str, found: Tensor) -> Tensor:
    warnings.warn(
        f"The port's `{old}` is now called `{new}`: rename it in your rule.", Caution, stacklevel=3
    )
    return found

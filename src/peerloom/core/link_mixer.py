"""Mixing link by link: the only way between processes, and where messages carry part of a row.

For every row, over what was really delivered,

    total_i = sum_j w_ij x_j        mass_i = sum_j w_ij        sent_i = sum_j w_ji
    mixed_i = scale_i total_i + self_weight_i x_i,     scale, self_weight = weigh(mass, sent)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .link_plan import LinkPlan, LinkPlans
from .network import Links
from .offers import Offer
from .protocols import Placement
from .wire import Carried, Delivery, Lengths, RowWire, Tag, columns_of, is_wide

__all__ = ["LinkMixer", "Mixed"]

Ids = NDArray[np.int64]
_NONE = np.empty(0, np.int64)


class Mixed(NamedTuple):
    """What came of a mixing."""

    values: list[Tensor]  # one for each offer
    receivers: Ids  # of all messages that arrived
    out: Ids  # the links over which messages were sent,
    lengths: list[Lengths]  # and the bytes of each of their parts


class LinkMixer:
    """Exchanges rows over a wire and adds up what arrived, in link order."""

    def __init__(self, place: Placement, here: Ids, wire: RowWire) -> None:
        self._wire, self._plans = wire, LinkPlans(place, here)

    def __call__(self, offers: list[Offer], links: Links, out: Ids, into: Ids, tag: Tag) -> Mixed:
        """Combine the offers over what arrives."""
        parts = tuple(offer.part for offer in offers)
        rows = [offer.value if offer.compressed is None else offer.compressed for offer in offers]
        came = self._wire.exchange(tag, links, out, rows, into, parts)
        into, out = into[came.arrived], out[came.acked]
        mixed = [self._combine(offer, k, links, came, into, out) for k, offer in enumerate(offers)]
        return Mixed(mixed, links.dst[into], out, list(came.lengths))

    def _combine(
        self, offer: Offer, k: int, links: Links, came: Delivery, into: Ids, out: Ids
    ) -> Tensor:
        """Mix the k-th offer on the rows that receive or give; the others keep what they have."""
        x = offer.value
        late = [row for row in came.late if offer.counts_sent or row.own is not None]
        late_links = np.array([row.link for row in late], np.int64) if late else _NONE
        givers = out if offer.counts_sent else _NONE
        plan = self._plans(links, offer.weight, x.shape[1], into, givers, late_links)
        if not plan.touched.shape[0]:  # len() of a tensor takes ten calls
            return x if offer.keeps else torch.zeros_like(x)
        overdue = [(row.row[k], None if row.own is None else row.own[k]) for row in late]
        carried, sent = came.parts[k], came.sent[k]
        if not is_wide(x) or carried.columns(slice(0, 1)) is None:
            return _mix(offer, plan, carried, sent, x, overdue)
        # Wide rows in runs of coordinates, which need little memory.
        mixed = torch.empty_like(x)
        for columns in columns_of(x):
            came_here, sent_here = carried.columns(columns), sent.columns(columns)
            assert came_here is not None  # one codec made both
            assert sent_here is not None
            late_here = [
                (row[columns], own if own is None else own[columns]) for row, own in overdue
            ]
            mixed[:, columns] = _mix(offer, plan, came_here, sent_here, x[:, columns], late_here)
        return mixed


Overdue = list[tuple[Tensor, Tensor | None]]  # what came late, and what went the other way then


def _mix(
    offer: Offer, plan: LinkPlan, came: Carried, sent: Carried, x: Tensor, overdue: Overdue
) -> Tensor:
    """Mix the rows that are touched; the others keep what they have."""
    here = x if plan.touched.shape[0] == x.shape[0] else x[plan.touched]
    total, mass = plan.sum_by_receiver(came)
    weight_sent = plan.sum_by_sender(sent)
    if overdue:
        moved = [row if own is None else row - own for row, own in overdue]
        total = plan.add_late(total, moved)
    scale, self_weight = offer.weigh(mass, weight_sent)
    # Most rules take what came as it is: no need for a product with one, over the whole row.
    came_in = total if isinstance(scale, int) and scale == 1 else scale * total
    mixed: Tensor = came_in + self_weight * here
    if here is x:
        return mixed
    others = x if offer.keeps else torch.zeros_like(x)
    return others.index_copy(0, plan.touched, mixed)

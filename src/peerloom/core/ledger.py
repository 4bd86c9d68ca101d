"""One account of what a run costs: gradients, messages, bytes, and time as the papers count it.

Everything is kept per row and per link. So the accounts of several processes add up exactly (a row
computes in one place, a link is charged where it is sent from), and every paper's delay can be
derived from the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .network import Network

__all__ = ["Ledger", "LinkAccount", "RowAccount"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_FORMER = {"normalised": "share"}  # what 0.1 called a figure


@dataclass
class RowAccount:
    """What each row spent on computing."""

    gradients: Counts
    time: Floats  # sum over rounds of v_i / d_i
    normalised: Floats  # the same, each round divided by what it costs when every row computes

    @classmethod
    def empty(cls, rows: int) -> RowAccount:
        """All zero."""
        return cls(np.zeros(rows, np.int64), np.zeros(rows), np.zeros(rows))


@dataclass
class LinkAccount:
    """What each link of a layer spent on sending."""

    messages: Counts
    nbytes: Counts
    paper_bits: Counts  # the same messages, counted as the papers do
    time: Floats  # sum over rounds of vhat_ij / b_ij
    normalised: Floats  # the same, each round divided by what it costs when every link fires

    @classmethod
    def empty(cls, links: int) -> LinkAccount:
        """All zero."""
        counts = [np.zeros(links, np.int64) for _ in range(3)]
        return cls(counts[0], counts[1], counts[2], np.zeros(links), np.zeros(links))


@dataclass
class Ledger:
    """The account of a run so far."""

    network: Network
    rows: RowAccount = field(init=False)
    layers: dict[str, LinkAccount] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = RowAccount.empty(self.network.clients)
        self.layers = {
            name: LinkAccount.empty(len(links)) for name, links in self.network.layers.items()
        }

    def computed(self, who: NDArray[np.int64], cost: Floats, batches: int | Counts = 1) -> None:
        """Rows `who` computed gradients on so many batches each; `cost` is 1 / d_i of every row."""
        self.rows.gradients[who] += batches
        self.rows.time[who] += batches * cost[who]
        self.rows.normalised[who] += batches * cost[who] / cost.sum()

    def sent(
        self,
        layer: str,
        out: NDArray[np.int64],
        nbytes: int | Counts,
        paper_bits: int | Counts,
        cost: Floats,
    ) -> None:
        """Links `out` carried one message each, of these lengths.

        `cost` is 1 / b_ij of every link of the layer.
        """
        if not len(out):
            return
        account, links = self.layers[layer], self.network.layers[layer]
        used = slice(None) if len(out) == len(links) else out  # a slice is added to in place
        account.messages[used] += 1
        account.nbytes[used] += nbytes
        account.paper_bits[used] += paper_bits
        account.time[used] += cost[used]
        account.normalised[used] += cost[used] / (cost @ links.inverse_in_degree)

    @property
    def gradients(self) -> int:
        """Gradients computed by all rows."""
        return int(self.rows.gradients.sum())

    @property
    def messages(self) -> int:
        """Messages sent on all links."""
        return sum(int(account.messages.sum()) for account in self.layers.values())

    @property
    def bytes(self) -> float:
        """Bytes sent on all links."""
        return float(sum(int(account.nbytes.sum()) for account in self.layers.values()))

    @property
    def paper_bytes(self) -> float:
        """Bytes sent on all links, counted as the papers do."""
        return sum(int(account.paper_bits.sum()) for account in self.layers.values()) / 8

    def processing_delay(self, *, normalised: bool = False) -> float:
        """DSpodFL's processing delay: sum over rounds of (1/m) sum_i v_i/d_i.

        That is as its code runs; normalised, it is as its paper writes it.
        """
        return (
            float(self.rows.normalised.sum())
            if normalised
            else float(self.rows.time.sum() / len(self.rows.time))
        )

    def transmission_delay(self, *, normalised: bool = False) -> float:
        """DSpodFL's transmission delay: sum of (1/m) sum_i (1/|N_i|) sum_j vhat_ij/b_ij.

        That is as its code runs; normalised, it is as its paper writes it.
        """
        total = 0.0
        for name, account in self.layers.items():
            links = self.network.layers[name]
            spent = account.normalised if normalised else account.time / links.rows
            total += float(spent @ links.inverse_in_degree)
        return total

    def delay(self, *, normalised: bool = False) -> float:
        """Processing and transmission together: the x axis of DSpodFL's figures."""
        return self.processing_delay(normalised=normalised) + self.transmission_delay(
            normalised=normalised
        )

    def delay_both_ways(self) -> float:
        """Spod-GT's delay on directed links, as run.

        It is the sum of processing, receiving (its tau_in) and sending (tau_out).
        """
        sending = 0.0
        for name, account in self.layers.items():
            links = self.network.layers[name]
            sending += float(account.time / links.rows @ (1 / links.out_degree[links.src]))
        return self.delay() + sending

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """All figures by name, as a checkpoint stores them: the ledger's own arrays, no copies."""
        flat: dict[str, NDArray[np.generic]] = {
            f"rows/{key}": value for key, value in vars(self.rows).items()
        }
        for name, account in self.layers.items():
            flat |= {f"{name}/{key}": value for key, value in vars(account).items()}
        return flat

    @classmethod
    def of(cls, network: Network, arrays: Mapping[str, NDArray[Any]]) -> Ledger:
        """The ledger with these figures, by the names of `arrays` or those of Peerloom 0.1."""
        ledger = cls(network)
        for name, values in ledger.arrays().items():
            account, _, figure = name.partition("/")
            if name in arrays:
                values[...] = arrays[name]
            elif figure == "nbytes":  # 0.1 counted bits
                values[...] = -(-arrays[f"{account}/bits"] // 8)
            else:
                values[...] = arrays[f"{account}/{_FORMER.get(figure, figure)}"]
        return ledger

    def part(self, rows: NDArray[np.int64]) -> Ledger:
        """What these rows and the links that leave them spent; parts add up to the whole."""
        part, clients = self.copy(), np.arange(self.network.clients)
        for values in vars(part.rows).values():
            values[~np.isin(clients, rows)] = 0
        for name, account in part.layers.items():
            for values in vars(account).values():
                values[~np.isin(self.network.layers[name].src, rows)] = 0
        return part

    @classmethod
    def total(cls, network: Network, accounts: Sequence[Ledger]) -> Ledger:
        """Add up the accounts of several processes: a row or link is charged in one of them."""
        ledger = cls(network)
        for name, values in ledger.arrays().items():
            for account in accounts:
                values += account.arrays()[name]  # type: ignore[misc]  # counts and times alike
        return ledger

    def copy(self) -> Ledger:
        """A ledger with the same figures that no longer follows the run."""
        twin = Ledger.__new__(Ledger)  # not as empty arrays first: a peer does this in every round
        twin.network = self.network
        twin.rows = RowAccount(*[values.copy() for values in vars(self.rows).values()])
        twin.layers = {
            name: LinkAccount(*[values.copy() for values in vars(account).values()])
            for name, account in self.layers.items()
        }
        return twin

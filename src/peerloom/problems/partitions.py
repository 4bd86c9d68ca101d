"""How samples are dealt to clients: in disjoint parts, none empty, by the seed alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, gammaln

from ..arguments import checked
from ..core import ConfigError, Draws

__all__ = ["IID", "PARTITIONS", "BySize", "Dirichlet", "Groups", "Labels", "Natural", "Partition"]

Ids = NDArray[np.int64]


@runtime_checkable
class Partition(Protocol):
    """A way to deal samples.

    One that sets `by = "owners"` is given the samples' owners in place of their labels, one that
    sets `iid = True` deals every client samples of the same distribution.
    """

    def deal(self, y: NDArray[np.generic], clients: int, draws: Draws) -> list[Ids]:
        """The sample numbers of each client."""


@checked
@dataclass(frozen=True)
class IID:
    """Shuffled and cut into equal parts: every client's data look alike."""

    iid: ClassVar[bool] = True

    def deal(self, y: NDArray[np.generic], clients: int, draws: Draws) -> list[Ids]:
        """Sizes differ by one at most."""
        _enough(len(y), clients)
        return [np.sort(part) for part in np.array_split(_shuffled(len(y), draws, "iid"), clients)]


@checked
@dataclass(frozen=True)
class BySize:
    """Shuffled and cut into parts of the given proportions, such as [5, 10, 20, 25, 40]."""

    sizes: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) <= 0:
            raise ConfigError(
                f"BySize.sizes must be positive shares, one per client; found {list(self.sizes)}."
            )

    def deal(self, y: NDArray[np.generic], clients: int, draws: Draws) -> list[Ids]:
        """Every client gets its share, rounded, and one sample at least."""
        if len(self.sizes) != clients:
            raise ConfigError(
                f"BySize has {len(self.sizes)} sizes for {clients} clients. Give one for each."
            )
        _enough(len(y), clients)
        return _cut(_shuffled(len(y), draws, "size"), np.asarray(self.sizes, np.float64))


@checked
@dataclass(frozen=True)
class Groups:
    """Groups of clients hold unequal shares of shuffled data, equal within a group.

    The default is MLL-SGD's 5, 10, 20, 25 and 40 per cent. The clients are cut into as many equal
    groups as there are shares, in their order; with `hubs`, within every hub, so that all hubs hold
    the same amount.
    """

    shares: tuple[float, ...] = (5, 10, 20, 25, 40)
    hubs: int = 1

    def __post_init__(self) -> None:
        if not self.shares or min(self.shares) <= 0 or self.hubs < 1:
            raise ConfigError(
                f"Groups needs positive shares and one hub at least; found {list(self.shares)} "
                f"and {self.hubs}."
            )

    def deal(self, y: NDArray[np.generic], clients: int, draws: Draws) -> list[Ids]:
        """As BySize, with the sizes of the groups."""
        each, rest = divmod(clients, len(self.shares) * self.hubs)
        if rest or not each:
            raise ConfigError(
                f"Groups: {clients} clients cannot be cut into {len(self.shares)} equal groups in "
                f"each of {self.hubs} hubs."
            )
        return BySize(tuple(np.tile(np.repeat(self.shares, each), self.hubs).tolist())).deal(
            y, clients, draws
        )


@checked
@dataclass(frozen=True)
class Natural:
    """Every client is an owner: a hospital's patients, a writer's digits.

    For data that know whose each sample is.
    """

    by: ClassVar[str] = "owners"

    def deal(self, y: NDArray[np.generic], clients: int, draws: Draws) -> list[Ids]:
        """The samples of owner i to client i."""
        owners = np.unique(y)
        if len(owners) != clients:
            raise ConfigError(
                f"Natural: the samples have {len(owners)} owners, but there are {clients} "
                "clients. Use as many clients, or data of fewer owners (mnist-writers has "
                "'writers', heart-disease 'sites')."
            )
        order = np.argsort(y, kind="stable")
        return np.split(order, np.searchsorted(y[order], owners[1:]))


@checked
@dataclass(frozen=True)
class Labels:
    """Every client holds `per_client` classes: DSpodFL's shards, each handed out once.

    There are clients * per_client shards, spread over the classes as evenly as possible (the rest
    to random classes); each class is shuffled and cut into equal shards. Each client draws its
    shards one after another, a class with a chance proportional to the shards it has left, and
    never the same class twice while per_client <= classes.

    `compat` deals as the authors' code did: every client that draws a class gets the same first
    shard of it, and may draw a class twice. Parts then overlap; only with one class per client and
    as many clients as classes are they the same as without.
    """

    per_client: int = 1
    compat: bool = False

    def __post_init__(self) -> None:
        if self.per_client < 1:
            raise ConfigError(f"Labels.per_client must be at least 1, found {self.per_client}.")

    def deal(self, y: NDArray[np.generic], clients: int, draws: Draws) -> list[Ids]:
        """Shards by class."""
        classes = _classes(y, "Labels")
        shards = clients * self.per_client
        left = np.full(len(classes), shards // len(classes))
        bonus = np.argsort(draws.once("partition/bonus", np.arange(len(classes)))[:, 0])[
            : shards % len(classes)
        ]
        left[bonus] += 1
        order = _shuffled(len(y), draws, "labels")
        piles: list[list[Ids]] = []
        for label, count in zip(classes, left, strict=True):
            mine = order[y[order] == label]
            if count > len(mine):
                raise ConfigError(
                    f"Labels: class {label} has {len(mine)} samples for {count} shards. Use fewer "
                    "clients, fewer labels per client, or more data."
                )
            piles.append(np.array_split(mine, count) if count else [])
        hands = self._choose(left, clients, draws)
        return [
            np.sort(np.concatenate([piles[c][0] if self.compat else piles[c].pop() for c in hand]))
            for hand in hands
        ]

    def _choose(self, left: Ids, clients: int, draws: Draws) -> list[list[int]]:
        """Classes for each client.

        A class with as many shards left as clients to come must be taken by each of them.
        """
        coins = draws.once("partition/choice", np.arange(clients), lanes=self.per_client)
        left, hands = left.copy(), []
        for i in range(clients):
            hand: list[int] = []
            for k in range(self.per_client):
                weight = left.astype(np.float64)
                if len(hand) < len(left) and not self.compat:
                    weight[hand] = 0  # no class twice while per_client <= classes
                    forced = (left >= clients - i) & (weight > 0)
                    weight = np.where(forced, weight, 0) if forced.any() else weight
                if not weight.any():
                    weight = left.astype(np.float64)
                chance = np.cumsum(weight) / weight.sum()
                hand.append(int(np.searchsorted(chance, coins[i, k], side="right")))
                left[hand[-1]] -= 1
            hands.append(hand)
        return hands


@checked
@dataclass(frozen=True)
class Dirichlet:
    """Each class is dealt by shares drawn from Dirichlet(theta, ..., theta).

    The smaller theta, the fewer classes a client has. A client left with fewer than `least` samples
    is given some of the largest client's, so none is empty.
    """

    theta: float
    least: int = 1

    def __post_init__(self) -> None:
        if self.theta <= 0 or self.least < 1:
            raise ConfigError(
                f"Dirichlet needs theta > 0 and least >= 1, found {self.theta} and {self.least}."
            )

    def deal(self, y: NDArray[np.generic], clients: int, draws: Draws) -> list[Ids]:
        """Shares by class, then the guard against empty clients."""
        _enough(len(y), clients * self.least)
        classes = _classes(y, "Dirichlet")
        order = _shuffled(len(y), draws, "dirichlet")
        u = draws.once("partition/share", np.arange(len(classes)), lanes=clients)
        # independent gammas, normalised, are Dirichlet
        gamma = np.exp(_log_gamma_samples(self.theta, u))
        hands: list[list[Ids]] = [[] for _ in range(clients)]
        for label, share in zip(classes, gamma / gamma.sum(axis=1, keepdims=True), strict=True):
            mine = order[y[order] == label]
            for hand, part in zip(
                hands,
                np.split(mine, np.rint(np.cumsum(share)[:-1] * len(mine)).astype(int)),
                strict=True,
            ):
                hand.append(part)
        parts = [np.concatenate(hand) for hand in hands]
        for i in range(clients):
            while len(parts[i]) < self.least:
                richest = int(np.argmax([len(part) for part in parts]))
                parts[richest], moved = parts[richest][:-1], parts[richest][-1:]
                parts[i] = np.concatenate([parts[i], moved])
        return [np.sort(part) for part in parts]


def _log_gamma_samples(theta: float, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of gamma(theta) samples, each row shifted so that its largest is 0.

    For small theta most samples are below the least double; there P(g < x) is x^theta / Gamma(theta
    + 1).
    """
    with np.errstate(divide="ignore"):
        log, tail = np.log(gammaincinv(theta, u)), (np.log(u) + gammaln(theta + 1)) / theta
    log = np.where(log > -600, log, tail)
    return np.asarray(log - log.max(axis=1, keepdims=True))


def _shuffled(count: int, draws: Draws, name: str) -> Ids:
    return np.argsort(draws.once(f"partition/{name}", np.arange(count))[:, 0], kind="stable")


def _cut(order: Ids, sizes: NDArray[np.float64]) -> list[Ids]:
    counts = np.diff(np.rint(np.cumsum(sizes) / sizes.sum() * len(order)).astype(int), prepend=0)
    while not counts.all():  # nobody is left empty: the largest gives
        counts[np.argmax(counts)] -= 1
        counts[np.argmin(counts)] += 1
    return [np.sort(part) for part in np.split(order, np.cumsum(counts)[:-1])]


def _classes(y: NDArray[np.generic], name: str) -> NDArray[np.generic]:
    if not np.issubdtype(y.dtype, np.integer):
        raise ConfigError(
            f"{name} deals samples by label, but the data have real targets. Use IID or BySize."
        )
    if y.ndim != 1:
        raise ConfigError(
            f"{name} deals samples by their one label, but these have {list(y.shape[1:])} labels "
            "each. Use IID or BySize."
        )
    return np.unique(y)


def _enough(samples: int, wanted: int) -> None:
    if samples < wanted:
        raise ConfigError(
            f"There are {samples} samples, but the partition needs {wanted} at least. Use fewer "
            "clients."
        )


PARTITIONS: dict[str, type[Partition]] = {
    "BySize": BySize,
    "Dirichlet": Dirichlet,
    "Groups": Groups,
    "IID": IID,
    "Labels": Labels,
    "Natural": Natural,
}

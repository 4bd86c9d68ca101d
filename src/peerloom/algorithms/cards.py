"""What `peerloom list algorithms` says of each: where it comes from, what it sends, what it is good for."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CARDS", "Card"]


class Card(NamedTuple):
    """One line each; what a rule needs stands with the rule."""

    paper: str
    sends: str  # along every link that fires
    good_for: str


CARDS: dict[str, Card] = {
    "AB": Card("Xin and Khan 2018", "x, y", "exact optima on directed graphs, with every link"),
    "ANQNIDS": Card("Michelusi et al. 2022", "difference of d", "exact optima with a few bits per coordinate"),
    "BEER": Card("Zhao et al. 2022", "differences of x, v", "compressed messages and unequal data together"),
    "CHOCO": Card("Koloskova et al. 2019", "difference of x", "compressed messages of any kind, by a plain rule"),
    "CooperativeSGD": Card("Wang and Joshi 2021", "x", "fewer messages: tau local steps between two of them"),
    "D2": Card("Tang et al. 2018", "extrapolated x", "unequal data, with one message per link and round"),
    "DCD": Card("Tang et al. 2018", "difference of x", "mild, unbiased compression"),
    "DFedAvg": Card("DSpodFL; Sun et al. 2022", "x", "the cycle DSpodFL compares with: D local rounds, then mixing"),
    "DFedAvgM": Card("Sun et al. 2022", "x", "several local steps with momentum in each round"),
    "DFedSAM": Card("Shi et al. 2023", "x", "models that generalise: local steps towards flat minima"),
    "DGD": Card("Nedic and Ozdaglar 2009; D-PSGD", "x", "the yardstick: everyone computes and talks in every round"),
    "DSGD": Card("Koloskova et al. 2020", "x - alpha g", "plain decentralized SGD on graphs that change"),
    "DSGT": Card("Pu and Nedic 2021", "x - alpha y, y", "unequal data on undirected graphs"),
    "DSMT": Card("Huang, Pu and Nedic", "x - alpha y, y", "noisy gradients: momentum is tracked"),
    "DSpodFL": Card("DSpodFL", "x", "slow clients and bad links: both act only when they can"),
    "Depositum": Card("DEPOSITUM", "z, y", "sparse models: any regulariser, momentum and local steps"),
    "DistributedSGD": Card("MLL-SGD", "x, to and from a server", "the yardstick with a server"),
    "EXTRA": Card("Shi et al. 2015", "x", "exact optima with a constant step"),
    "EpidemicLearning": Card("de Vos et al. 2023", "x - eta g", "fast spreading: random receivers in every round"),
    "FedADMM": Card(
        "Wang, Marella and Anderson 2022", "x + z/eta, to and from a server", "regularised problems, with a server"
    ),
    "FedAvg": Card("McMahan et al. 2017", "x, to and from a server", "clients with unequal amounts of data, with a server"),
    "FedDR": Card("Tran Dinh et al. 2021", "2 x - y, to and from a server", "regularised problems, with a server"),
    "FedDualAvg": Card("Yuan et al. 2021", "dual y, to and from a server", "sparse models that stay sparse under averaging"),
    "FedMiD": Card(
        "Yuan et al. 2021", "x, to and from a server", "regularised problems, by the simplest rule with a server"
    ),
    "GossipPushPull": Card("Pu et al. 2021", "x, y", "directed graphs where one node wakes at a time"),
    "HLSGD": Card("MLL-SGD", "x, by hubs", "two levels where nobody is slow"),
    "KGT": Card("Liu et al. 2023", "x, z", "several local steps on unequal data"),
    "LocalSGD": Card("Stich 2019", "x, to and from a server", "fewer messages under a server"),
    "MLLSGD": Card("MLL-SGD", "x, by hubs", "two levels with slow workers, for whom nobody waits"),
    "NIDS": Card("Li, Shi and Yan 2019", "extrapolated x", "step sizes that do not depend on the graph; regularisers"),
    "PaME": Card("PaME", "some coordinates of x", "thin links: part of a model to part of the neighbours"),
    "PairwiseGossip": Card("Boyd et al. 2006", "x", "one pair at a time"),
    "PeriodicGT": Card("Spod-GT (its K-GT)", "x, y", "tracking on directed graphs with rare messages"),
    "ProxGT": Card("Xin et al. 2021", "z, y, K times", "regularised problems on undirected graphs"),
    "PushDIGing": Card("Nedic, Olshevsky and Shi 2017", "u, w, y", "directed graphs where only out-degrees are known"),
    "PushPull": Card("Pu et al. 2021", "x - alpha y, y", "exact optima on directed graphs, with every link"),
    "RandomizedGossip": Card("DSpodFL (its RG)", "x", "bad links, able clients"),
    "SGP": Card("Assran et al. 2019", "u, w", "directed graphs, without trackers"),
    "SQuARM": Card(
        "Singh et al. 2021", "difference of x, if it is large", "fewest messages: silence until something changed"
    ),
    "SpodGT": Card("Spod-GT", "x, y", "slow clients, bad directed links and unequal data together"),
    "SporadicKGT": Card("Spod-GT", "x, y", "slow clients, good directed links"),
    "SporadicPushPull": Card("Spod-GT (its G-Push-Pull)", "x, y", "bad directed links, able clients"),
    "SporadicSGD": Card("DSpodFL", "x", "slow clients, good links"),
    "SubgradientPush": Card("Nedic and Olshevsky 2015", "u, w", "losses with corners, on directed graphs"),
    "SynchronousGT": Card("Spod-GT", "x, y", "Spod-GT's own yardstick: everyone in every round"),
}

"""The algorithms, one per equation. They see the port and nothing else."""

from ..core import Algorithm
from .compressed import BEER, CHOCO, DCD
from .corrected import D2, EXTRA, NIDS
from .depositum import DSMT, Depositum, ProxGT
from .dspodfl import DGD, DFedAvg, DSpodFL, RandomizedGossip, SporadicSGD
from .gossip import DSGD, CooperativeSGD, EpidemicLearning, PairwiseGossip
from .local import KGT, DFedAvgM, DFedSAM
from .mll_sgd import HLSGD, MLLSGD, LocalSGD
from .pame import PaME
from .server import FedADMM, FedDR, FedDualAvg, FedMiD
from .spod_gt import PeriodicGT, SpodGT, SporadicKGT, SporadicPushPull, SynchronousGT
from .tracking import AB, DSGT, SGP, PushDIGing, PushPull, SubgradientPush

__all__ = [
    "AB",
    "ALGORITHMS",
    "BEER",
    "CHOCO",
    "D2",
    "DCD",
    "DGD",
    "DSGD",
    "DSGT",
    "DSMT",
    "EXTRA",
    "HLSGD",
    "KGT",
    "MLLSGD",
    "NIDS",
    "SGP",
    "CooperativeSGD",
    "DFedAvg",
    "DFedAvgM",
    "DFedSAM",
    "DSpodFL",
    "Depositum",
    "EpidemicLearning",
    "FedADMM",
    "FedDR",
    "FedDualAvg",
    "FedMiD",
    "LocalSGD",
    "PaME",
    "PairwiseGossip",
    "PeriodicGT",
    "ProxGT",
    "PushDIGing",
    "PushPull",
    "RandomizedGossip",
    "SpodGT",
    "SporadicKGT",
    "SporadicPushPull",
    "SporadicSGD",
    "SubgradientPush",
    "SynchronousGT",
]

ALGORITHMS: dict[str, type[Algorithm]] = {
    "AB": AB,
    "BEER": BEER,
    "CHOCO": CHOCO,
    "CooperativeSGD": CooperativeSGD,
    "D2": D2,
    "DCD": DCD,
    "DFedAvg": DFedAvg,
    "DFedAvgM": DFedAvgM,
    "DFedSAM": DFedSAM,
    "DGD": DGD,
    "DSGD": DSGD,
    "DSGT": DSGT,
    "DSMT": DSMT,
    "DSpodFL": DSpodFL,
    "Depositum": Depositum,
    "EXTRA": EXTRA,
    "EpidemicLearning": EpidemicLearning,
    "FedADMM": FedADMM,
    "FedDR": FedDR,
    "FedDualAvg": FedDualAvg,
    "FedMiD": FedMiD,
    "HLSGD": HLSGD,
    "KGT": KGT,
    "LocalSGD": LocalSGD,
    "MLLSGD": MLLSGD,
    "NIDS": NIDS,
    "PaME": PaME,
    "PairwiseGossip": PairwiseGossip,
    "PeriodicGT": PeriodicGT,
    "ProxGT": ProxGT,
    "PushDIGing": PushDIGing,
    "PushPull": PushPull,
    "RandomizedGossip": RandomizedGossip,
    "SGP": SGP,
    "SpodGT": SpodGT,
    "SporadicKGT": SporadicKGT,
    "SporadicPushPull": SporadicPushPull,
    "SporadicSGD": SporadicSGD,
    "SubgradientPush": SubgradientPush,
    "SynchronousGT": SynchronousGT,
}

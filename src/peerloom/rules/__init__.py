"""The algorithms, one per equation. They see the port and nothing else."""

from ..core import REGISTERED, Rule
from .alternating import Alternating
from .chebyshev import Chebyshev
from .compressed import ANQNIDS, BEER, CHOCO, DCD, SQuARM
from .corrected import D2, EXTRA, NIDS
from .depositum import DSMT, AcceleratedDSMT, Depositum
from .dspodfl import DGD, DFedAvg, DSpodFL, RandomizedGossip, SporadicSGD
from .gossip import DSGD, CooperativeSGD, EpidemicLearning, GossipPushPull, PairwiseGossip
from .local import KGT, DFedAvgM, DFedSAM, QuantisedDFedAvgM
from .mll_sgd import HLSGD, MLLSGD, DistributedSGD, FedAvg, LocalSGD
from .optimizers import DAdam, LocalAdamW, LocalSGDM
from .outer import DiLoCo, NoLoCo
from .pame import PaME
from .proxgt import PMGTSVRG, ProxGT, ProxGTSRE, ProxGTSRO
from .server import FedADMM, FedDR, FedDualAvg, FedMiD
from .spod_gt import PeriodicGT, SpodGT, SporadicKGT, SporadicPushPull, SynchronousGT
from .tracking import AB, DSGT, SGP, PushDIGing, PushPull, SubgradientPush

__all__ = [
    "AB",
    "ANQNIDS",
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
    "PMGTSVRG",
    "RULES",
    "SGP",
    "AcceleratedDSMT",
    "Alternating",
    "Chebyshev",
    "CooperativeSGD",
    "DAdam",
    "DFedAvg",
    "DFedAvgM",
    "DFedSAM",
    "DSpodFL",
    "Depositum",
    "DiLoCo",
    "DistributedSGD",
    "EpidemicLearning",
    "FedADMM",
    "FedAvg",
    "FedDR",
    "FedDualAvg",
    "FedMiD",
    "GossipPushPull",
    "LocalAdamW",
    "LocalSGD",
    "LocalSGDM",
    "NoLoCo",
    "PaME",
    "PairwiseGossip",
    "PeriodicGT",
    "ProxGT",
    "ProxGTSRE",
    "ProxGTSRO",
    "PushDIGing",
    "PushPull",
    "QuantisedDFedAvgM",
    "RandomizedGossip",
    "SQuARM",
    "SpodGT",
    "SporadicKGT",
    "SporadicPushPull",
    "SporadicSGD",
    "SubgradientPush",
    "SynchronousGT",
]

RULES: dict[str, type[Rule]] = dict(sorted(REGISTERED.items()))
"""The rules of this room, which register themselves where they stand."""

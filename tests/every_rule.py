"""Arguments for every rule."""

import peerloom as pl
from peerloom.rules import RULES

# Every rule once, with arguments that make sense on the contract's small quadratics.
EVERY = {name: {"lr": 0.05} for name in RULES} | {
    "Depositum": {"alpha": 0.05, "beta": 0.5, "gamma": 0.4, "nesterov": True},
    "AcceleratedDSMT": {"lr": 0.05, "modulus": 0.6},
    "Alternating": {"rule": RULES["DSGT"](lr=0.05), "first": ((0, 2),)},
    "Chebyshev": {"rule": RULES["DSGT"](lr=0.05), "K": 3, "modulus": 0.7},
    "BEER": {"lr": 0.05, "gamma": 0.3},
    "DiLoCo": {"lr": 0.02, "K": 3},
    "LocalAdamW": {"lr": 0.05, "K": 2, "clip": 2.0},
    "LocalSGDM": {"lr": 0.05, "K": 2, "nesterov": True},
    "NoLoCo": {"lr": 0.02, "K": 3, "clip": 2.0},
    "PMGTSVRG": {"lr": 0.05, "q": 5},
    "ProxGTSRE": {"lr": 0.05, "q": 4},
    "ProxGTSRO": {"lr": 0.05, "q": 4, "large": 3},
    "PaME": {"sigma": 4.0, "growth": 1.01},
    "SQuARM": {"lr": 0.02, "gamma": 0.3, "H": 2, "c": 30.0},
    "SporadicSGD": {"lr": pl.rates.InverseSqrt(0.1, 20)},
    "SubgradientPush": {"lr": pl.rates.InverseSqrt(0.1, 20)},
}

"""Arguments for every rule."""

import peerloom as pl
from peerloom.rules import RULES

# Every rule once, with arguments that make sense on the contract's small quadratics.
EVERY = {name: {"lr": 0.05} for name in RULES} | {
    "Depositum": {"alpha": 0.05, "beta": 0.5, "gamma": 0.4, "nesterov": True},
    "BEER": {"lr": 0.05, "gamma": 0.3},
    "PaME": {"sigma": 4.0, "growth": 1.01},
    "SQuARM": {"lr": 0.02, "gamma": 0.3, "H": 2, "c": 30.0},
    "SporadicSGD": {"lr": pl.rates.InverseSqrt(0.1, 20)},
    "SubgradientPush": {"lr": pl.rates.InverseSqrt(0.1, 20)},
}

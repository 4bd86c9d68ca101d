"""What DSpodFL says of its figures and tables, in its own words."""

from __future__ import annotations

from .claims import Source

__all__ = [
    "AT_FIFTY",
    "BEST_BALANCE",
    "BEST_OF_CATEGORY",
    "BEST_RADII",
    "BEST_SHARES",
    "BEST_STEP",
    "CIFAR_SWEEPS",
    "EARLY",
    "FINAL",
    "GAP_AT_FIFTY",
    "GAP_OF_BETA",
    "LARGEST_GAIN",
    "LOWER_THAN_DGD",
    "MODES",
    "MORE_LABELS",
    "MORE_RADIUS",
    "OUTPERFORMS",
    "OUTPERFORMS_REDRAWN",
    "OUTPERFORMS_UNIFORM",
    "PRINTED_DELAYS",
    "PRINTED_ROUNDS",
    "ROBUST",
    "ROBUST_BETA",
    "ROBUST_GAIN",
    "SIMILAR_DELAYS",
    "SOMEWHERE",
    "WIDER_MARGIN",
]

OUTPERFORMS = Source(
    words="DSpodFL outperforms all baselines for both data distributions and models/datasets",
    place="section 5, on figure 2",
)
EARLY = Source(
    words="able to significantly outperform those algorithms by an accuracy margin of 10 - 20% in "
    "the initial stages of training",
    place="section 5, on figures 2a and 2c",
)
SOMEWHERE = Source(
    words="Depending on the baseline and dataset, DSpodFL is able to achieve 10 - 40% improvement "
    "in accuracy for a particular delay",
    place="section 5, on figure 2",
)
MORE_LABELS = Source(
    words="increasing number of labels possessed by each client (moving from non-IID to IID) "
    "improves the achieved accuracy of all methods",
    place="section 5, on figure 3a",
)
BEST_SHARES = Source(
    words="DSpodFL outperforms the baselines for each data distribution",
    place="section 5, on figure 3a",
)
MORE_RADIUS = Source(
    words="increasing the radius of the underlying RGG (which controls the density of "
    "connections) improves the achievable accuracy for all baselines",
    place="section 5, on figure 3b",
)
BEST_RADII = Source(
    words="DSpodFL performs the best for all choices of radii",
    place="section 5, on figure 3b",
)
LARGEST_GAIN = Source(
    words="DSpodFL obtains the largest improvement as the size of the network increases",
    place="section 5, on figure 3c",
)
ROBUST_BETA = Source(
    words="DSpodFL is robust to the underlying resource distribution",
    place="section 5, on figure 3d",
)
GAP_OF_BETA = Source(
    words="the gap between our approach and other baselines become more significant when levels "
    "of heterogeneity in client/link resources are higher",
    place="section 5, on figure 3d",
)
AT_FIFTY = Source(
    words="The results illustrate that the improvements become more pronounced with",
    place="section 5, on figure 4a",
)
MODES = Source(
    words="a wider margin of improvement (15%) with lower", place="section 5, on figure 4b"
)
OUTPERFORMS_UNIFORM = Source(
    words="our DSpodFL method outperforms the baselines in terms of accuracy per overall delay",
    place="appendix O.1, on figure 5",
)
ROBUST_GAIN = Source(
    words="the performance gain of our DSpodFL method compared to the baselines is robust "
    "regardless of the variation in system parameters",
    place="appendix O.2, on figure 6",
)
CIFAR_SWEEPS = Source(
    words="DSpodFL outperforms the state-of-the-art in various settings",
    place="appendix O.3, on figure 7",
)
OUTPERFORMS_REDRAWN = Source(
    words="our DSpodFL method outperforms the baselines in terms of accuracy per overall delay "
    "regardless of the time-variation in SGD and aggregation probabilities",
    place="appendix O.4, on figure 8",
)
PRINTED_ROUNDS = Source(
    words="we give the results for several sampled iterations", place="appendix O.5, tables 2 and 3"
)
FINAL = Source(
    words="the final achievable accuracy is the same for all baselines", place="appendix O.5"
)
LOWER_THAN_DGD = Source(
    words="it is not unexpected for the accuracy of DSpodFL to be lower than DGD across the "
    "iterations",
    place="appendix O.5",
)
PRINTED_DELAYS = Source(
    words="We have reported how long it takes for different algorithms to achieve a specific "
    "accuracy",
    place="appendix O.6, tables 4 and 5",
)
BEST_BALANCE = Source(
    words="DSpodFL strikes the best balance between transmission and processing delays, leading to "
    "a better overall delay",
    place="appendix O.6",
)
SIMILAR_DELAYS = Source(
    words="it obtains a similar processing delay to the Sporadic SGDs algorithm and transmission "
    "delay to RG",
    place="appendix O.6",
)
BEST_OF_CATEGORY = Source(
    words="which are the best baselines in those respective categories", place="appendix O.6"
)
WIDER_MARGIN = Source(
    words="We see a wider margin of improvement with a relatively larger",
    place="appendix O.7, on figure 9b",
)
GAP_AT_FIFTY = Source(
    words="the improvement gap between DSpodFL and other baselines becomes even more significant "
    "compared to Fig. 3b",
    place="appendix O.8, on figure 10a",
)
ROBUST = Source(
    words="DSpodFL is more robust to variations in",
    place="appendix O.8, on figures 10b and 10c",
)
BEST_STEP = Source(
    words="even the best performance of the baselines is lower than our DSpodFL algorithm with "
    "learning rates",
    place="appendix O.9, on figure 11",
)

"""What PaME says of its figures, in its own words."""

from __future__ import annotations

from .claims import Source

__all__ = [
    "ALREADY_NEAR",
    "BEST_AT_ONE",
    "CONSISTENT",
    "DEGRADATION",
    "DFEDSAM_SECOND",
    "FASTEST",
    "FASTEST_OF_ALL",
    "FEWEST_ROUNDS",
    "FEWEST_TO_CONVERGE",
    "HALF",
    "HIGHEST",
    "LESS_AT_LARGE_M",
    "LOWEST_COST",
    "MARGINAL",
    "MINIMAL",
    "MORE_NODES",
    "MORE_NODES_FASTER",
    "NEGLIGIBLE",
    "OUTPERFORMS",
    "PARTICIPATION",
    "RATE_HELPS",
    "SATURATES",
    "SHORTER",
    "SLOWER",
]

ALREADY_NEAR = Source(
    words="with a transmission rate of only 0.1, the final objective already approximates that "
    "obtained under full transmission",
    place="section V-C1, on figure 2a",
)
MORE_NODES = Source(
    words="a larger number of nodes m tends to improve performance under low transmission rates",
    place="section V-C1, on figure 2a",
)
NEGLIGIBLE = Source(
    words="the marginal gain becomes negligible once the rate exceeds approximately 0.2",
    place="section V-C1, on figure 3",
)
RATE_HELPS = Source(
    words="higher transmission rates accelerate convergence", place="section V-C1, on figure 3"
)
PARTICIPATION = Source(
    words="higher participation rates accelerate convergence", place="section V-C2, on figure 4"
)
MARGINAL = Source(
    words="increasing r from 0.1 to 0.2 significantly boosts convergence speed, whereas further "
    "increases yield only marginal gains",
    place="section V-C2, on figure 4",
)
MINIMAL = Source(
    words="the CP has minimal influence on the final objective value",
    place="section V-C3, on figures 2c and 2d",
)
SHORTER = Source(
    words="shorter CPs generally accelerate convergence", place="section V-C3, on figure 5"
)
LESS_AT_LARGE_M = Source(
    words="this effect becomes less pronounced as the number of nodes m increases",
    place="section V-C3, on figures 5 and 6",
)
SLOWER = Source(
    words="heterogeneous CPs consistently yield slightly slower convergence than the homogeneous "
    "setting across all configurations",
    place="section V-C3, on figure 6",
)
SATURATES = Source(
    words="the final objective quickly saturates and becomes nearly insensitive to further "
    "increases in either parameter",
    place="section V-C4, on figure 7",
)
CONSISTENT = Source(
    words="requiring approximately 200 iterations", place="section V-C4, on figure 7"
)
MORE_NODES_FASTER = Source(
    words="increasing m accelerates convergence", place="section V-D5, on figure 8"
)
FASTEST = Source(
    words="PaME consistently outperforms all competing algorithms in terms of convergence speed",
    place="section V-D5, on figure 8",
)
FEWEST_ROUNDS = Source(
    words="requiring the fewest communication rounds to achieve the highest test accuracy",
    place="section V-D5, on figure 8",
)
DFEDSAM_SECOND = Source(
    words="DFedSAM generally secures the second-best performance, whereas BEER and ANQ-NIDS "
    "exhibit slower convergence",
    place="section V-D5, on figure 8",
)
FEWEST_TO_CONVERGE = Source(
    words="PaME consistently requires the fewest CR across all configurations",
    place="section V-D6, on figure 9",
)
LOWEST_COST = Source(
    words="Across all examined settings, PaME attains the lowest communication cost",
    place="section V-D6, on figure 10",
)
HALF = Source(
    words="typically reducing the transmitted volume by at least 50% compared with the other "
    "methods in most configurations",
    place="section V-D6, on figure 10",
)
DEGRADATION = Source(
    words="degradation across all evaluated methods", place="section V-D7, on figure 11"
)
FASTEST_OF_ALL = Source(
    words="PaME consistently maintains the fastest convergence speed across all scenarios",
    place="section V-D7, on figure 11",
)
BEST_AT_ONE = Source(
    words="PaME outperforms competing algorithms and achieves superior final accuracy",
    place="section V-D7, on figure 11",
)
OUTPERFORMS = Source(
    words="PaME consistently outperforms other decentralized baselines",
    place="section V-D7, on figure 12",
)
HIGHEST = Source(
    words="achieves the highest accuracy among the compared methods",
    place="section V-D7, on figure 12",
)

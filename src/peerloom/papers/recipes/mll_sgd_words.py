"""What MLL-SGD says of its figures, in its own words."""

from __future__ import annotations

from .claims import Source

__all__ = [
    "APPROACHES_TOO",
    "IMPROVEMENT",
    "IMPROVES",
    "LITTLE_DIFFERENCE",
    "MINIMAL",
    "OUTPERFORMS",
    "OUTPERFORM_TOO",
    "QUICKER",
    "SAME_RATE",
    "SAME_RATE_TOO",
    "SHIPPED",
    "SLOWER",
]

IMPROVES = Source(
    words="MLL-SGD improves and approaches the Distributed SGD baseline",
    place="section 6, on figure 1",
)
MINIMAL = Source(
    words="the difference in training loss is minimal among the MLL-SGD variations",
    place="section 6, on figure 2",
)
SLOWER = Source(
    words="as the number of hubs increase, the convergence rate decreases",
    place="section 6, on figure 3",
)
OUTPERFORMS = Source(
    words="despite the low hub network connectivity, MLL-SGD outperforms Local SGD",
    place="section 6, on figures 2 and 3",
)
SAME_RATE = Source(
    words="in all cases except the baseline, the convergence rate is similar in both models",
    place="section 6, on figures 4 and 5",
)
QUICKER = Source(
    words="converges more quickly, in both loss and accuracy, than Local SGD, and that MLL-SGD "
    "with q = 4 converges more quickly than HL-SGD",
    place="section 6, on figure 6",
)
APPROACHES_TOO = Source(
    words="MLL-SGD with larger q approaches the Distributed SGD baseline",
    place="appendix B, on figure 7",
)
LITTLE_DIFFERENCE = Source(
    words="The three variations of MLL-SGD do not show much difference in terms of convergence "
    "rate",
    place="appendix B, on figure 8",
)
OUTPERFORM_TOO = Source(
    words="they still outperform Local SGD due to q being larger", place="appendix B, on figure 8"
)
SAME_RATE_TOO = Source(
    words="all MLL-SGD variations with the same average probability have similar convergence rate",
    place="appendix B, on figure 9",
)
IMPROVEMENT = Source(
    words="an improvement in convergence rate of MLL-SGD over both Local SGD and HL-SGD",
    place="appendix B, on figure 10",
)
SHIPPED = Source(
    words="The code used in our experiments can be found at",
    place="appendix A; the numbers are in files of that code",
)

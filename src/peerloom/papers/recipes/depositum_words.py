"""What DEPOSITUM says of its figures and its table III, in its own words."""

from __future__ import annotations

from .claims import Source

__all__ = [
    "BEST",
    "CALMER",
    "COMPLETE",
    "DECLINES",
    "DECREASES",
    "DEEPER",
    "FASTER",
    "FURTHER_APART",
    "JAGGED",
    "LARGER_ERRORS",
    "LIMITED",
    "MOMENTUM",
    "PRINTED",
    "PRODUCT",
    "RESNET",
    "SAME_LEVEL",
    "SHARES",
    "SPEEDUP",
    "TEETH",
    "UNEVEN",
]

SHARES = Source(
    words="the total proportion for each class across clients sums to 1", place="figure 2"
)
UNEVEN = Source(
    words="With Dir(0.1) (b), the distributions are more uneven across clients", place="figure 2"
)
FASTER = Source(
    words="With larger step size parameters, the loss function, gradient estimation errors, and "
    "proximal gradient decrease more rapidly",
    place="section V-B1, on figures 3a to 3c",
)
FURTHER_APART = Source(
    words="show the opposite trend (Fig. 3(d))", place="section V-B1, on figure 3d"
)
CALMER = Source(words="appears to be less sensitive to", place="section V-B1, on figures 3e and 3f")
PRODUCT = Source(
    words="align closely, indicating that the product primarily influences the training of model "
    "parameters",
    place="section V-B1, on figures 3a, 3c and 3d",
)
JAGGED = Source(
    words="the jagged pattern in Fig. 3(d) results from the communication period",
    place="section V-B1, on figure 3d",
)
MOMENTUM = Source(
    words="momentum improves algorithm performance to some extent",
    place="section V-B2, on figure 4",
)
SAME_LEVEL = Source(
    words="after the same number of iterations, the training loss and test accuracy remain at "
    "nearly the same level",
    place="section V-B3, on figures 5a and 5b",
)
LARGER_ERRORS = Source(
    words="leads to larger consensus errors of", place="section V-B3, on figure 5c"
)
TEETH = Source(
    words="and more pronounced jagged pattern in the plot", place="section V-B3, on figure 5c"
)
COMPLETE = Source(
    words="DEPOSITUM shows improved performance on the complete graph",
    place="section V-B4, on figure 6",
)
LIMITED = Source(
    words="the overall impact of different network topologies remains relatively limited",
    place="section V-B4, on figure 6",
)
SPEEDUP = Source(
    words="DEPOSITUM accelerates with an increasing number of clients",
    place="section V-B5, on figure 7",
)
PRINTED = Source(
    words="The average TOP-1 accuracy and standard deviation of different algorithms",
    place="table III",
)
BEST = Source(
    words="compared to other algorithms, our proposed DEPOSITUM achieves the best performance",
    place="section V-C, on table III",
)
DECREASES = Source(
    words="the accuracy decreases slightly when transitioning from an IID data distribution to a "
    "mildly heterogeneous distribution (Dir(1))",
    place="section V-C, on table III",
)
DECLINES = Source(
    words="Under the Dir(0.1) distribution, the accuracy generally further declines",
    place="section V-C, on table III",
)
DEEPER = Source(
    words="CNN generally outperforms MLP on the MNIST/EMNIST/FMNIST dataset",
    place="section V-C, on table III",
)
RESNET = Source(
    words="the more complex ResNet-18 achieves superior performance than both CNN and MLP on the "
    "FMNIST dataset, and CNN on the CIFAR-10 dataset",
    place="section V-C, on table III",
)

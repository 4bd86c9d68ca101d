"""What is to be minimised: models, data, partitions, losses and regularisers."""

from ..core import Problem
from .classification import Classification
from .convnets import CNN, MLLCNN, VGG11, CifarResNet, LeNet, ResNet18
from .data import DATA, Dataset, blobs, digits, linear_regression, logistic_regression
from .losses import LOSSES
from .models import MLP, MODELS, Linear
from .partitions import IID, PARTITIONS, BySize, Dirichlet, Labels
from .quadratic import Quadratic
from .regularisers import L1, L2, MCP, REGULARISERS, SCAD, Box, Zero

__all__ = [
    "CNN",
    "DATA",
    "IID",
    "L1",
    "L2",
    "LOSSES",
    "MCP",
    "MLLCNN",
    "MLP",
    "MODELS",
    "PARTITIONS",
    "PROBLEMS",
    "REGULARISERS",
    "SCAD",
    "VGG11",
    "Box",
    "BySize",
    "CifarResNet",
    "Classification",
    "Dataset",
    "Dirichlet",
    "Labels",
    "LeNet",
    "Linear",
    "Quadratic",
    "ResNet18",
    "Zero",
    "blobs",
    "digits",
    "linear_regression",
    "logistic_regression",
]

PROBLEMS: dict[str, type[Problem]] = {"Classification": Classification, "Quadratic": Quadratic}

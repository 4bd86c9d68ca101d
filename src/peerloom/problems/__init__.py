"""What is to be minimised: models, data, partitions, losses and regularisers."""

from collections.abc import Callable

from ..core import Problem
from .classification import Classification
from .convnets import CNN, MLLCNN, VGG11, CifarResNet, LeNet, ResNet18
from .data import Dataset, digits, part
from .images import cifar10, emnist_letters, fashion_mnist, mnist, mnist_writers
from .loop import Loop
from .losses import LOSSES
from .models import MLP, MODELS, Linear
from .own import own
from .partitions import IID, PARTITIONS, BySize, Dirichlet, Groups, Labels, Natural
from .quadratic import Quadratic
from .records import a9a, heart_disease
from .regularisers import L1, L2, MCP, REGULARISERS, SCAD, Box, Zero
from .synthetic import blobs, linear_regression, logistic_regression
from .task import Task

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
    "Groups",
    "Labels",
    "LeNet",
    "Linear",
    "Loop",
    "Natural",
    "Quadratic",
    "ResNet18",
    "Task",
    "Zero",
    "a9a",
    "blobs",
    "cifar10",
    "digits",
    "emnist_letters",
    "fashion_mnist",
    "heart_disease",
    "linear_regression",
    "logistic_regression",
    "mnist",
    "mnist_writers",
    "own",
    "part",
]

PROBLEMS: dict[str, type[Problem]] = {
    "Classification": Classification,
    "Loop": Loop,
    "Quadratic": Quadratic,
    "Task": Task,
}

DATA: dict[str, Callable[..., Dataset]] = {
    "a9a": a9a,
    "blobs": blobs,
    "cifar10": cifar10,
    "digits": digits,
    "emnist-letters": emnist_letters,
    "fashion-mnist": fashion_mnist,
    "heart-disease": heart_disease,
    "linear_regression": linear_regression,
    "logistic_regression": logistic_regression,
    "mnist": mnist,
    "mnist-writers": mnist_writers,
    "own": own,
    "part": part,
}

"""Apps of `flwr new`, from the templates that an installed Flower brings; only their data are ours.

Nothing of them lies in this repository: they are written to a folder when a test wants them.
"""

import ast
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from string import Template

import numpy as np
import torch

import peerloom as pl
from peerloom.problems import DATA
from tests.environments import named, packages_of

# Kind of template: the files of its app, the one that loads data, and how its server begins.
FILES = {
    kind: {"client_app.py": "client", "task.py": "task"}
    for kind in ("numpy", "pytorch", "pytorch_legacy_api", "sklearn")
} | {"baseline": {"client_app.py": "client", "dataset.py": "dataset", "model.py": "model"}}
CONFIG = {"pytorch": {"lr": 0.01}}  # what the app's server sends along
CLIENTS = 3
_DATA = {"load_data", "fds", "FDS", "pytorch_transforms", "apply_transforms"}
_LIBRARIES = {"flwr_datasets", "torchvision"}


def templates():
    """The folder of an installed Flower that still brings templates."""
    places = [
        packages_of(each) / "flwr" / "cli" / "new" / "templates" / "app" for each in named("flower")
    ]
    return next(place for place in places if place.is_dir())


def text_of(kind, part):
    """One file of an app, as `flwr new` would write it."""
    names = {"project_name": kind, "framework_str": kind, "import_name": package(kind)}
    names |= {"package_name": kind, "username": "nobody"}
    file = f"{part}.{kind}.{'toml' if part == 'pyproject' else 'py'}.tpl"
    folder = templates() if part == "pyproject" else templates() / "code"
    return Template((folder / file).read_text()).substitute(names)


def package(kind):
    return f"flwr_new_{kind}"


def with_own_data(text, source):
    """The text with `load_data` taken from elsewhere: all other lines stay as they are."""
    lines, dropped = text.splitlines(keepends=True), 0
    for node in reversed(ast.parse(text).body):
        if _is_data(node):
            del lines[node.lineno - 1 : node.end_lineno]
            dropped += 1
    assert dropped, "the template no longer loads data as it did"
    return "".join(lines) + f"\n\nfrom {__name__} import {source} as load_data\n"


def _is_data(node):
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] in _LIBRARIES
    if isinstance(node, ast.Assign):
        return any(isinstance(each, ast.Name) and each.id in _DATA for each in node.targets)
    return isinstance(node, ast.FunctionDef) and node.name in _DATA


def write(kind, folder):
    """Write an app into a folder from which it can be imported."""
    home = Path(folder) / package(kind)
    home.mkdir(parents=True, exist_ok=True)
    (home / "__init__.py").write_text("")
    for file, part in FILES[kind].items():
        text = text_of(kind, part)
        if "def load_data" in text:
            text = with_own_data(text, "digits" if kind == "sklearn" else "images")
        (home / file).write_text(text)


def program(kind, folder):
    """An app of `flwr new` as a problem, begun as its server begins."""
    if not (Path(folder) / package(kind)).exists():
        write(kind, folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    for name in [name for name in sys.modules if name.startswith(package(kind))]:
        del sys.modules[name]
    client = import_module(f"{package(kind)}.client_app")
    task = import_module(f"{package(kind)}.{'model' if kind == 'baseline' else 'task'}")
    run_config = tomllib.loads(text_of(kind, "pyproject"))["tool"]["flwr"]["app"]["config"]
    begin = {
        "numpy": lambda: task.get_dummy_model(),
        "pytorch": lambda: task.Net().state_dict(),
        "pytorch_legacy_api": lambda: task.get_weights(task.Net()),
        "sklearn": lambda: _logistic_regression(task, run_config),
        "baseline": lambda: task.Net().state_dict(),
    }
    return pl.hosts.FlowerApp(client.app, begin[kind], run_config, CONFIG.get(kind, {}))


def _logistic_regression(task, run_config):
    model = task.get_model(run_config["penalty"], run_config["local-epochs"])
    task.set_initial_params(model)
    return task.get_model_params(model)


# -- data in the shape that the apps expect


def images(client, clients):
    """Loaders of digits, blown up to the size and colours of CIFAR-10, for training and testing."""
    data = DATA["digits"]()
    mine = slice(client, 64 * clients, clients)
    small = torch.as_tensor(np.array(data.x[mine])).reshape(-1, 1, 8, 8).float()
    large = torch.nn.functional.interpolate(small, scale_factor=4).repeat(1, 3, 1, 1)
    labels = torch.as_tensor(np.array(data.y[mine])).long()
    held = [{"img": img, "label": int(y)} for img, y in zip(large, labels, strict=True)]
    train = torch.utils.data.DataLoader(held[:48], batch_size=16, shuffle=True)
    return train, torch.utils.data.DataLoader(held[48:], batch_size=16)


def digits(client, clients):
    """Digits as rows of 784 numbers, in four arrays, as the app of scikit-learn takes them."""
    data = DATA["digits"]()
    mine = slice(client, 240 * clients, clients)
    small = np.array(data.x[mine], float).reshape(-1, 8, 8)
    x = np.zeros((len(small), 28, 28))
    x[:, 10:18, 10:18] = small
    x, y = x.reshape(len(x), -1), np.array(data.y[mine])
    return x[:120], x[120:], y[:120], y[120:]

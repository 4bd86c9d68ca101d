"""Public data sets of people's records, read from files on this machine.

`peerloom data get` fetches them.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, nearest, uniform
from ..datasets import read
from .data import Dataset, loaded_once

__all__ = ["a9a", "heart_disease"]

Site = Literal["cleveland", "hungarian", "switzerland", "va-long-beach"]

_SITES: dict[str, str] = {
    "cleveland": "processed.cleveland.data",
    "hungarian": "processed.hungarian.data",
    "switzerland": "processed.switzerland.data",
    "va-long-beach": "processed.va.data",
}

# For each attribute a neutral value, which also stands for a missing one, and a scale. They are
# round numbers from general knowledge (normal findings, the middle of a range of codes, an ordinary
# adult patient), not computed from these patients: so no hospital needs to know anything about
# another's, and the test part tells the training part nothing.
_ATTRIBUTES: dict[str, tuple[float, float]] = {
    "age": (55, 10),  # years
    "sex": (0.5, 0.5),  # 1 male, 0 female
    "cp": (2.5, 1),  # chest pain: 1 typical angina ... 4 none
    "trestbps": (130, 20),  # resting blood pressure, mm Hg
    "chol": (220, 50),  # serum cholesterol, mg/dl
    "fbs": (0, 1),  # fasting blood sugar above 120 mg/dl
    "restecg": (0, 1),  # resting ECG: 0 normal
    "thalach": (145, 25),  # highest heart rate reached
    "exang": (0, 1),  # angina by exercise
    "oldpeak": (0, 1),  # ST depression by exercise
    "slope": (2, 1),  # of the ST segment: 1 up, 2 flat, 3 down
    "ca": (0, 1),  # vessels coloured by fluoroscopy, 0 to 3
    "thal": (3, 2),  # 3 normal, 6 fixed defect, 7 reversible defect
}
# a living patient's are not: where a file says 0, it was not measured
_NEVER_ZERO = "trestbps", "chol"


@loaded_once
def a9a(path: str | None = None) -> Dataset:
    """LIBSVM's a9a: 32,561 and 16,281 people, 123 features that are 0 or 1, two classes.

    Class 1 has an income above 50,000 dollars.
    """
    parts = [
        _libsvm(text.tobytes().decode("ascii"), features=123) for text in read("a9a", path).values()
    ]
    (x, y), (test_x, test_y) = parts
    recipe = {"name": "a9a"} | ({} if path is None else {"path": path})
    return Dataset(x, y, 2, test_x, test_y, "a9a", recipe)


@loaded_once
def heart_disease(
    sites: tuple[Site, ...] = ("cleveland", "hungarian", "switzerland", "va-long-beach"),
    test: float = 0.25,
    seed: int = 0,
    path: str | None = None,
) -> Dataset:
    """Heart disease at four hospitals: 920 patients, 13 attributes, disease (1) or not (0).

    Owners are the hospitals.

    A missing attribute is given a neutral value and all are scaled by fixed constants, the same
    everywhere, so that no hospital learns anything about another's patients before training. Each
    hospital holds out the share `test` of its own patients, by draws that depend on its name and
    `seed` only.
    """
    for site in sites:
        if site not in _SITES:
            raise ConfigError(f"heart-disease.sites: there is no '{site}'. {nearest(site, _SITES)}")
    if not sites or len(set(sites)) < len(sites):
        raise ConfigError(
            f"heart-disease.sites must be different hospitals, one at least; found {list(sites)}."
        )
    if not 0 < test < 1:
        raise ConfigError(
            f"heart-disease.test is the share held out, above 0 and below 1; found {test}."
        )
    texts = read("heart-disease", path, only=[_SITES[site] for site in sites])
    kept: list[tuple[NDArray[Any], ...]] = []
    held: list[tuple[NDArray[Any], ...]] = []
    for number, site in enumerate(sites):
        x, y = _patients(texts[_SITES[site]].tobytes().decode("ascii"))
        order = np.argsort(
            uniform(seed, f"data/heart-disease/{site}", 0, np.arange(len(y)))[:, 0], kind="stable"
        )
        out, rest = (np.sort(part) for part in np.split(order, [max(1, round(test * len(y)))]))
        kept.append((x[rest], y[rest], np.full(len(rest), number)))
        held.append((x[out], y[out]))
    x, y, owners = (np.concatenate(arrays) for arrays in zip(*kept, strict=True))
    test_x, test_y = (np.concatenate(arrays) for arrays in zip(*held, strict=True))
    recipe = {"name": "heart-disease", "sites": list(sites), "test": test, "seed": seed}
    recipe |= {} if path is None else {"path": path}
    facts = {"owners": list(sites), "attributes": list(_ATTRIBUTES)}
    return Dataset(x, y, 2, test_x, test_y, "heart-disease", recipe, facts, owners)


def _patients(text: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rows = [
        [np.nan if field == "?" else float(field) for field in line.split(",")]
        for line in text.split()
    ]
    table = np.array(rows, np.float64)
    # the grade of disease, 1 to 4, counts as disease
    x, y = table[:, :-1], (table[:, -1] > 0).astype(np.int64)
    for name in _NEVER_ZERO:
        column = x[:, list(_ATTRIBUTES).index(name)]
        column[column == 0] = np.nan
    neutral, scale = np.array(list(_ATTRIBUTES.values())).T
    return np.nan_to_num((x - neutral) / scale, nan=0.0).astype(np.float32), y


def _libsvm(text: str, features: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Lines of a label, +1 or -1, and the numbers (from 1) of the features that are 1."""
    lines = text.splitlines()
    x, y = np.zeros((len(lines), features), np.float32), np.zeros(len(lines), np.int64)
    for k, line in enumerate(lines):
        label, *entries = line.split()
        y[k] = label == "+1"
        for entry in entries:
            number, value = entry.split(":")
            x[k, int(number) - 1] = float(value)
    return x, y

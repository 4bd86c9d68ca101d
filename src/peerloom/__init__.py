"""Decentralized federated learning: many peers, private data, one model, no server."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import codecs as codecs
    from . import codecs as messages
    from . import graphs, hosts, language, live, problems, schedules, testing, theory
    from . import rules as algorithms
    from . import rules as rules
    from .core import rates
    from .experiment import Evaluate, Experiment
    from .runs import simulate
    from .runtime import iterate, prepare_process
    from .schedules import distributions
    from .schedules import distributions as laws

# Nothing is imported before it is used: torch takes a second to load, and `peerloom --help` should
# not wait for it.
_ROOMS = {
    "algorithms": "peerloom.rules",  # the former name
    "codecs": "peerloom.codecs",
    "distributions": "peerloom.schedules.distributions",
    "graphs": "peerloom.graphs",
    "hosts": "peerloom.hosts",
    "language": "peerloom.language",
    "laws": "peerloom.schedules.distributions",  # the former name
    "live": "peerloom.live",
    "messages": "peerloom.codecs",  # the former name
    "problems": "peerloom.problems",
    "rules": "peerloom.rules",
    "rates": "peerloom.core.rates",
    "schedules": "peerloom.schedules",
    "testing": "peerloom.testing",
    "theory": "peerloom.theory",
}
_NAMES = {
    "Evaluate": "peerloom.experiment",
    "Experiment": "peerloom.experiment",
    "iterate": "peerloom.runtime",
    "prepare_process": "peerloom.runtime",
    "simulate": "peerloom.runs",
}

__all__ = [
    "Evaluate",
    "Experiment",
    "algorithms",
    "codecs",
    "distributions",
    "graphs",
    "hosts",
    "iterate",
    "language",
    "laws",
    "live",
    "messages",
    "prepare_process",
    "problems",
    "rates",
    "rules",
    "schedules",
    "simulate",
    "testing",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(_ROOMS[name])
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'peerloom' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__

"""What DSpodFL's figures vary: the settings of every point, by name."""

from __future__ import annotations

from .dspodfl_settings import RULES

__all__ = ["betas", "clients", "labels", "modes", "normals", "radii", "rates"]


def labels(most: int = 10) -> dict[str, list[str]]:
    """Classes that every client holds."""
    return {str(k): [f"problem.partition.per_client={k}"] for k in range(1, most + 1)}


def radii() -> dict[str, list[str]]:
    """Radii of the geometric graph."""
    return {f"{r:g}": [f"graph.radius={r}"] for r in (0.2, 0.4, 0.6, 0.8, 1.0)}


def clients(*numbers: int) -> dict[str, list[str]]:
    """Numbers of clients."""
    return {str(m): [f"graph.clients={m}"] for m in numbers}


def betas(*who: str) -> dict[str, list[str]]:
    """Laws Beta(a, a), of computing, of links, or of both."""
    return {
        f"{a:g}": [f"schedule.{of}.{p}={a}" for of in who for p in "ab"]
        for a in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    }


def normals(parameter: str, values: tuple[float, ...]) -> dict[str, list[str]]:
    """A parameter of truncated normal laws."""
    return {
        f"{v:g}": [f"schedule.{of}.{parameter}={v}" for of in ("nodes", "links")] for v in values
    }


def modes() -> dict[str, list[str]]:
    """Laws of two modes, at mu and at 1 - mu."""
    return {
        f"{mu:g}": [
            f"schedule.{of}.{mean}"
            for of in ("nodes", "links")
            for mean in (f"mean1={mu}", f"mean2={1 - mu}")
        ]
        for mu in (0.0, 0.1, 0.2, 0.3, 0.4)
    }


def rates() -> dict[str, list[str]]:
    """Steps, the same of all rules."""
    return {
        f"{lr:g}": [f"algorithms.{name}.lr={lr}" for name in RULES]
        for lr in (1e-4, 1e-3, 1e-2, 1e-1)
    }

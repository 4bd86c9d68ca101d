"""Other frameworks' programs as problems: they train as they like, and rules mix what comes out."""

from .flower import FlowerApp

__all__ = ["FlowerApp"]

"""Groups of commands that are looked for only when asked for, so that help comes at once."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from .. import extensions
from ..errors import ConfigError

__all__ = ["COMMANDS", "Commands", "PeerCommands"]

COMMANDS = "peerloom.commands"  # the entry point group: functions with typer's annotations
_SHIPPED = ("reproduce",)  # by Peerloom itself, so their absence means a stale installation


class Commands(TyperGroup):
    """Peerloom's own commands, and those that entry points of `peerloom.commands` add.

    Entry points are read only where a command is not built in, or for the list of all.

    Contexts and commands are Any: their classes are click's in older versions of typer, and its own
    in newer ones.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, built-in ones first."""
        self._extend()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None where there is none."""
        if cmd_name not in self.commands:
            self._extend()
        if cmd_name not in self.commands and cmd_name in _SHIPPED:
            raise ConfigError(f"There is no command '{cmd_name}': {extensions.REINSTALL}.")
        return super().get_command(ctx, cmd_name)

    def _extend(self) -> None:
        for name in extensions.names(COMMANDS):
            if name not in self.commands:
                self.commands[name] = _command(name, extensions.load(COMMANDS, name))


class PeerCommands(TyperGroup):
    """The commands below `peerloom peer`, imported when one of them is wanted."""

    @cached_property
    def _group(self) -> Any:
        return typer.main.get_command(import_module("peerloom.cli.peer").peer_app)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        names: list[str] = self._group.list_commands(ctx)
        return names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None where there is none."""
        self.commands |= self._group.commands  # from which suggestions are made
        return self._group.get_command(ctx, cmd_name)


def _command(name: str, function: Any) -> Any:
    """A function as a command, with the manners of the built-in ones."""
    alone = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
    )
    alone.command(name)(function)
    return typer.main.get_command(alone)

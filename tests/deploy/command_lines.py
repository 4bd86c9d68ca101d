"""Command lines as the command line itself reads them, without running anything."""

import shlex

import typer

from peerloom.cli.app import app


def parsed(line):
    """The path of the command and its arguments; fails as the command would where one is wrong.

    Begins at the first word `peerloom`, or, where a container's entry point is that already, at
    the first word.
    """
    words = line if isinstance(line, list) else shlex.split(line)
    programs = [k for k, word in enumerate(words) if word.rpartition("/")[2] == "peerloom"]
    words = words[programs[0] + 1 :] if programs else words
    command, path = typer.main.get_command(app), []
    context = command.make_context("peerloom", list(words))
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        path.append(name)
        context = command.make_context(name, rest, parent=context)
    return " ".join(path), context.params

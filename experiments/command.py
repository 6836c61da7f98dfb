"""Experiments as commands."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from ..optimizer.cli.app import carry_out


def run(main: Callable[..., None]) -> None:
    """Run an experiment's main function with what its command line says; its module's docstring is the help.

    Known errors become one line, as on the product's own command line.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=sys.modules[main.__module__].__doc__)(main)
    carry_out(app)

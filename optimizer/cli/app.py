"""``mnemotune``: every command, and how errors are shown."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from datetime import datetime
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from ...data import heap
from ...data.errors import MnemotuneError, RetiredField, TryLater
from .commands import Commands
from .output import explained

TRY_LATER = 75
"""EX_TEMPFAIL of sysexits.h: the command can be given again."""
MOST_PROBLEMS = 5
"""Problems of one file that an error names."""
USAGE_ERROR: Any = typer.BadParameter.__base__
"""Says what the command line cannot be read for; typer has no public name for it."""

app = typer.Typer(name="mnemotune", cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"mnemotune {version('mnemotune')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Evolve the memory policy of an assistant: its memory prompts and its numbers."""


def main() -> None:
    """Run the command line."""
    heap.collect_seldom()
    carry_out(app)


def carry_out(app: typer.Typer) -> NoReturn:
    """Run an application; known errors become one line and exit code 1, or 75 where trying later may do better."""
    logging.getLogger("mnemotune").handlers = [_Remarks(logging.WARNING)]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("always", category=RetiredField)
            warnings.showwarning = _remark_or(warnings.showwarning)
            sys.exit(app(standalone_mode=False) or 0)
    except USAGE_ERROR as error:
        message = error.format_message()
        if not message or "\n" in message:  # a group without a command shows its help
            error.show()
            sys.exit(error.exit_code)
        command = error.ctx.command_path if error.ctx else app.info.name
        _end(f"{message.rstrip('.')}; see `{command} --help`", code=error.exit_code)
    except MnemotuneError as error:
        _end(str(error), code=TRY_LATER if isinstance(error, TryLater) else 1)
    except OSError as error:
        _end(explained(error))


def _end(message: str, *, code: int = 1) -> NoReturn:
    """Print an error on one line, and exit."""
    lines = message.splitlines()
    more = [f"and {len(lines) - MOST_PROBLEMS:,} more"] if len(lines) > MOST_PROBLEMS else []
    line = escape("; ".join([*lines[:MOST_PROBLEMS], *more]))
    Console(stderr=True).print(f"[red]error:[/] {line}", highlight=False, soft_wrap=True)
    sys.exit(code)


def _remark_or(otherwise: Callable[..., None]) -> Callable[..., None]:
    """Return what shows a field of an older version as a remark, each once, and any other warning as Python does."""

    @cache
    def remark(text: str) -> None:
        Console(stderr=True).print(Text(text, style="yellow"), soft_wrap=True)

    def show(message: Warning | str, *details: Any, **more: Any) -> None:
        if isinstance(message, RetiredField):
            remark(str(message))
        else:
            otherwise(message, *details, **more)

    return show


class _Remarks(logging.Handler):
    """Shows what goes on while a command works, such as an outage of an endpoint."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line, after the time of day."""
        now = datetime.now()  # noqa: DTZ005 - the reader's own clock
        line = f"{now:%H:%M:%S} {record.getMessage()}"
        # only what is written to this very object comes above a live line
        sys.stderr.write((typer.style(line, fg="yellow") if sys.stderr.isatty() else line) + "\n")

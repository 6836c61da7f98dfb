"""``mnemotune``: every command, and how errors are shown."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from ...data.errors import MnemotuneError
from ...policies.files import RetiredField
from ...policies.lm.outage import EndpointSilent
from . import ablate, data, estimate, evaluate, evolve, ranks, results, serve, view
from .memrm import app as memrm

TRY_LATER = 75
"""EX_TEMPFAIL of sysexits.h: the command can be given again."""

app = typer.Typer(
    name="mnemotune",
    help="Evolve the memory policy of an assistant: its memory prompts and its numbers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("evolve")(evolve.evolve_command)
app.command("ablate")(ablate.ablate_command)
app.command("estimate")(estimate.estimate_command)
app.command("evaluate")(evaluate.evaluate_command)
app.command("ranks")(ranks.ranks_command)
app.command("results")(results.results_command)
app.command("report")(view.report_command)
app.command("serve")(serve.serve_command)
app.command("ui")(view.ui_command)
app.add_typer(data.app, name="data", help="Scenarios: generate and check them.")
app.add_typer(
    memrm.app,
    name="memrm",
    help="A reward model of memory writes: collect what it learns from, train it, score with it.",
)


def main() -> None:
    """Run the command line; known errors become one message and exit code 1, or 75 where trying later may do better."""
    logging.getLogger("mnemotune").handlers = [_Remarks(logging.WARNING)]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("always", category=RetiredField)
            warnings.showwarning = _remark_or(warnings.showwarning)
            app()
    except EndpointSilent as error:
        _explain(str(error), code=TRY_LATER)
    except MnemotuneError as error:
        _explain(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        _explain(f"{error.filename}: {error.strerror}")


def _remark_or(otherwise: Callable[..., None]) -> Callable[..., None]:
    """Return what shows a field of an older version as a remark, any other warning as Python does, and each once."""
    shown: set[str] = set()

    def show(message: Warning | str, *details: Any, **more: Any) -> None:
        if str(message) in shown:
            return
        shown.add(str(message))
        if isinstance(message, RetiredField):
            Console(stderr=True).print(escape(str(message)), style="yellow", highlight=False, soft_wrap=True)
        else:
            otherwise(message, *details, **more)

    return show


class _Remarks(logging.Handler):
    """Shows what goes on while a command works, such as an outage of an endpoint."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line, after the time of day."""
        what = escape(f"{datetime.now():%H:%M:%S} {record.getMessage()}")  # noqa: DTZ005 - the reader's own clock
        Console(stderr=True).print(what, style="yellow", highlight=False, soft_wrap=True)


def _explain(what: str, *, code: int = 1) -> NoReturn:
    Console(stderr=True).print(f"[red]error:[/] {escape(what)}", highlight=False, soft_wrap=True)
    sys.exit(code)

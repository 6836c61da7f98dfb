"""The listeners of a run."""

from __future__ import annotations

import logging

from rich.console import Console

from ..search.listener import Listener
from .progress import Progress
from .report import ReportWriter
from .tracking.tracker import Tracker

_log = logging.getLogger(__name__)


def listeners_at(console: Console) -> list[Listener]:
    """Return the listeners of a run that is shown on ``console``; MLflow comes after the report, which it keeps."""
    progress = Progress(console)
    return [ReportWriter(), Tracker(tell=progress.say), progress]


def unseen_listeners() -> list[Listener]:
    """Return the listeners of a run that is not shown on a terminal."""
    return [ReportWriter(), Tracker(tell=_log.warning), Progress(Console(quiet=True))]

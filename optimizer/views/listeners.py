"""Everything that hears of a run."""

from __future__ import annotations

from rich.console import Console

from ..search.listener import Listener
from .progress import Progress
from .report import ReportWriter
from .tracking import Tracker


def listeners_at(console: Console) -> list[Listener]:
    """Return who hears of a run that is shown on ``console``; MLflow's view comes after the files that it keeps."""
    progress = Progress(console)
    return [ReportWriter(), Tracker(tell=progress.say), progress]


def unseen_listeners() -> list[Listener]:
    """Return who hears of a run that nobody looks at."""
    return listeners_at(Console(quiet=True))

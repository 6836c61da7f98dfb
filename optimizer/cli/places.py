"""Where the runs are that somebody names."""

from __future__ import annotations

from pathlib import Path

RUNS = Path("runs")


def run_folder(run: Path) -> Path:
    """Return a run's folder by its path, or by its name as `mnemotune runs` lists it.

    Raises ConfigError naming the nearest run where there is no such folder.
    """
    if run.is_dir():
        return run
    if (RUNS / run).is_dir():
        return RUNS / run
    # imported late: a help text needs none of it
    from ...data.nearest import nearest
    from ..config import ConfigError

    around = run.parent if run.parent != Path() else RUNS
    names = [path.name for path in around.iterdir() if (path / "config.yaml").is_file()] if around.is_dir() else []
    close = nearest(run.name, names)
    told = f"; the nearest is {around / close}" if close else "; `mnemotune runs` lists those there are"
    raise ConfigError(f"{run}: no such run folder{told}")

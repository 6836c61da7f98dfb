"""Which mnemotune makes a run, so that the run can be repeated."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import distribution
from pathlib import Path

from ..study import Study

ORIGINS = "origins"
"""Where the study keeps them."""
CHANGED = "-dirty"
"""How the commit of a checkout ends whose files were changed."""
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Origin:
    """A mnemotune that worked on a run."""

    version: str
    commit: str | None
    """Of the checkout that it was installed from; it ends in ``CHANGED`` where files were changed. None: not known."""

    def __str__(self) -> str:
        """Say it in words."""
        if self.commit is None:
            return f"mnemotune {self.version}"
        changed = " with changes that are not committed" if self.commit.endswith(CHANGED) else ""
        return f"mnemotune {self.version}, commit {self.commit.removesuffix(CHANGED)}{changed}"


def this_origin() -> Origin:
    """Return the mnemotune that runs."""
    installed = distribution("mnemotune")
    url = json.loads(installed.read_text("direct_url.json") or "{}")
    return Origin(installed.version, url.get("vcs_info", {}).get("commit_id") or _commit_of(ROOT))


def note_origin(study: Study) -> None:
    """Note which mnemotune goes on with a study, once for each in a row."""
    before, now = origins_of(study), this_origin()
    if before[-1:] != [now]:
        study.note(ORIGINS, [asdict(origin) for origin in (*before, now)])


def origins_of(study: Study) -> Sequence[Origin]:
    """Return every mnemotune that worked on a study, in order; none where the study is older than this note."""
    return [Origin(**values) for values in study.noted(ORIGINS) or []]


def _commit_of(root: Path) -> str | None:
    """Return the commit that a checkout is at; None where there is no checkout, or no git."""
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return None
    command = [git, "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed command
    return done.stdout.strip() or None

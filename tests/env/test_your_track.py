"""The page on a track of one's own: its code runs, passes the tests of every track, and is known to the commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your_track.md"


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


BLOCKS = blocks("python")
(ENTRY_POINT,) = blocks("toml")


def module_of(name: str, code: str) -> ModuleType:
    module = module_from_spec(ModuleSpec(name, None))
    sys.modules[name] = module
    exec(compile(code, f"{PAGE.name}: {name}", "exec"), module.__dict__)  # noqa: S102 - our own page
    return module


PARCELS = module_of("parcels", "".join(BLOCKS[:-1]))


class TestParcels(module_of("test_parcels", BLOCKS[-1]).TestParcels):  # type: ignore[misc]
    pass


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has the track as an installed package has it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "parcels.py").write_text("".join(BLOCKS[:-1]), encoding="utf-8")
    about = folder / "parcels-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: parcels\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(
        ENTRY_POINT.replace("project.entry-points.", "").replace('"', ""), encoding="utf-8"
    )
    return folder


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "mnemotune", *arguments]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)


def test_commands_know_the_track_of_the_page(installed: Path) -> None:
    done = run(installed, "evaluate", "rag", "--track", "parcels", "--data", "houses:8@3", "--json")
    scores = json.loads(done.stdout)
    assert (scores["track"], scores["groups"]) == ("parcels", 8)
    assert scores["ceiling"] - scores["floor"] > 0.3
    assert scores["memory_score"] > scores["window"]["memory_score"]


def test_a_house_that_is_not_there_is_named(installed: Path) -> None:
    done = run(installed, "evaluate", "rag", "--track", "parcels", "--users", "house-99")
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert "no house house-99" in done.stderr

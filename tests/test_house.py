"""The house: what ships, what git keeps, what the README promises."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mnemotune.optimizer.config import load_config

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ("data/", "env/", "policies/", "optimizer/", "experiments/", "configs/")
LEFT_OUT = (".md", ".svg")


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, f"git cannot read this tree: {done.stderr.strip()}"
    return done.stdout.splitlines()


def commands(text: str) -> list[str]:
    """Return the commands of a text's shell blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = (line.split("#")[0].strip() for block in blocks for line in block.splitlines())
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build the wheel from the tree and return its files, named as in the tree."""
    out = tmp_path_factory.mktemp("wheel")
    # setuptools writes into the source tree: build from a copy of what git knows
    tree = tmp_path_factory.mktemp("tree")
    for name in git("ls-files", "--cached", "--others", "--exclude-standard"):
        if (ROOT / name).is_file() and not name.startswith(".typing/"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(tree)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = out.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        return {name.removeprefix("mnemotune/") for name in archive.namelist() if name.startswith("mnemotune/")}


def tree() -> set[str]:
    names = git("ls-files", "--cached", "--others", "--exclude-standard")
    inside = {name for name in names if name.startswith(SHIPPED) and not name.endswith(LEFT_OUT)}
    return inside | {name for name in names if "/" not in name and name.endswith((".py", "py.typed"))}


def test_the_wheel_holds_every_file_of_the_packages(wheel: set[str]) -> None:
    assert tree() - wheel == set()


def test_the_wheel_holds_nothing_else(wheel: set[str]) -> None:
    assert wheel - tree() == set()


@pytest.mark.parametrize(
    "folder", ["data", "data/dialogue/bundled", "env", "optimizer", "policies/lm", "experiments", "tests"]
)
def test_no_folder_of_code_is_ignored_by_git(folder: str) -> None:
    assert git("check-ignore", "--no-index", f"{folder}/new_module.py", f"{folder}/new.json") == []


def test_runs_and_databases_are_ignored_by_git() -> None:
    things = ["runs/quickstart-001/study.db", "runs/mlflow.db", ".venv/bin/python"]
    assert git("check-ignore", "--no-index", *things) == things


@pytest.mark.parametrize("config", sorted(ROOT.glob("configs/*.yaml")), ids=lambda path: path.name)
def test_a_config_parses_and_its_first_line_is_the_command_that_runs_it(config: Path) -> None:
    first = config.read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# mnemotune evolve configs/{config.name}"
    load_config(config)


def test_the_readme_s_commands_are_the_ones_that_ci_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    run = [line for line in script.splitlines() if line.startswith("make ")]
    made = [c for c in commands((ROOT / "README.md").read_text(encoding="utf-8")) if c.startswith("make ")]
    targets = [[word for line in lines for word in line.split()[1:] if word[0] != "-"] for lines in (made, run)]
    assert targets == [["evolve", "test", "docs", "audit"]] * 2


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    files = [path for path in ROOT.rglob("*.py") if not {".typing", ".venv", "build"} & set(path.parts)]
    lines = {path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    longest = {path: 500 if path.parts[0] == "tests" else 400 for path in lines}
    assert len(files) > 400
    assert {path: count for path, count in lines.items() if count > longest[path]} == {}


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "torch", "mlflow", "dspy", "optuna", "matplotlib", "openai"
    script = f"import mnemotune, mnemotune.env, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_imported() -> None:
    import mnemotune

    for name in mnemotune.__all__:
        assert getattr(mnemotune, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mnemotune.nothing


def test_the_links_for_type_checkers_lead_to_every_package() -> None:
    for folder in ("data", "env", "policies", "optimizer", "experiments"):
        link = ROOT / ".typing" / "mnemotune" / folder
        assert link.is_symlink()
        assert link.resolve() == ROOT / folder

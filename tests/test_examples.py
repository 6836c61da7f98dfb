"""Each example runs as it stands, on the embedded model."""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from mnemotune.policies.memory import MEMORIES
from people import write_people

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users whose lives are cut short."""
    return write_people(tmp_path_factory.mktemp("people"), users=6, periods=2, questions=3)


def typed(example: str, lines: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a script prints to somebody who types these lines."""
    monkeypatch.setattr(sys, "argv", [example])
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    return capsys.readouterr().out


def test_every_example_says_first_what_it_shows_and_is_listed() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".ipynb"}}
    assert set(re.findall(r"\]\((\w+\.\w+)\)", page)) == files
    for script in EXAMPLES.glob("*.py"):
        about = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
        assert f"python examples/{script.name}" in about


def test_a_chat_remembers_from_one_start_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    news = ("I moved to the coast last week.", "I work night shifts at the hospital now.", "Thanks!", "Bye!")
    first = typed("chat.py", "\n".join(news), monkeypatch, capsys)
    assert "[noted: I moved to the coast last week.]" in first
    second = typed("chat.py", "/forget coast\n/memories\n\n", monkeypatch, capsys)
    assert "1 forgotten" in second
    assert "coast last week" not in second
    assert "night shifts" in second


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where ``mnemotune serve`` answers."""
    command = [sys.executable, "-m", "mnemotune", "serve", "--port", "0", "--workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        url = re.search(r"http://\S+/v1", line)
        assert url is not None, line
        yield url[0]
        server.terminate()


def test_a_policy_is_evolved_on_an_endpoint_and_read_in_python(
    address: str, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    small = ("--data", str(people), "--users", "2", "2", "2", "--generations", "1", "--spend")
    where = ("--url", address, "--model", "embedded", "--out", "runs/mine.v1")
    monkeypatch.setattr(sys, "argv", ["own_endpoint.py", *where, *small])
    runpy.run_path(str(EXAMPLES / "own_endpoint.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert Path("runs/mine.v1.yaml").is_file(), "beside the run's folder, under all of its name"
    assert re.search(r"^evolved +-?[\d.]+ +2$", printed, re.MULTILINE)
    assert re.search(r"^ +0 +accepted", printed, re.MULTILINE)
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(program.replace("quickstart-001", "mine.v1"), {})  # noqa: S102 - our own page
    assert "accepted" in capsys.readouterr().out


def test_two_memories_are_compared(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(EXAMPLES / "compare_memories.py"))
    try:
        asyncio.run(example["compare"](str(people)))
    finally:
        MEMORIES.unregister("notebook")
    printed = capsys.readouterr().out
    assert re.search(r"^notebook +-?\d\.\d+ \[.*\], 6 users$", printed, re.MULTILINE)
    assert re.search(r"^notebook - rag: .* paired by user$", printed, re.MULTILINE)


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    people: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cells are awaited as Jupyter does; the users alone are others, so that it takes a second."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = json.loads((EXAMPLES / "where_memory_fails.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in cells)
    names: dict[str, object] = {}

    async def go() -> None:
        for cell in cells:
            source = "".join(cell["source"]).replace('USERS = "generated:4@1"', f'USERS = "{people}"')
            code = compile(source, "notebook", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            assert isinstance(code, CodeType)
            result = eval(code, names)  # noqa: S307 - our own notebook
            if inspect.isawaitable(result):
                await result

    asyncio.run(go())
    printed = capsys.readouterr().out
    assert re.search(r"^window +-?\d\.\d+ \[.*\]  accuracy \d\.\d+$", printed, re.MULTILINE)
    assert "recalled: {" in printed

"""The command line in this process, a few users whose lives are short, and a real OpenAI-compatible server.

Behind the server sits the embedded model, so that it answers sensibly and always the same.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastapi
import pytest
import yaml
from starlette.requests import ClientDisconnect

from loopback import on_loopback
from mnemotune.optimizer.cli import main
from mnemotune.optimizer.config import load_config
from mnemotune.optimizer.search.run import evolve
from mnemotune.optimizer.views.listeners import unseen_listeners
from mnemotune.policies.lm import Message, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from people import write_people

FOREIGN = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """What the command printed, which must be one strict JSON object and nothing else."""
        told = strict(self.out)
        assert isinstance(told, dict)
        assert self.out == self.out.strip() + "\n", "one object on a line of its own"
        assert len(self.out.splitlines()) == 1
        return told

    def succeeded(self) -> Done:
        assert self.code == 0, self.err
        return self

    def refused(self) -> str:
        """Return the one message of a command that ended with an error."""
        assert self.code == 1, (self.out, self.err)
        assert self.out == ""
        assert "Traceback" not in self.err
        assert self.err.count("error: ") == 1
        assert self.err.startswith("error: ")
        return self.err.removeprefix("error: ").rstrip("\n")


def strict(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


Cli = Callable[..., Done]


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in an empty folder, without this machine's keys, on one core: starting processes takes longer than work."""
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)
    for name in FOREIGN:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def two_cores(no_settings_of_this_machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deal work to processes."""
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """Run a command as ``mnemotune`` would, but without starting Python again."""

    def run(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["mnemotune", *map(str, arguments)])
        capfd.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        return Done(code, *capfd.readouterr())

    return run


def _hear_ctrl_c() -> None:
    """What a shell starts in the background is deaf to it, and so would be what the tests start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[str]]:
    """Start a command in a process of its own."""

    def started(*arguments: str | Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "mnemotune", *map(str, arguments)]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ},
            preexec_fn=_hear_ctrl_c,
        )

    return started


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with eight generated users whose lives are cut short: ``user-1-000`` and so on."""
    return write_people(tmp_path_factory.mktemp("people"), users=8, periods=2, questions=3)


@pytest.fixture(scope="session")
def tiny(people: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The config of a search that takes a second, which MLflow would double."""
    path = tmp_path_factory.mktemp("configs") / "tiny.yaml"
    path.write_text(
        f"data: {people}\nsplits: {{train: 2, validation: 3, test: 3}}\nbaselines: [native]\ntracking: none\n"
        "seed_policy: {write: {mode: none}, update_every: 2, buffer_size: 0}\n"
        "search: {generations: 1, candidates: 2, broad_start: 0, budget: {calls: 9000}}\n",
        encoding="utf-8",
    )
    return path


@pytest.fixture
def store(empty_store: Path, no_settings_of_this_machine: None) -> None:
    """MLflow's database for runs here, and for those in ``runs``."""
    Path("runs").mkdir()
    shutil.copy(empty_store, "mlflow.db")
    shutil.copy(empty_store, "runs/mlflow.db")


@pytest.fixture(scope="session")
def finished_once(tiny: Path, empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run that MLflow shows; it must not be changed."""
    runs = tmp_path_factory.mktemp("finished") / "runs"
    runs.mkdir()
    shutil.copy(empty_store, runs / "mlflow.db")
    evolve(load_config(tiny, overrides=["tracking={}"]), runs / "tiny-001", listeners=unseen_listeners())
    return runs / "tiny-001"


@pytest.fixture
def finished(finished_once: Path, no_settings_of_this_machine: None) -> Path:
    """A finished run in ``runs/tiny-001`` here, with MLflow's view of it."""
    runs = Path(shutil.copytree(finished_once.parent, "runs", dirs_exist_ok=True)).resolve()
    with sqlite3.connect(runs / "mlflow.db") as database:  # where MLflow has its files is written down in full
        moved = (finished_once.parent.resolve().as_uri(), runs.as_uri())
        database.execute("UPDATE runs SET artifact_uri = replace(artifact_uri, ?, ?)", moved)
        database.execute("UPDATE experiments SET artifact_location = replace(artifact_location, ?, ?)", moved)
    return Path("runs/tiny-001")


@dataclass
class Server:
    """An OpenAI-compatible endpoint; what it was asked is kept."""

    url: str
    asked: list[tuple[Mapping[str, str], dict[str, Any]]]
    refusal: int | None = None
    """The status that it answers instead, if any."""
    no_format: str = ""
    """The response format that it refuses."""
    whim: Callable[[str, str], str | tuple[int, str] | None] = lambda role, text: None
    """Given a call's role and its text: what is said instead, or a status and an error message; None for neither."""

    async def handle(self, request: fastapi.Request) -> fastapi.Response:
        try:
            body = await request.json()
        except ClientDisconnect:  # a run that is stopped hangs up; formatting that in this thread breaks Python 3.11
            return fastapi.Response()
        self.asked.append((dict(request.headers), body))
        if self.refusal is not None:
            return self._say({"error": {"message": "not today"}}, self.refusal)
        if body.get("response_format", {}).get("type") == self.no_format:
            return self._say({"error": {"message": f"response_format {self.no_format} is not supported"}}, 400)
        if "input" in body:
            rows = (await LexicalEmbedder().embed(body["input"])).vectors.tolist()
            return self._say({"data": [{"index": i, "embedding": row} for i, row in enumerate(rows)]})
        messages = tuple(Message(m["role"], m["content"]) for m in body["messages"])
        said = self.whim(request.headers["x-mnemotune-role"], "\n".join(message.content for message in messages))
        if isinstance(said, tuple):
            return self._say({"error": {"message": said[1]}}, said[0])
        if said is not None:
            usage = {"prompt_tokens": 1, "completion_tokens": 1}
            return self._say({"choices": [{"message": {"role": "assistant", "content": said}}], "usage": usage})
        done = await EmbeddedModel().complete(Request(messages, role="reply"))
        usage = {"prompt_tokens": done.usage.input_tokens, "completion_tokens": done.usage.output_tokens}
        return self._say({"choices": [{"message": {"role": "assistant", "content": done.text}}], "usage": usage})

    def _say(self, body: object, status: int = 200) -> fastapi.Response:
        return fastapi.Response(json.dumps(body), status, media_type="application/json")


@pytest.fixture(scope="session")
def loopback() -> Iterator[Server]:
    with on_loopback(lambda url: Server(url, [])) as served:
        yield served


@pytest.fixture
def server(loopback: Server) -> Server:
    loopback.asked.clear()
    loopback.refusal = None
    loopback.no_format = ""
    loopback.whim = lambda role, text: None
    return loopback


@pytest.fixture
def remote(tiny: Path, server: Server, tmp_path: Path) -> Path:
    """A config that asks the server, with as few users as there may be."""
    values = yaml.safe_load(tiny.read_text(encoding="utf-8"))
    values |= {"model": "openai:tiny", "endpoint": {"base_url": server.url, "attempts": 1}}
    values |= {"splits": {"train": 1, "validation": 2, "test": 2}, "baselines": []}
    values["search"] |= {"candidates": 1}
    config = tmp_path / "remote.yaml"
    config.write_text(yaml.safe_dump(values), encoding="utf-8")
    return config


@pytest.fixture
def check_evaluation() -> Callable[..., None]:
    """Check that an object has the fields that scripts rely on, of the promised kinds."""

    def check(told: Mapping[str, Any], *, users: int, periods: int = 2) -> None:
        assert isinstance(told["policy"], str)
        assert told["groups"] == users
        for name in ("accuracy", "floor", "ceiling", "evidence_recall"):
            assert 0 <= told[name] <= 1
        assert told["memory_score"] <= 2  # above 1 where memory answers more questions than told facts do
        low, high = told["interval"]
        assert users < 2 or low <= told["memory_score"] <= high
        assert told["shares"].keys() == {"write", "read", "utilisation"}
        assert math.isclose(told["accuracy"] + sum(told["shares"].values()), 1, abs_tol=1e-5)
        names = ("accuracy", "memory_score", "evidence", "write", "read", "utilisation")
        assert {name: len(series) for name, series in told["stages"].items()} == dict.fromkeys(names, periods)
        assert told["spend"].keys() >= {"reply", "answer", "probe"}
        assert all(spend["calls"] > 0 for spend in told["spend"].values())
        assert told["wall_s"] > 0
        assert told["failures"] == {}

    return check


@pytest.fixture
def plain() -> Callable[[str], str]:
    """Take the colours and the line breaks out of what a terminal shows."""
    return lambda text: " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).split())

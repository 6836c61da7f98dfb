"""What goes wrong outside of mnemotune is one message on standard error, and exit code 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mnemotune.policies import presets

Cli = Callable[..., Any]
NOBODY = "http://127.0.0.1:9/v1"
"""An address where nothing listens."""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_a_policy_that_is_not_there(cli: Cli, people: Path) -> None:
    told = cli("evaluate", "nobody", "--data", people).refused()
    assert told == f"nobody: no such file or preset; presets: {', '.join(presets())}"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{write: {mode: profile}, update_every: 4, buffer_size: 4, store: context, colour: red}", "colour"),
        ("{write: {mode: dreams}}", "write.mode"),
        ("{write: {mode: facts}, update_every: 0, buffer_size: 4, store: context}", "update_every"),
        ("{write: {mode: none}, top_k: 3}", "top_k"),
        (
            "{write: {mode: verbatim}, update_every: 2, buffer_size: 4, store: context, prompts: {reply: 'Guess!'}}",
            "prompts.reply",
        ),
        ("- a\n- list", "mine.yaml"),
        ("", "mine.yaml"),
        ("{write: [", "YAML"),
    ],
)
def test_a_policy_file_with_a_mistake_is_told_by_file_and_field(
    cli: Cli, people: Path, write: Any, text: str, field: str
) -> None:
    told = cli("evaluate", write("mine.yaml", text), "--data", people).refused()
    assert "mine.yaml" in told
    assert field in told


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{write: {mode: none}, prompts: {answer: 'Choose! {query} {choices}'}}", "prompts.answer"),
        ("{write: {mode: none}, read: {budget_tokens: 400}}", "read.budget_tokens"),
    ],
)
def test_a_policy_file_of_an_older_version_is_read_with_a_line_that_says_what_is_left_out(
    cli: Cli, people: Path, write: Any, text: str, field: str
) -> None:
    done = cli("evaluate", write("mine.yaml", text), "--data", people, "--json").succeeded()
    (line,) = [line for line in done.err.splitlines() if "left out" in line]
    assert "mine.yaml" in line
    assert f": {field} is left out: " in line
    assert "Warning" not in done.err, "it reads as a remark of the product's, not of Python's"
    native = cli("evaluate", "native", "--data", people, "--json").succeeded()
    assert "left out" not in native.err
    assert done.json["accuracy"] == native.json["accuracy"]


def test_data_that_is_not_there(cli: Cli) -> None:
    told = cli("evaluate", "native", "--data", "nowhere.json").refused()
    assert told.startswith("nowhere.json: no such file")
    assert "base" in told


@pytest.mark.parametrize("text", ["no json", "[]", "{}", '[{"id": "ann"}]', "[1, 2]", "null"])
def test_a_data_file_that_cannot_be_read_is_named(cli: Cli, write: Any, text: str) -> None:
    data = write("bad.json", text)
    for command in (["evaluate", "native", "--data", data, "--json"], ["data", "check", data]):
        assert "bad.json" in cli(*command).refused()


def test_a_mistake_in_the_data_is_told_by_user_period_and_field(cli: Cli, people: Path, write: Any) -> None:
    rows = json.loads(people.read_text(encoding="utf-8"))
    del rows[2]["periods"][1]["sessions"][0]["query"]
    told = cli("evaluate", "native", "--data", write("bad.json", json.dumps(rows))).refused()
    for part in ("bad.json", "user-1-002", "period 1", "query"):
        assert part in told


def test_a_folder_without_data_is_named(cli: Cli, tmp_path: Path) -> None:
    assert str(tmp_path) in cli("evaluate", "native", "--data", tmp_path).refused()


@pytest.mark.parametrize("users", ["nobody", "user-1-000,nobody", ""])
def test_users_that_are_not_in_the_data_are_named_with_those_that_are(cli: Cli, people: Path, users: str) -> None:
    told = cli("evaluate", "native", "--data", people, "--users", users).refused()
    assert users.split(",")[-1] in told
    assert "user-1-007" in told


@pytest.mark.parametrize("model", ["gpt-4.1-mini", "openai:", "Embedded"])
def test_a_model_that_cannot_be_is_told_with_how_to_write_one(cli: Cli, people: Path, tiny: Path, model: str) -> None:
    commands: list[list[Any]] = [
        ["evaluate", "native", "--data", people, "--model", model],
        ["evolve", tiny, "--out", "run", "--set", f"model={model!r}"],
    ]
    for command in commands:
        told = cli(*command).refused()
        assert "model" in told
        assert "`embedded[:READER]` or `openai:NAME`" in told
    assert not Path("run").exists()


def test_a_config_that_is_not_there(cli: Cli, people: Path) -> None:
    assert "nowhere.yaml: no such file" in cli("evolve", "nowhere.yaml").refused()
    assert (
        "nowhere.yaml: no such file"
        in cli("evaluate", "native", "--data", people, "--config", "nowhere.yaml").refused()
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("endpoint: {adress: x}", "endpoint.adress"),
        ("rounds: {init: none}", "rounds.init"),
        ("templates: nowhere.yaml", "nowhere.yaml"),
        ("- a", "mapping"),
        ("endpoint: [", "not YAML"),
        ("", "mapping"),
    ],
)
def test_a_config_with_a_mistake_is_told_by_file_and_key(
    cli: Cli, people: Path, write: Any, tiny: Path, text: str, told: str
) -> None:
    broken = write("mine.yaml", text)
    assert told in cli("evaluate", "native", "--data", people, "--config", broken).refused()
    values = yaml.safe_load(tiny.read_text(encoding="utf-8"))
    if text.startswith(("rounds", "templates")):
        broken = write("mine.yaml", yaml.safe_dump(values | yaml.safe_load(text)))
    assert told in cli("evolve", broken, "--out", "run").refused()
    assert not Path("run").exists()


@pytest.mark.parametrize("setting", ["search.generations", "search.generations=many", "serach=3", "baselines=[a"])
def test_a_setting_that_cannot_be_is_told(cli: Cli, tiny: Path, setting: str) -> None:
    assert setting.split("=")[0] in cli("evolve", tiny, "--out", "run", "--set", setting).refused()
    assert not Path("run").exists()


def test_the_official_endpoint_without_a_key(cli: Cli, people: Path, tiny: Path) -> None:
    told = cli("evaluate", "native", "--data", people, "--model", "openai:gpt-4.1-mini", "--json").refused()
    assert "OPENAI_API_KEY" in told
    told = cli("evolve", tiny, "--out", "run", "--set", "model=openai:gpt-4.1-mini").refused()
    assert "OPENAI_API_KEY" in told
    assert not Path("run").exists(), "nothing can be done in this folder, so none is made"


def test_an_endpoint_where_nobody_listens(cli: Cli, people: Path, write: Any) -> None:
    config = write("endpoint.yaml", f"endpoint: {{base_url: '{NOBODY}', attempts: 1, longest_outage_seconds: 0}}")
    done = cli("evaluate", "native", "--data", people, "--config", config, "--model", "openai:x", "--json")
    assert (done.code, done.out) == (75, ""), "the same command may do better later"
    assert "No call gets through: paused at " in done.err
    assert f"error: {NOBODY}" in done.err
    assert "check that the server runs" in done.err


@pytest.mark.parametrize(
    ("status", "advice", "code"),
    [(401, "OPENAI_API_KEY", 1), (404, "model's name", 1), (503, "the server fails", 75)],
)
def test_an_endpoint_that_refuses(
    cli: Cli, people: Path, write: Any, server: Any, status: int, advice: str, code: int
) -> None:
    server.refusal = status
    reach = f"{{base_url: '{server.url}', attempts: 1, longest_outage_seconds: 0}}"
    config = write("endpoint.yaml", f"endpoint: {reach}")
    done = cli("evaluate", "native", "--data", people, "--config", config, "--model", "openai:x")
    assert done.code == code
    assert "Traceback" not in done.err
    assert f"status {status}: not today" in done.err
    assert advice in done.err


def test_an_address_that_is_none(cli: Cli, people: Path, write: Any) -> None:
    config = write("endpoint.yaml", "endpoint: {base_url: 'localhost:8000'}")
    told = cli("evaluate", "native", "--data", people, "--config", config, "--model", "openai:x").refused()
    assert "base_url must start with http:// or https://" in told


def test_a_cache_that_is_damaged(cli: Cli, people: Path, write: Any, server: Any) -> None:
    config = write("endpoint.yaml", f"endpoint: {{base_url: '{server.url}'}}")
    Path("out").mkdir()
    Path("out/cache.db").write_text("no database " * 100, encoding="utf-8")
    command = ["evaluate", "native", "--data", people, "--config", config, "--model", "openai:x", "--out", "out"]
    told = cli(*command).refused()
    assert "out/cache.db" in told
    assert "move it away" in told


def test_a_budget_that_is_too_small(cli: Cli, tiny: Path) -> None:
    told = cli("evolve", tiny, "--out", "run", "--set", "search.budget.calls=100").refused()
    assert "the smallest sensible budget is" in told
    assert not Path("run").exists()


def test_too_few_users(cli: Cli, tiny: Path) -> None:
    told = cli("evolve", tiny, "--out", "run", "--set", "splits.test=50").refused()
    assert "50 test" in told
    assert "has 8" in told


def test_a_search_needs_a_config_or_a_run(cli: Cli, tiny: Path) -> None:
    assert "configs/quickstart.yaml" in cli("evolve").refused()
    assert "leave out CONFIG" in cli("evolve", tiny, "--resume", "run").refused()
    assert "leave out CONFIG" in cli("evolve", "--out", "here", "--resume", "run").refused()
    assert "run: no such run folder" in cli("evolve", "--resume", "run").refused()


def test_a_folder_to_write_to_that_is_a_file(cli: Cli, people: Path, tiny: Path) -> None:
    Path("taken").write_text("mine", encoding="utf-8")
    assert "taken" in cli("evaluate", "native", "--data", people, "--out", "taken").refused()
    assert "taken" in cli("evolve", tiny, "--out", "taken").refused()
    assert "taken" in cli("data", "generate", "--users", "1", "--out", "taken/users.json").refused()
    assert Path("taken").read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder that nobody can write to")
def test_a_folder_that_cannot_be_written_to(cli: Cli, people: Path) -> None:
    assert "/proc/" in cli("evaluate", "native", "--data", people, "--out", "/proc/nowhere").refused()


@pytest.mark.parametrize("where", ["data", "policy", "config"])
def test_a_file_that_is_no_text_is_named(cli: Cli, people: Path, tmp_path: Path, where: str) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(bytes(range(256)))
    given = {"policy": "native", "data": people} | {where: binary}
    command = ["evaluate", given["policy"], "--data", given["data"]]
    told = cli(*command, *(["--config", binary] if where == "config" else [])).refused()
    assert "binary.yaml" in told


def test_square_brackets_in_a_message_are_shown(cli: Cli) -> None:
    assert "[bold]x.json" in cli("evaluate", "native", "--data", "[bold]x.json").refused()
    assert "[/]x" in cli("evaluate", "[/]x").refused()

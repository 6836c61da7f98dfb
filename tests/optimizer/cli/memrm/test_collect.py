"""``mnemotune memrm collect``, with the embedded model and lives of two periods."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnemotune.env.memrm.rows.row import read_rows
from people import write_people

Cli = Callable[..., Any]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_people(tmp_path_factory.mktemp("people"), users=2, periods=2, questions=4, seed=3)


@pytest.fixture
def collect(cli: Cli, data: Path, tmp_path: Path) -> Callable[..., Any]:
    def run(*policies: str | Path, out: str = "rows.jsonl", seed: int = 1) -> Any:
        given = ["--policies", *policies, "--seed", seed, "--out", tmp_path / out, "--json"]
        return cli("memrm", "collect", "--data", data, *map(str, given))

    return run


def test_rows_and_their_card_are_written_and_agree(collect: Callable[..., Any], tmp_path: Path) -> None:
    done = collect("presets", "random:1", "damaged:1")
    assert done.code == 0, done.err
    assert "native: writes nothing" in done.err
    rows, told = list(read_rows(tmp_path / "rows.jsonl")), done.json
    assert told == json.loads((tmp_path / "rows.jsonl.card.json").read_text(encoding="utf-8"))
    assert told["rows"]["rows"] == len(rows) > 20
    assert told["rows"]["SAFE"] == sum(row.label == "SAFE" for row in rows) > 0
    assert told["rows"]["HARMFUL"] == sum(row.label == "HARMFUL" for row in rows) > 0
    assert told["writes"]["all"] == len(rows) + told["writes"]["undecided"]
    assert len(told["policies"]) == 6
    assert all(policy["memory_score"] is not None for policy in told["policies"])
    assert told["calls"]["labels"] > 0
    assert told["failures"] == []


def test_the_same_command_gives_the_same_bytes(collect: Callable[..., Any], tmp_path: Path) -> None:
    for out in ("one.jsonl", "other.jsonl"):
        assert collect("awi", "random:1", out=out).code == 0
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "other.jsonl").read_bytes()
    one, other = (json.loads((tmp_path / f"{name}.jsonl.card.json").read_text()) for name in ("one", "other"))
    assert one == other


def test_a_policy_that_writes_nothing_gives_no_rows_and_no_error(collect: Callable[..., Any], tmp_path: Path) -> None:
    done = collect("native")
    assert done.code == 0
    assert "native: writes nothing" in done.err
    assert (tmp_path / "rows.jsonl").read_bytes() == b""


def test_what_happens_makes_labels_where_it_is_asked_for(cli: Cli, tmp_path: Path) -> None:
    given = ("--track", "tools", "--data", "generated:1@5", "--executions", "--json", "--policies")
    card = cli("memrm", "collect", *given, "rag", "--out", tmp_path / "rows.jsonl").succeeded().json
    rows = list(read_rows(tmp_path / "rows.jsonl"))
    assert all(row.execution is not None for row in rows)
    assert card["executions"]["controls"] == card["executions"]["controls_safe"] > 0
    assert sum(damage["rows"] for damage in card["executions"]["by_damage"].values()) == len(rows) > 0
    silent = cli("memrm", "collect", *given, "native", "--out", tmp_path / "none.jsonl").succeeded().json
    assert silent["what"] == card["what"]
    assert silent["executions"] == {"controls": 0, "controls_safe": 0, "by_damage": {}}


def test_a_track_without_a_plan_has_nothing_that_happens(collect: Callable[..., Any]) -> None:
    done = collect("awi", "--executions")
    assert done.code == 1
    assert "dialogue: its steps are not planned" in done.err


@pytest.mark.parametrize(
    ("text", "told"), [("", "policy.yaml"), ("write: {mode: loud}", "write.mode"), ("write: [", "is not YAML")]
)
def test_a_broken_policy_is_named_before_any_call(
    collect: Callable[..., Any], plain: Callable[[str], str], tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
    done = collect("awi", tmp_path / "policy.yaml")
    assert done.code == 1
    assert told in plain(done.err)
    assert not (tmp_path / "rows.jsonl").exists()


@pytest.mark.parametrize("name", ["nowhere.yaml", "random:0", "damaged:many"])
def test_policies_that_nobody_knows_are_named(
    collect: Callable[..., Any], plain: Callable[[str], str], name: str
) -> None:
    done = collect(name)
    assert done.code == 1
    assert name in plain(done.err)


def test_data_that_is_not_there_is_named(cli: Cli, plain: Callable[[str], str], tmp_path: Path) -> None:
    done = cli("memrm", "collect", "--data", "nowhere.json", "--policies", "awi", "--out", tmp_path / "rows.jsonl")
    assert done.code == 1
    assert "nowhere.json" in plain(done.err)


def test_a_folder_is_no_place_for_rows(collect: Callable[..., Any], plain: Callable[[str], str]) -> None:
    done = collect("awi", out=".")
    assert done.code == 2
    assert "is a folder" in plain(done.err)

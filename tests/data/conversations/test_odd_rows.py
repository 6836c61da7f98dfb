"""Whatever stands where a value should: the import ends well, what it writes can be loaded, and whole lines come in."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.conversations.importing import Import, import_benchmark, import_chat
from mnemotune.data.conversations.load import load_conversations
from mnemotune.data.conversations.omissions import Omissions
from talks import LOCOMO, LONGMEMEVAL, written

ODD = (
    "",
    "user",
    "\ud800",
    "2026-01-01",
    math.nan,
    1e300,
    10**400,
    -5,
    True,
    None,
    [],
    {},
    [None],
    [[]],
    {"type": "x"},
)
SAID = {"role": "user", "content": "My canoe leaks."}
EXPORTED: tuple[dict[str, Any], ...] = (
    SAID | {"id": "m1", "user": "mia", "time": "2026-01-01", "conversation": "c"},
    {"messages": [SAID, {"role": "assistant", "content": "I see."}], "metadata": {"user_id": "mia"}, "created": 5},
    {"mapping": {"a": {"parent": None, "message": {"author": {"role": "user"}, "content": {"parts": ["Hi."]}}}}},
    {"run_type": "llm", "id": "r", "inputs": {"messages": [[SAID]]}, "outputs": {"generations": [[{"text": "Yo."}]]}},
)


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = [*value] if isinstance(value, dict) else [*range(len(value))] if isinstance(value, list) else []
    for key in keys:
        yield (*place, key)
        yield from places(value[key], (*place, key))


def odd(row: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """Return a row with another value somewhere, or without one."""
    row = copy.deepcopy(row)
    *way, last = draw.choice([*places(row)])
    inner: Any = row
    for key in way:
        inner = inner[key]
    if isinstance(inner, dict) and draw.random() < 0.3:
        del inner[last]
    else:
        inner[last] = copy.deepcopy(draw.choice(ODD))
    return row


@pytest.mark.parametrize("seed", range(60))
def test_an_odd_value_costs_no_more_than_its_line(tmp_path: Path, seed: int) -> None:
    draw, whole = random.Random(seed), SAID | {"id": "whole", "user": "ann"}
    chat = written(tmp_path / draw.choice(["chat.jsonl", "chat.json"]), [*(odd(row, draw) for row in EXPORTED), whole])
    question = {"question": "What leaks?", "answer": "the canoe", "evidence": "whole"}
    asked = written(tmp_path / "questions.jsonl", [odd(question, draw), question | {"id": "whole"}])
    rows = {"locomo": (LOCOMO, {"sample_id": "whole"}), "longmemeval": (LONGMEMEVAL, {"question_id": "whole"})}
    out = Import(tmp_path / "out.jsonl", Omissions())
    import_chat(chat, asked, out)
    assert "ann" in {task.id for task in load_conversations(str(out.out))}
    for form, (row, name) in rows.items():
        out = Import(tmp_path / "out.jsonl", Omissions())
        file = written(tmp_path / "rows.json", [odd(row, draw), row | name])
        import_benchmark("locomo" if form == "locomo" else "longmemeval", file, out)
        assert "whole" in {task.id for task in load_conversations(str(out.out))}


def test_what_has_the_name_of_another_is_left_out(tmp_path: Path) -> None:
    out = Import(tmp_path / "out.jsonl", Omissions())
    import_benchmark("locomo", written(tmp_path / "rows.json", [LOCOMO, LOCOMO]), out)
    assert [task.id for task in load_conversations(str(out.out))] == ["conv-1"]
    assert out.omissions.broken[-1] == "conv-1: occurs twice; names must be distinct"


def test_json_is_kept_whole_where_it_has_half_a_character(tmp_path: Path) -> None:
    lone = json.dumps(SAID | {"id": "a", "user": "ann", "content": "My \ud83d canoe."})
    out = Import(tmp_path / "out.jsonl", Omissions())
    chat = written(tmp_path / "chat.jsonl", [lone])
    import_chat(chat, written(tmp_path / "q.jsonl", [{"question": "Which?", "answer": "x", "evidence": "a"}]), out)
    assert "My ? canoe." in out.out.read_text(encoding="utf-8")

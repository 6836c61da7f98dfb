"""What the author of a new user is asked, beside what was committed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mnemotune.env.dialogue.generation.texts import GenerationTexts
from mnemotune.policies.lm import Request
from snapshots import assert_committed, longest


def spoil(kind: str, request: Request) -> str | None:
    """Bring about what a good author spares itself: a repair, choices to unify, texts to refine."""
    if kind == "merge_schema":
        text = request.messages[0].content
        questions = json.JSONDecoder().raw_decode(text, text.index("[\n"))[0]
        types = [list(question["info_types"]) for question in questions]
        same = [types[0][0], types[1][0]]
        return json.dumps({"both": same} | {info: [info] for infos in types for info in infos if info not in same})
    if kind in {"initial_state", "check_answer", "check_query"} and request.repeat == 0:
        return '{"answer": 1}'
    return None


def test_the_prompts_of_generation_are_the_committed_ones(
    make: Callable[..., Any], make_author: Callable[..., Any], tmp_path: Path
) -> None:
    person = {"id": "ann", "persona": "Ann Lee is a baker."}
    (tmp_path / "people.json").write_text(json.dumps([person]), encoding="utf-8")
    author = make_author(spoil)
    made = make(author, personas=tmp_path / "people.json", users=1)
    assert made.dropped == ()
    asked = longest((_kind(request), request) for request in author.requests)
    assert asked.keys() == GenerationTexts.slots().keys()
    assert_committed(asked, Path(__file__).parent / "prompts.txt")


def _kind(request: Request) -> str:
    return request.messages[0].content.split("]")[0][1:] if len(request.messages) == 1 else "repair"

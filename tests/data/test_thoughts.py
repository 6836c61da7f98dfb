"""Replies of models that think aloud."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.thoughts import Aloud, text_of, without_thoughts


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            '<think>Draft:\n```json\n{"facts": ["draft"]}\n```\nbetter.</think>\n\n{"facts": ["real"]}',
            '{"facts": ["real"]}',
        ),
        ("the prompt has begun them</think>Yes.", "Yes."),
        ("\n<think>cut in the mid", ""),
        ("Yes.", "Yes."),
        ("Models put <think> before and </think> behind.", "Models put <think> before and </think> behind."),
        ("", ""),
    ],
)
def test_thoughts_at_the_start_are_no_part_of_a_reply(reply: str, said: str) -> None:
    assert without_thoughts(reply) == said


@given(st.lists(st.sampled_from(["<think>", "</think>", "<th", "ink>", "\n", " ", "Yes.", "a < b"]), max_size=8))
def test_what_is_said_aloud_piece_by_piece_is_the_reply_without_its_thoughts(pieces: list[str]) -> None:
    aloud = Aloud()
    said = "".join([*map(aloud.take, pieces), aloud.end()])
    whole = "".join(pieces)
    begins = whole.lstrip().startswith("<think>")
    assert said == (without_thoughts(whole) if begins else whole), "what begins without a mark is said at once"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Yes."}],
            "Yes.",
        ),
        ("Yes.", "Yes."),
        (None, ""),
        ([], ""),
    ],
)
def test_a_message_has_the_text_of_its_parts(content: Any, text: str) -> None:
    assert text_of(content) == text

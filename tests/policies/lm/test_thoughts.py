"""Replies of models that think aloud."""

from __future__ import annotations

from typing import Any

import pytest

from mnemotune.policies.lm.thoughts import text_of, without_thoughts


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

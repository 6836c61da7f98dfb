"""Tools and calls as texts that a model reads and writes."""

from __future__ import annotations

from typing import Any

import pytest

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.tool_texts import calls_in, calls_text, tools_in, tools_message

TOOLS: list[dict[str, Any]] = [
    {"name": "note", "description": "Note\none thing: “ü”", "parameters": {"properties": {}}},
    {"name": "other"},
]


def test_tools_are_read_back_as_they_were_put_into_a_message() -> None:
    assert tools_in(tools_message(TOOLS)) == TOOLS


def test_calls_are_read_back_as_they_were_made() -> None:
    calls = [("note", {"text": "ü"}), ("other", {})]
    assert calls_in(calls_text(calls)) == calls


@pytest.mark.parametrize("text", ["A boat.", "{}", '{"calls": 3}', '{"calls": [3]}', '{"calls": [{"name": "note"}]}'])
def test_a_reply_without_calls_makes_none(text: str) -> None:
    assert calls_in(text) == []


def test_any_other_message_offers_no_tool() -> None:
    assert tools_in(Message("user", "You can call tools, one or several.")) == []

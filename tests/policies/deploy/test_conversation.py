"""What memory puts before what a client sends, so that servers take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.policies.deploy.conversation import answered, before, besides, message_of
from mnemotune.policies.lm import Message, ToolCall
from mnemotune.policies.memory.protocol import Context

if TYPE_CHECKING:
    from ..conftest import MakePolicy

ASKED = Message("user", "What is at the lake?")
KNOWN = Message("system", "I know: a heron.")


def call(*names: str) -> Message:
    return Message("assistant", "", tuple(ToolCall(name, "look", "{}") for name in names))


def result(name: str) -> Message:
    return Message("tool", "A heron.", tool_call_id=name)


@pytest.mark.parametrize(
    ("messages", "following", "kept"),
    [
        ([ASKED, call("a"), result("a")], [], [0, 1, 2]),
        ([ASKED, call("a")], [ASKED], [0]),
        ([ASKED, call("a", "b"), result("a")], [ASKED], [0]),
        ([ASKED, call("a", "b"), result("a")], [result("b"), ASKED], [0, 1, 2]),
        ([ASKED, call("a"), result("b")], [result("a")], [0, 1]),
        ([result("a"), ASKED], [], [1]),
        ([call("a"), ASKED], [result("a")], [1]),
    ],
)
def test_calls_and_results_are_shown_together_or_not_at_all(
    messages: list[Message], following: list[Message], kept: list[int]
) -> None:
    assert answered(messages, following) == tuple(messages[place] for place in kept)


@pytest.mark.parametrize(
    ("given", "content"),
    [
        ("Be kind.", "Be kind.\n\nI know: a heron."),
        ([{"type": "text", "text": "Be kind."}], [{"type": "text", "text": t} for t in ("Be kind.", KNOWN.content)]),
        (None, "I know: a heron."),
    ],
)
def test_there_is_one_system_message_at_the_beginning(given: Any, content: Any) -> None:
    talk = [{"role": "user", "content": "Well?"}]
    sent = before([KNOWN, ASKED], [{"role": "developer", "content": given, "name": "x"}, *talk])
    assert sent == [{"role": "developer", "content": content, "name": "x"}, ASKED.as_json(), *talk]


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("parts", [False, True])
def test_an_assistants_thoughts_are_no_part_of_what_it_says(role: str, parts: bool) -> None:
    text = "<think>Who asks?</think>\n\nA heron."
    message = message_of({"role": role, "content": [{"type": "text", "text": text}] if parts else text})
    assert message == Message(role, "A heron." if role == "assistant" else text)  # type: ignore[arg-type]


@pytest.mark.parametrize("shows_all", [False, True])
def test_a_short_message_that_was_said_before_is_shown_in_its_place(make_policy: MakePolicy, shows_all: bool) -> None:
    def talk(*texts: str) -> list[Message]:
        return [Message(("user", "assistant")[place % 2], text) for place, text in enumerate(texts)]  # type: ignore[arg-type]

    known = talk("Book a table?", "Shall I?", "yes", "Done.", "Sell my car?", "Sure?")
    shown = [*(known if shows_all else []), Message("user", "yes")]
    left = besides(Context(messages=tuple(known)), shown, tokens=None, policy=make_policy("verbatim"))
    assert [*left.messages] == ([] if shows_all else known)


def test_what_is_known_comes_first_where_the_client_sends_no_system_message() -> None:
    talk = [{"role": "user", "content": "Well?"}, "odd"]
    assert before([KNOWN], talk) == [KNOWN.as_json(), *talk]
    instructed = [{"role": "system", "content": "Be kind."}, *talk]
    assert before([ASKED], instructed) == [instructed[0], ASKED.as_json(), *talk]

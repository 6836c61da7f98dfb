"""Replies that come piece by piece, and connections that close by themselves.

Invariants:

1. The pieces of a stream add up to the reply, however its bytes come.
2. A reply that breaks off is an error, and is not remembered.
3. Whoever uses a model in whatever event loops, no connection is left open.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies import Assistant, SyncAssistant, load_policy
from mnemotune.policies.lm import EndpointDown, LanguageModelError, Message, Request, ToolCall
from mnemotune.policies.lm.client import as_model
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.openai import OpenAIModel
from mnemotune.policies.lm.streaming import Events, Said
from mnemotune.policies.memory import open_memory

if TYPE_CHECKING:
    from .conftest import Connect, ScriptedServer

HELLO = Request((Message("user", "Hello."),), role="reply")


def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return f"data: {json.dumps({'id': 'c1', 'choices': choices, **more})}\n\n"


def streamed(*texts: Any, end: str = "data: [DONE]\n\n") -> str:
    return "".join([*(event({"content": text}) for text in texts), event({}, "stop"), end])


def say(server: ScriptedServer, body: str) -> None:
    server.answer(body, media_type="text/event-stream")


@given(st.lists(st.text(max_size=5)), st.lists(st.integers(0, 400)), st.sampled_from(["\n", "\r\n"]))
def test_events_come_whole_however_their_bytes_do(texts: list[str], cuts: list[int], line_end: str) -> None:
    body = (": ping\n" + streamed(*texts)).replace("\n", line_end).encode()
    places = sorted({0, *(min(cut, len(body)) for cut in cuts), len(body)})
    events, said, data = Events(), Said(), list[str]()
    for start, end in pairwise(places):
        data += events.take(body[start:end])
    for one in data[:-1]:
        said.take(json.loads(one))
    assert said.message == Message("assistant", "".join(texts))
    assert data[-1] == "[DONE]"


def test_tool_calls_come_in_pieces_too() -> None:
    said = Said()
    for call in (
        {"index": 1, "id": "b", "function": {"name": "find", "arguments": ""}},
        {"index": 0, "id": "a", "function": {"name": "look", "arguments": '{"q"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
    ):
        assert said.take({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}) == ""
    for odd in (1, [None, {"delta": 1}], [{"delta": {"tool_calls": [1]}}]):
        assert said.take({"choices": odd}) == said.take(odd) == ""
    said.take({"choices": [{"index": 1, "delta": {"content": "another choice"}}]})
    assert said.message == Message("assistant", "", (ToolCall("a", "look", '{"q": 1}'), ToolCall("b", "find", "")))


@pytest.mark.parametrize("end", ["data: [DONE]\n\n", "data: [DONE]", ""])
async def test_a_model_s_reply_streams(connect: Connect, server: ScriptedServer, end: str) -> None:
    say(server, streamed("Hel", "lo", " Ann.", end=end))
    assert [piece async for piece in connect().stream(HELLO)] == ["Hel", "lo", " Ann."]
    assert server.asked[0].body["stream"] is True


async def test_a_stream_is_begun_again_until_it_begins(connect: Connect, server: ScriptedServer) -> None:
    server.refuse(503, times=2)
    say(server, streamed("Hello"))
    assert [piece async for piece in connect().stream(HELLO)] == ["Hello"]
    server.refuse(401)
    with pytest.raises(EndpointDown, match="check OPENAI_API_KEY"):
        _ = [piece async for piece in connect().stream(HELLO)]


@pytest.mark.parametrize(
    "body",
    [event({"content": "Hel"}), event({"content": "Hel"}) + 'data: {"error": {"message": "boom"}}\n\n', "data: {\n\n"],
)
async def test_a_reply_that_breaks_off_is_an_error_and_not_remembered(
    connect: Connect, server: ScriptedServer, body: str
) -> None:
    model = connect()
    assistant = Assistant(model, open_memory(load_policy("native"), model, LexicalEmbedder()))
    say(server, body)
    with pytest.raises(LanguageModelError, match="the reply broke off"):
        _ = [piece async for piece in assistant.stream("Hello.")]
    say(server, streamed("Hello", "."))
    async with aclosing(assistant.stream("Are you there?")) as pieces:
        assert await anext(pieces) == "Hello"
    assert (await assistant.memory.snapshot()).buffer == ()


async def test_an_assistant_streams_with_its_memory_and_remembers(connect: Connect, server: ScriptedServer) -> None:
    model = connect()
    async with Assistant(model, open_memory(load_policy("native"), model, LexicalEmbedder())) as assistant:
        for text in ("Hi.", "Fine."):
            say(server, streamed(*text))
            assert "".join([piece async for piece in assistant.stream(f"To {text}")]) == text
    assert server.asked[1].body["messages"] == [
        {"role": "user", "content": "To Hi."},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "To Fine."},
    ]


async def test_the_official_client_streams_too(server: ScriptedServer) -> None:
    async with openai.AsyncOpenAI(base_url=server.url, api_key="any", max_retries=0) as client:
        memory = open_memory(load_policy("native"), client, LexicalEmbedder(), model_name="m")
        assistant = Assistant(client, memory, model_name="m")
        say(server, streamed("Hel", "lo"))
        assert [piece async for piece in assistant.stream("Hi.")] == ["Hel", "lo"]
        server.refuse(401)
        with pytest.raises(EndpointDown):
            _ = [piece async for piece in assistant.stream("Hi.")]
        say(server, event({"content": "Ye"}) + event({}, "error"))
        with pytest.raises(LanguageModelError, match="broke off: finish_reason 'error'"):
            _ = [piece async for piece in assistant.stream("Hi.")]
        assert [message.content for message in (await memory.snapshot()).buffer] == ["Hi.", "Hello"]


@pytest.mark.parametrize("official", [False, True])
@pytest.mark.parametrize(
    "pieces",
    [
        ["<thi", "nk>a secret</th", "ink>\n", "\nYes", "."],
        [
            [{"type": "thinking", "thinking": [{"type": "text", "text": "a secret"}]}],
            [{"type": "text", "text": "Yes."}],
        ],
    ],
)
async def test_thoughts_are_neither_said_nor_remembered(
    connect: Connect, server: ScriptedServer, official: bool, pieces: list[Any]
) -> None:
    async with openai.AsyncOpenAI(base_url=server.url, api_key="any", max_retries=0) as client:
        model = as_model(client, "m") if official else connect()
        assistant = Assistant(model, open_memory(load_policy("native"), model, LexicalEmbedder()))
        say(server, streamed(*pieces))
        assert "".join([piece async for piece in assistant.stream("Is it?")]) == "Yes."
        assert [message.content for message in (await assistant.memory.snapshot()).buffer] == ["Is it?", "Yes."]


def test_a_model_without_a_stream_says_it_in_one_piece() -> None:
    model = EmbeddedModel()
    with SyncAssistant(model, open_memory(load_policy("native"), model, LexicalEmbedder())) as assistant:
        (text,) = assistant.stream("I own a small boat.")
        assert "boat" in text
        assert [message.content for message in assistant.run(assistant.memory.snapshot()).buffer][1] == text


def test_an_assistant_works_without_an_event_loop(server: ScriptedServer) -> None:
    model = OpenAIModel("m", base_url=server.url, api_key="any")
    assistant = SyncAssistant(model, open_memory(load_policy("native"), model, LexicalEmbedder()), context_tokens=50)
    server.say("Hello.")
    assert assistant.reply("Hi.") == ("Hello.", [])
    say(server, streamed("A", "nn"))
    assert [*assistant.stream("Who am I?")] == ["A", "nn"]
    assert assistant.answer("Which?") == "fine"
    server.refuse(401)
    with pytest.raises(EndpointDown):
        assistant.reply("Hi.")

    async def inside() -> str:
        return assistant.answer("Which?")

    assert asyncio.run(inside()) == "fine", "also where there is a loop"
    assistant.close()
    assistant.close()
    with pytest.raises(RuntimeError, match="it is closed"):
        assistant.reply("Hi.")


SCRIPT = """
import asyncio, gc, sys
from mnemotune import Assistant, LexicalEmbedder, OpenAIModel, SyncAssistant, load_policy, open_memory

def make(kind):
    model = OpenAIModel("m", base_url=sys.argv[1], api_key="any")
    return kind(model, open_memory(load_policy("native"), model, LexicalEmbedder()))

assistant = make(Assistant)
for _ in range(3):  # three event loops, and nobody closes anything
    asyncio.run(assistant.reply("Hello."))

async def closing():
    async with make(Assistant) as assistant:
        await assistant.reply("Hello.")
        await asyncio.gather(*(assistant.answer("Which?") for _ in range(5)))

asyncio.run(closing())
make(SyncAssistant).reply("Hello.")
gc.collect()
left = make(SyncAssistant)
left.reply("Hello.")
print("done")
"""


def test_no_connection_is_left_open_whoever_forgets_it(server: ScriptedServer) -> None:
    """Warnings are errors, and an error where nobody can catch it is printed."""
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", SCRIPT, server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)

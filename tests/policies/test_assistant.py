"""The assistant, message by message.

Invariants:

1. Only a reply is remembered; a question leaves the memory as it was.
2. What is written does not reach the reply that set it off.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies import Assistant, NotRemembered, load_policy, presets
from mnemotune.policies.assistant import ContextUse, Uses, added
from mnemotune.policies.lm import LanguageModelError, Message, Request
from mnemotune.policies.lm.base import Completion, Embedding, LanguageModel
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import open_memory

if TYPE_CHECKING:
    from .conftest import MakeModel, MakePolicy, ScriptedModel


def native(model: ScriptedModel) -> Assistant:
    return Assistant(model, open_memory(load_policy("native"), model, LexicalEmbedder()))


async def test_a_reply_is_to_the_whole_talk_and_both_messages_are_remembered(make_model: MakeModel) -> None:
    model = make_model("Hello Ann.", "Good.")
    assistant = native(model)
    assert await assistant.reply("I am Ann.") == ("Hello Ann.", [])
    assert await assistant.reply("I swim.") == ("Good.", [])
    talk = (Message("user", "I am Ann."), Message("assistant", "Hello Ann."), Message("user", "I swim."))
    assert model.requests == [Request(talk[:1], role="reply"), Request(talk, role="reply")]
    assert (await assistant.memory.snapshot()).buffer == (*talk, Message("assistant", "Good."))


async def test_memories_go_before_the_buffer_and_the_message_comes_last(
    make_model: MakeModel, make_policy: MakePolicy
) -> None:
    model = make_model("One.", "Two.", "Three.")
    assistant = Assistant(model, open_memory(make_policy("verbatim"), model, LexicalEmbedder()))
    for text in ("a", "b", "c"):
        await assistant.reply(text)
    assert model.requests[2].messages == (
        Message("system", "I know:\n- user: a\n- assistant: One."),
        Message("user", "b"),
        Message("assistant", "Two."),
        Message("user", "c"),
    )


async def test_a_reply_that_cannot_be_remembered_is_not_lost() -> None:
    class Illiterate(LanguageModel):
        name = "illiterate"

        async def complete(self, request: Request) -> Completion:
            if request.role == "write":
                raise LanguageModelError("out of order")
            return Completion("Nice boat.", Usage(1, 1))

    policy, model = load_policy("awi").model_copy(update={"buffer_size": 0, "update_every": 2}), Illiterate()
    assistant = Assistant(model, open_memory(policy, model, LexicalEmbedder()))
    with pytest.raises(NotRemembered, match="memory cannot be written: out of order") as caught:
        await assistant.reply("I own a boat.")
    assert caught.value.reply == "Nice boat."


async def test_the_writes_that_a_reply_set_off_come_with_it_after_it(
    make_model: MakeModel, make_policy: MakePolicy
) -> None:
    model = make_model("Great.", '{"sport": "golf"}', "Fine.", "{}")
    assistant = Assistant(model, open_memory(make_policy("profile", buffer_size=0), model, LexicalEmbedder()))
    text, (event,) = await assistant.reply("I golf.")
    assert (text, event.before, event.after) == ("Great.", (), ("sport: golf",))
    assert event.evicted == (Message("user", "I golf."), Message("assistant", "Great."))
    await assistant.reply("More.")
    assert [request.role for request in model.requests] == ["reply", "write", "reply", "write"]
    assert "golf" not in model.requests[0].messages[0].content
    assert model.requests[2].messages[0] == Message("system", "I know:\n- sport: golf")


async def test_a_question_is_asked_with_the_context_and_leaves_no_trace(
    make_model: MakeModel, make_policy: MakePolicy
) -> None:
    model = make_model("One.", "Two.", "2")
    assistant = Assistant(model, open_memory(make_policy("verbatim"), model, LexicalEmbedder()))
    await assistant.reply("a")
    await assistant.reply("b")
    before = await assistant.memory.snapshot()
    assert await assistant.answer("Which?") == "2"
    assert await assistant.memory.snapshot() == before
    assert model.requests[-1] == Request(
        (
            Message("system", "I know:\n- user: a\n- assistant: One."),
            Message("user", "b"),
            Message("assistant", "Two."),
            Message("user", "Which?"),
        ),
        role="answer",
    )


async def test_a_question_is_billed_as_what_it_is_for(make_model: MakeModel) -> None:
    model = make_model("1")
    await native(model).answer("Which?", role="probe")
    await native(model).answer("Which?")
    assert [request.role for request in model.requests] == ["probe", "answer"]


async def test_an_index_is_searched_for_what_was_just_said(make_model: MakeModel, make_policy: MakePolicy) -> None:
    model = make_model("fine")
    policy = make_policy(
        "verbatim", write={"mode": "verbatim", "roles": "user"}, buffer_size=0, store="external", top_k=1
    )
    assistant = Assistant(model, open_memory(policy, model, LexicalEmbedder()))
    for text in ("My cat is old.", "My boat is red.", "What about the cat?"):
        await assistant.reply(text)
    assert model.requests[2].messages[0].content == "I know:\n- user: My cat is old."
    await assistant.answer("Which colour has the boat?")
    assert model.requests[3].messages[0].content == "I know:\n- user: My boat is red."


async def test_forks_remember_the_same_and_go_their_own_ways(make_model: MakeModel) -> None:
    model = make_model("fine")
    assistant = native(model)
    await assistant.reply("a")
    fork = await assistant.fork()
    assert await fork.memory.snapshot() == await assistant.memory.snapshot()
    assert fork.model is model
    await fork.reply("b")
    assert len((await assistant.memory.snapshot()).buffer) == 2
    assert len((await fork.memory.snapshot()).buffer) == 4


class Broken:
    name = "broken"

    async def complete(self, request: Request) -> object:
        raise LanguageModelError(f"no {request.role} today")

    async def aclose(self) -> None:
        pass


async def test_a_call_that_failed_is_not_remembered() -> None:
    model = Broken()
    assistant = Assistant(model, open_memory(load_policy("native"), model, LexicalEmbedder()))  # type: ignore[arg-type]
    with pytest.raises(LanguageModelError, match="no reply today"):
        await assistant.reply("Hello?")
    assert (await assistant.memory.snapshot()).buffer == ()


async def test_what_memory_shows_is_kept_within_the_tokens_and_counted_forks_included(
    make_model: MakeModel, make_policy: MakePolicy
) -> None:
    model = make_model("fine")
    policy = make_policy("verbatim", buffer_size=0)
    assistant = Assistant(model, open_memory(policy, model, LexicalEmbedder()), context_tokens=20)
    for _ in range(6):
        await assistant.reply("a" * 20)
    fork = await assistant.fork()
    await fork.answer("Which?")
    shown = [sum(message.tokens for message in request.messages[:-1]) for request in model.requests]
    assert max(shown) <= 20
    assert shown[-1] > 10
    use = added([assistant.uses])
    assert {role: use.calls for role, use in use.items()} == {"reply": 6, "answer": 1}
    assert sum(use.tokens for use in use.values()) == sum(shown)
    assert max(use.most_tokens for use in use.values()) == max(shown)
    assert use["answer"].left_out > 0
    assert fork.context_tokens == 20


def test_uses_are_added_in_one_order_whichever_call_came_first() -> None:
    probed: Uses = {"probe": ContextUse(1)}
    answered: Uses = {"answer": ContextUse(2)}
    assert [*added([probed, answered])] == [*added([answered, probed])] == ["answer", "probe"]


@settings(deadline=None, max_examples=40)
@given(
    preset=st.sampled_from(presets()),
    tokens=st.integers(0, 400),
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=400), max_size=12),
)
async def test_no_call_of_any_preset_shows_more_than_the_budget(
    make_model: MakeModel, preset: str, tokens: int, texts: list[str]
) -> None:
    model = make_model(json.dumps({"facts": ["a " * 40], "memory": [{"event": "ADD", "text": "b " * 40}]}))
    memory = open_memory(load_policy(preset), model, LexicalEmbedder())
    assistant = Assistant(model, memory, context_tokens=tokens)
    for text in texts:
        await assistant.reply(text)
    await assistant.answer("Which?", role="probe")
    shown = [request.messages[:-1] for request in model.requests if request.role != "write"]
    assert len(shown) == len(texts) + 1
    assert max(sum(message.tokens for message in messages) for messages in shown) <= tokens


class Elsewhere(LanguageModel):
    """Takes a moment for each call, as what is behind an endpoint does."""

    name = "elsewhere"

    async def complete(self, request: Request) -> Completion:
        await asyncio.sleep(0)
        return Completion('{"birds": "many"}', Usage(1, 1))


class EmbedderElsewhere(LexicalEmbedder):
    async def embed(self, texts: Sequence[str], **_: Any) -> Embedding:
        await asyncio.sleep(0)
        return await super().embed(texts)


def test_an_assistant_goes_on_in_another_event_loop(make_policy: MakePolicy) -> None:
    """In each of them calls wait for one another, which binds plain locks to their loop."""
    model = Elsewhere()
    policy = make_policy("profile", buffer_size=0, store="external", top_k=3)
    assistant = Assistant(model, open_memory(policy, model, EmbedderElsewhere()))

    async def talk(word: str) -> None:
        await asyncio.gather(*(assistant.remember(f"I saw {word}-{i}.", "I see.") for i in range(3)))
        await asyncio.gather(*(assistant.answer(f"Where is {word}-{i}?") for i in range(3)))

    for word in ("heron", "robin", "wren"):
        asyncio.run(talk(word))
    assert [item.text for item in asyncio.run(assistant.memory.listing())] == ["birds: many"]

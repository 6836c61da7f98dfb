"""Episodes, and the facts in them that were not to be expected.

Invariant: what is still going on stays in the buffer, word for word.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from mnemotune.policies.lm import Completion, Message, Request, ToolCall
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import dump_memory, open_memory
from mnemotune.policies.memory.conformance import Make, MemoryConformance, Scribe, observe, unwritten
from remembering import preset

if TYPE_CHECKING:
    from ..conftest import MakeModel, Pair


policy = partial(preset, "nemori", update_every=4, buffer_size=0)


def episodes(*told: tuple[str, str, int]) -> str:
    return json.dumps({"episodes": [{"title": a, "narrative": b, "last": str(c)} for a, b, c in told]})


def gap(*facts: str, expected: str = "") -> str:
    return json.dumps({"expected": expected, "facts": [{"text": fact} for fact in facts]})


class Narrator(Scribe):
    """Tells each round as an episode of its own, and notes what it reads."""

    async def complete(self, request: Request) -> Completion:
        completion, prompt = await super().complete(request), request.messages[-1].content
        if '"episodes"' not in prompt:
            return completion
        talk = json.loads(prompt.split("Conversation:\n")[1])
        told = [("Birds", message["content"], message["number"] + 1) for message in talk[::2]]
        return Completion(episodes(*told), completion.usage)


class TestEpisodeMemory(MemoryConformance):
    @pytest.fixture
    def model(self) -> Narrator:
        return Narrator()

    @pytest.fixture(params=[2, 6])
    def make(self, request: pytest.FixtureRequest) -> Make:
        under = policy(top_k=2, update_every=request.param, buffer_size=4, knobs={"neighbours": 2})
        return lambda model: open_memory(under, model, LexicalEmbedder())


@pytest.mark.asyncio
async def test_an_episode_that_may_go_on_stays_in_the_buffer(make_model: MakeModel, pair: Pair) -> None:
    model = make_model(episodes(("Dog", "The dog barks.", 2), ("Work", "A talk of work.", 4)), gap("There is a dog."))
    memory = open_memory(policy(), model, LexicalEmbedder())
    (event,) = await observe(memory, [pair("My dog."), pair("My work.")])
    assert event.after == ("Dog: The dog barks.", "There is a dog.")
    assert [*event.evicted] == pair("My dog.")
    assert [*(await memory.context("", tokens=None)).messages] == pair("My work.")
    assert "My dog." in model.prompts[-1]
    assert "My work." not in model.prompts[-1]


@pytest.mark.asyncio
@pytest.mark.parametrize(("update_every", "last"), [(2, 1), (8, 1), (8, 6), (3, 2)])
async def test_the_buffer_stays_as_small_as_it_is_to_be_wherever_a_talk_is_divided(
    pair: Pair, update_every: int, last: int
) -> None:
    class Early(Scribe):
        async def complete(self, request: Request) -> Completion:
            completion, divides = await super().complete(request), '"episodes"' in request.messages[-1].content
            early = episodes(("One", "Some talk.", last), ("Rest", "More talk.", update_every))
            return Completion(early if divides else gap(), completion.usage)

    memory = open_memory(policy(update_every=update_every, buffer_size=4), Early(), LexicalEmbedder())
    sizes = []
    for i in range(30):
        await memory.observe(pair(f"Round {i}."))
        sizes.append(len((await memory.context("", tokens=None)).messages))
    assert max(sizes) < update_every + 4 + 2


@pytest.mark.asyncio
async def test_a_talk_of_one_episode_leaves_the_buffer_whole(make_model: MakeModel, pair: Pair) -> None:
    memory = open_memory(policy(), make_model(episodes(("", "A dog.", 1)), gap()), LexicalEmbedder())
    (event,) = await observe(memory, [pair("My dog."), pair("It barks.")])
    assert (event.after, len(event.evicted)) == (("Untitled: A dog.",), 4)


@pytest.mark.asyncio
async def test_known_facts_are_in_view_and_only_the_gap_is_added(make_model: MakeModel, pair: Pair) -> None:
    first, then = gap("The dog barks."), gap("The dog barks.", "The dog is old.", expected="The dog barks.")
    told = episodes(("Dog", "A dog.", 4))
    model = make_model(told, first, told, then)
    memory = open_memory(policy(), model, LexicalEmbedder())
    await observe(memory, [pair("My dog."), pair("It barks."), pair("My dog."), pair("It is old.")])
    assert '"1": "The dog barks."' in model.prompts[-1]
    assert [item.text for item in await memory.listing() if "old" in item.text] == ["The dog is old."]
    assert sum("barks" in item.text for item in await memory.listing()) == 1


@pytest.mark.asyncio
async def test_the_words_of_the_user_alone_are_told_and_no_message_is_lost(make_model: MakeModel, pair: Pair) -> None:
    model = make_model(episodes(("Dog", "A dog.", 1), ("Work", "Work.", 2)), gap())
    memory = open_memory(policy(write={"mode": "facts", "roles": "user"}), model, LexicalEmbedder())
    said = [pair("My dog."), pair("My work.")]
    (event,) = await observe(memory, said)
    assert [*event.evicted] == said[0]
    assert "assistant" not in model.prompts[0].split("Conversation:")[1]
    assert [*(await memory.context("", tokens=None)).messages] == said[1]


@pytest.mark.asyncio
async def test_a_tool_call_stays_with_its_results(make_model: MakeModel) -> None:
    call = Message("assistant", "", (ToolCall("a", "look", "{}"),))
    said = [Message("user", "Look."), call, Message("tool", "Rain.", tool_call_id="a"), Message("assistant", "Rain.")]
    model = make_model(episodes(("Look", "A look.", 2), ("Rain", "Rain.", 4)), gap())
    memory = open_memory(policy(), model, LexicalEmbedder())
    events = await memory.observe(said)
    assert [*events[0].evicted] == said[:1]
    assert unwritten(said, events) == said[1:] == [*(await memory.context("", tokens=None)).messages]


@pytest.mark.asyncio
async def test_an_episode_that_cannot_stay_without_half_a_tool_call_is_written(make_model: MakeModel) -> None:
    call = Message("assistant", "", tuple(ToolCall(name, "look", "{}") for name in "abc"))
    said = [call, *(Message("tool", "Rain.", tool_call_id=name) for name in "abc")]
    model = make_model(episodes(("Look", "A look.", 1), ("Rain", "It rains.", 4)), gap())
    memory = open_memory(policy(), model, LexicalEmbedder())
    (event,) = await memory.observe(said)
    assert event.after == ("Look: A look.", "Rain: It rains.")
    assert [*event.evicted] == said


@pytest.mark.asyncio
async def test_an_episode_of_no_messages_is_left_out(make_model: MakeModel, pair: Pair) -> None:
    model = make_model(episodes(("Dog", "A dog.", 2), ("Cat", "A cat.", 4), ("Work", "Work.", 4)), gap())
    memory = open_memory(policy(), model, LexicalEmbedder())
    (event,) = await observe(memory, [pair("My dog."), pair("My cat.")])
    assert event.after == ("Dog: A dog.",)
    assert [*(await memory.context("", tokens=None)).messages] == pair("My cat.")


@pytest.mark.asyncio
async def test_facts_and_episodes_come_back_in_turn(make_model: MakeModel, pair: Pair) -> None:
    told = [("Dog", f"The dog, day {i}.", i) for i in range(1, 5)]
    model = make_model(episodes(*told), gap("Dogs bark.", "Dogs run.", "Dogs eat."))
    memory = open_memory(policy(top_k=2, knobs={"episodes": 1}), model, LexicalEmbedder())
    await observe(memory, [pair("My dog."), pair("It barks.")])
    items = (await memory.context("Do dogs run?", tokens=None)).items
    assert sorted(item.text.startswith("Dog:") for item in items) == [False, False, True]
    await memory.adopt(policy(top_k=2, knobs={"episodes": 0}))
    assert len((await memory.context("Do dogs run?", tokens=None)).items) == 2


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "reply",
    [
        '{"no": 1}',
        '{"episodes": ["A dog."]}',
        episodes(("Dog", "", 4)),
        episodes(("Dog", "A dog.", 9), ("Work", "Work.", 4)),
        episodes(("Dog", "A dog.", 2), ("Cat", "A cat.", 2), ("Work", "Work.", 4)),
    ],
)
async def test_a_reply_that_makes_no_sense_changes_no_memory(make_model: MakeModel, pair: Pair, reply: str) -> None:
    memory = open_memory(policy(), make_model(reply), LexicalEmbedder())
    (event,) = await observe(memory, [pair("My dog."), pair("My work.")])
    assert (event.after, len(event.evicted)) == ((), 4)
    assert event.error is not None


@pytest.mark.asyncio
async def test_a_gap_that_makes_no_sense_costs_the_facts_of_its_episode_alone(
    make_model: MakeModel, pair: Pair
) -> None:
    told = episodes(("Dog", "A dog.", 1), ("Cat", "A cat.", 2), ("Work", "Work.", 4))
    memory = open_memory(policy(), make_model(told, "no JSON", gap("The cat is old.")), LexicalEmbedder())
    (event,) = await observe(memory, [pair("My dog.", "My cat."), pair("My work.")])
    assert event.after == ("Dog: A dog.", "Cat: A cat.", "The cat is old.")
    assert event.error is not None


@pytest.mark.asyncio
async def test_a_forgotten_fact_is_in_no_episode(make_model: MakeModel, pair: Pair) -> None:
    model = make_model(episodes(("Dog", "Tam the dog barks.", 4)), gap("The dog is called Tam.", "It is old."))
    memory = open_memory(policy(), model, LexicalEmbedder())
    await observe(memory, [pair("My dog."), pair("It barks.")])
    assert await memory.forget(lambda text: "Tam" in text) == 2
    assert "Tam" not in await dump_memory(memory)


@pytest.mark.asyncio
async def test_the_embedded_model_divides_a_talk_and_notes_the_gap(pair: Pair) -> None:
    model = EmbeddedModel()
    memory = open_memory(policy(), model, LexicalEmbedder())
    talk = ["I have a dog that barks all night.", "I work as a nurse in Lisbon."]
    (event,) = await observe(memory, [pair(text) for text in talk])
    assert [*event.evicted] == pair(talk[0])
    assert event.after == (f"dog, barks, night: {talk[0]}", talk[0])
    await model.aclose()

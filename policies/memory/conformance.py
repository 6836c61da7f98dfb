"""Tests that every memory passes.

The test module of an implementation inherits them, and gives a fixture ``make``::

    class TestMyMemory(MemoryConformance):
        @pytest.fixture
        def make(self) -> Make:
            return lambda model: MyMemory(my_policy, model, LexicalEmbedder())

They need pytest, pytest-asyncio and hypothesis, which nothing else in this package imports.

Invariants:

1. A memory starts empty, and the same messages and replies make the same memory.
2. The buffer is never lost: the context's pinned messages, what writes evicted, and then the context's other messages,
   is what was observed; marks stand for masked ones.
3. A context takes at most its tokens, and asking for it changes nothing.
4. A snapshot, what was restored from it, and forks are independent of what comes later.
5. A failing model leaves a memory as it was.
6. Memories of the same kind know nothing of each other.
7. What is forgotten is gone from the memories, the buffer, every context, and later snapshots.
8. A rewritten policy is adopted, and what is remembered stays.
9. What is saved comes back from its file, and a damaged file changes nothing. A memory without ``dump`` and ``load``
   skips these tests, by name.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ..lm.base import Completion, LanguageModel, LanguageModelError, Message, Request
from ..lm.ledger import Usage
from .masking import MASK
from .protocol import Context, Item, Memory, MemoryEvent
from .saving import Savable, SavedMemoryError, dump_memory, restore_memory

Make = Callable[[LanguageModel], Memory]
"""Makes an empty memory that writes with a model."""


class Scribe(LanguageModel):
    """Notes every ``word-1`` that it reads, in a form that the built-in writers take. Fails while ``fails`` is set."""

    name = "scribe"
    fails = False

    async def complete(self, request: Request) -> Completion:
        """Return the notes."""
        if self.fails:
            raise LanguageModelError("this model fails")
        words = sorted(set(re.findall(r"\w+-\d+", request.messages[-1].content)))
        notes = [f"The user said {word}." for word in words]
        steps = [{"event": "ADD", "text": note} for note in notes]
        reply = {"facts": notes, "memory": steps} | {f"said {word}": "yes" for word in words}
        reply |= {"summary": "\n".join(notes)} if '"summary"' in request.messages[-1].content else {}
        return Completion(json.dumps(reply), Usage(1, 1))


@dataclass(frozen=True, slots=True)
class View:
    """All that can be seen of a memory."""

    listing: Sequence[Item]
    contexts: Sequence[Context]

    def has(self, text: str) -> bool:
        """Tell whether a text is anywhere to be seen."""
        shown = [message.text for context in self.contexts for message in context.render()]
        return any(text in seen for seen in [*shown, *(item.text for item in self.listing)])

    @property
    def buffer(self) -> tuple[Message, ...]:
        """The messages that are not written yet."""
        return self.contexts[0].messages


def alike(shown: Sequence[Message], observed: Sequence[Message]) -> bool:
    """Tell whether messages are those that were observed, or marks that stand for them."""
    marks = [replace(message, content=MASK) for message in observed]
    return len(shown) == len(observed) and all(map(tuple.__contains__, zip(observed, marks, strict=True), shown))


def unwritten(observed: Sequence[Message], events: Sequence[MemoryEvent]) -> list[Message]:
    """Return the messages that no write evicted."""
    left = [*observed]
    for event in events:
        for message in event.evicted:
            left.remove(message)
    return left


def talk(word: str, rounds: int) -> list[list[Message]]:
    """Return rounds of a conversation, each with a ``word-1`` of its own."""
    said = [(f"I have seen {word}-{i} today.", f"How was {word}-{i}?") for i in range(1, rounds + 1)]
    return [[Message("user", user), Message("assistant", assistant)] for user, assistant in said]


async def observe(memory: Memory, rounds: Sequence[Sequence[Message]]) -> list[MemoryEvent]:
    """Take in rounds; return the writes."""
    return [event for messages in rounds for event in await memory.observe(messages)]


async def view(memory: Memory, *queries: str) -> View:
    """Return what can be seen of a memory."""
    contexts = [await memory.context(query, tokens=None) for query in queries or ("What have I seen?", "heron-1")]
    return View(await memory.listing(), contexts)


@pytest.mark.asyncio
class MemoryConformance:
    """What every memory does; a subclass gives the fixture ``make``."""

    rounds = 12
    """Rounds of a test's conversation: enough for several writes."""

    @pytest.fixture
    def make(self) -> Make:
        """Return what makes the memory: an empty one at each call."""
        raise NotImplementedError("a subclass of MemoryConformance gives the fixture make")

    @pytest.fixture
    def model(self) -> Scribe:
        """Return the model that writes; another one where ``Scribe`` does not say what the memory can read."""
        return Scribe()

    async def test_it_starts_empty(self, make: Make, model: Scribe) -> None:
        memory = make(model)
        seen = await view(memory)
        assert (list(seen.listing), seen.buffer) == ([], ())
        assert not any(context.items or context.left_out or context.cut for context in seen.contexts)
        await memory.aclose()

    async def test_the_same_messages_make_the_same_memory(self, make: Make, model: Scribe) -> None:
        first, second = make(model), make(model)
        rounds = talk("heron", self.rounds)
        assert await observe(first, rounds) == await observe(second, rounds)
        seen = await view(first)
        assert seen == await view(second) == await view(first)
        assert len({item.id for item in seen.listing}) == len(seen.listing)
        assert seen.has(f"heron-{self.rounds}")
        await first.aclose()
        await second.aclose()

    async def test_the_buffer_is_never_lost(self, make: Make, model: Scribe) -> None:
        memory = make(model)
        observed: list[Message] = []
        evicted: list[Message] = []
        for messages in talk("heron", self.rounds):
            observed += messages
            evicted += [message for event in await memory.observe(messages) for message in event.evicted]
            context = (await view(memory)).contexts[0]
            start, rest = context.messages[: context.pinned], context.messages[context.pinned :]
            assert alike([*start, *evicted, *rest], observed)
        await memory.aclose()

    async def test_a_write_tells_the_memories_before_and_after_it(self, make: Make, model: Scribe) -> None:
        memory = make(model)
        before: tuple[str, ...] = ()
        for event in await observe(memory, talk("heron", self.rounds)):
            assert event.before == before
            before = event.after
        assert before == tuple(item.text for item in await memory.listing())
        await memory.aclose()

    async def test_a_context_takes_at_most_its_tokens(self, make: Make, model: Scribe) -> None:
        words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
        texts = st.builds(str.__mul__, words, st.integers(0, 15))

        @settings(deadline=None)
        @given(rounds=st.lists(st.tuples(texts, texts), max_size=8), query=texts, tokens=st.integers(0, 300))
        def holds(rounds: list[tuple[str, str]], query: str, tokens: int) -> None:
            async def run() -> None:
                memory = make(model)
                await observe(memory, [[Message("user", a), Message("assistant", b)] for a, b in rounds])
                await observe(memory, talk("heron", 3))
                before = await view(memory)
                shown = await memory.context(query, tokens=tokens)
                assert shown.tokens <= tokens, "choose items and messages that fit, for example with budget.within"
                assert await view(memory) == before
                await memory.aclose()

            asyncio.run(run())

        await asyncio.to_thread(holds)

    async def test_contexts_may_be_asked_for_side_by_side(self, make: Make, model: Scribe) -> None:
        memory = make(model)
        await observe(memory, talk("heron", self.rounds))
        queries = [f"When did I see heron-{i}?" for i in range(1, 6)]
        together = await asyncio.gather(*(memory.context(query, tokens=200) for query in queries))
        assert together == [await memory.context(query, tokens=200) for query in queries]
        await memory.aclose()

    async def test_a_snapshot_is_restored_again_and_again(self, make: Make, model: Scribe) -> None:
        memory, other = make(model), make(model)
        await observe(memory, talk("heron", self.rounds))
        state, seen = await memory.snapshot(), await view(memory)
        await observe(memory, talk("robin", self.rounds))
        assert (await view(memory)).has("robin-1")
        for restored in (memory, other, memory):
            await restored.restore(state)
            assert await view(restored) == seen
            await observe(restored, talk("robin", 3))
        assert await view(memory) == await view(other)
        await memory.aclose()
        await other.aclose()

    async def test_forks_go_their_own_ways(self, make: Make, model: Scribe) -> None:
        memory = make(model)
        await observe(memory, talk("heron", self.rounds))
        seen = await view(memory)
        fork, bare = await memory.fork(), await memory.fork(memories=False)
        assert await view(fork) == seen
        await observe(fork, talk("robin", self.rounds))
        assert await view(memory) == seen
        assert ([*await bare.listing()], (await view(bare)).buffer) == ([], seen.buffer)
        await observe(memory, talk("wren", self.rounds))
        assert not (await view(fork)).has("wren")
        assert not (await view(memory)).has("robin")
        for each in (memory, fork, bare):
            await each.aclose()

    async def test_a_failing_model_leaves_it_as_it_was(self, make: Make, model: Scribe) -> None:
        memory, other = make(model), make(model)
        rounds = talk("heron", self.rounds)
        await observe(other, rounds)
        for messages in rounds:
            seen, model.fails = await view(memory), True
            try:
                await memory.observe(messages)
            except LanguageModelError:
                assert await view(memory) == seen
                model.fails = False
                await memory.observe(messages)
            model.fails = False
        assert await view(memory) == await view(other)
        await memory.aclose()
        await other.aclose()

    async def test_two_memories_know_nothing_of_each_other(self, make: Make, model: Scribe) -> None:
        memories = {word: make(model) for word in ("heron", "robin")}
        await asyncio.gather(*(observe(memory, talk(word, self.rounds)) for word, memory in memories.items()))
        for word, other in (("heron", "robin"), ("robin", "heron")):
            seen = await view(memories[word], f"Tell me of {other}-1.", "Tell me everything.")
            assert seen.has(f"{word}-{self.rounds}")
            assert not seen.has(f"{other}-")
        for memory in memories.values():
            await memory.aclose()

    @pytest.mark.parametrize("which", ["first", "last"])
    async def test_what_is_forgotten_is_gone(self, make: Make, model: Scribe, which: str) -> None:
        memory, other = make(model), make(model)
        rounds = talk("heron", self.rounds)
        left = unwritten([m for messages in rounds for m in messages], await observe(memory, rounds))
        gone = f"heron-{1 if which == 'first' else self.rounds}"

        def said(text: str) -> bool:
            return re.search(rf"{gone}\b", text) is not None

        before = await view(memory)
        count = sum(said(item.text) for item in before.listing) + sum(said(m.text) for m in left)
        assert await memory.forget(said) >= count  # what a memory holds without showing it counts too
        await other.restore(await memory.snapshot())
        for each in (memory, other, await memory.fork()):
            seen = await view(each, gone, "What have I seen?")
            assert not any(said(message.text) for context in seen.contexts for message in context.render())
            assert [item.id for item in seen.listing] == [i.id for i in before.listing if not said(i.text)]
            assert alike(seen.buffer, [m for m in left if not said(m.text)])
        assert await memory.forget(said) == 0
        await memory.aclose()
        await other.aclose()

    async def test_a_rewritten_policy_is_adopted_and_memories_stay(self, make: Make, model: Scribe) -> None:
        memory = make(model)
        await observe(memory, talk("heron", self.rounds))
        seen, prompts = await view(memory), memory.policy.prompts
        reply = None if prompts.reply is None else f"Rewritten. {prompts.reply}"
        policy = memory.policy.model_copy(update={"prompts": prompts.model_copy(update={"reply": reply})})
        fork = await memory.fork()
        await memory.adopt(policy)
        assert memory.policy == policy
        after = await view(memory)
        assert (after.listing, after.buffer) == (seen.listing, seen.buffer)
        assert [context.items for context in after.contexts] == [context.items for context in seen.contexts]
        assert (await view(fork), fork.policy.prompts) == (seen, prompts)
        await memory.aclose()
        await fork.aclose()

    async def test_what_is_saved_comes_back(self, make: Make, model: Scribe) -> None:
        memory, other = make(model), make(model)
        _skip_unless_savable(memory)
        for word in ("heron", "robin"):
            await observe(memory, talk(word, self.rounds))
            saved, seen = await dump_memory(memory), await view(memory)
            await observe(other, talk("wren", 3))
            await restore_memory(other, saved, where="a file")
            assert await view(other) == seen
            assert await dump_memory(other) == saved
        for each in (memory, other):
            await observe(each, talk("stork", self.rounds))
        assert await view(memory) == await view(other)
        await memory.aclose()
        await other.aclose()

    async def test_what_is_forgotten_is_not_saved(self, make: Make, model: Scribe) -> None:
        memory = make(model)
        _skip_unless_savable(memory)
        await observe(memory, talk("heron", self.rounds))
        assert "heron-" in await dump_memory(memory)
        await memory.forget(lambda text: "heron-" in text)
        assert "heron-" not in await dump_memory(memory)
        await memory.aclose()

    async def test_a_damaged_file_changes_nothing(self, make: Make, model: Scribe) -> None:
        memory, other = make(model), make(model)
        _skip_unless_savable(memory)
        await observe(memory, talk("heron", self.rounds))
        saved = json.loads(await dump_memory(memory))
        await observe(other, talk("robin", self.rounds))
        seen = await view(other)
        for damage in ({"mnemotune_memory": 0}, {"backend": "nobody's"}, {"state": None}):
            with pytest.raises(SavedMemoryError, match=next(iter(damage))):
                await restore_memory(other, json.dumps(saved | damage), where="a file")
            assert await view(other) == seen
        await memory.aclose()
        await other.aclose()


def _skip_unless_savable(memory: Memory) -> None:
    if not isinstance(memory, Savable):
        pytest.skip("it cannot be saved: it has no `dump` and `load`")

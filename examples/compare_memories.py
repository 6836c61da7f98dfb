"""Compare a memory of your own with the built-in one, on the same users and within the same tokens.

The memory here keeps each message of the user that tells something, and shows those that share words with the question.

    python examples/compare_memories.py --data generated:8@1
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from mnemotune import Cast, DialogueTrack, EmbeddedModel, Evaluator, MemoryPolicy, load_policy, open_embedder
from mnemotune.env.statistics import paired_difference
from mnemotune.policies.lm import Embedder, LanguageModel, Message
from mnemotune.policies.memory import MEMORIES, Context, Item, MemoryEvent
from mnemotune.policies.memory.budget import within

State = tuple[tuple[Item, ...], int]


def words(text: str) -> set[str]:
    """Return the longer words of a text."""
    return set(re.findall(r"\w{4,}", text.lower()))


class Notebook:
    """Notes what the user says; the notes that share most words with the message come back, the newer first."""

    def __init__(self, policy: MemoryPolicy, model: LanguageModel, embedder: Embedder) -> None:
        """Start empty. Model and embedder are for memories that need them; this one only hands them on."""
        self.policy, self.model, self.embedder = policy, model, embedder
        self.notes: tuple[Item, ...] = ()
        self.count = 0

    async def observe(self, messages: Sequence[Message]) -> list[MemoryEvent]:
        """Note the user's messages that tell something."""
        before = self._lines
        notes = [
            message.text for message in messages if message.role == "user" and re.search(r"\b(I|my)\b", message.text)
        ]
        self.notes += tuple(Item(str(self.count + i), text) for i, text in enumerate(notes))
        self.count += len(notes)
        return [MemoryEvent(tuple(messages), before, self._lines)]

    async def context(self, query: str, *, tokens: int | None) -> Context:
        """Return the notes in the order of time, with their ranks; `within` leaves out the lowest."""
        asked = words(query)
        ranked = sorted(range(len(self.notes)), key=lambda i: (-len(asked & words(self.notes[i].text)), -i))
        ranks = {i: rank for rank, i in enumerate(ranked)}
        items = tuple(replace(note, rank=ranks[i]) for i, note in enumerate(self.notes))
        return within(Context(items, (), "What the user has said:\n{memories}"), tokens, buffer_share=0.5)

    async def listing(self) -> list[Item]:
        """Return all notes."""
        return list(self.notes)

    async def snapshot(self) -> State:
        """Return the notes as a value."""
        return self.notes, self.count

    async def restore(self, state: State) -> None:
        """Go back to it."""
        self.notes, self.count = state

    async def fork(self, *, memories: bool = True) -> Notebook:
        """Return a notebook with the same notes."""
        other = Notebook(self.policy, self.model, self.embedder)
        await other.restore((self.notes if memories else (), self.count))
        return other

    async def adopt(self, policy: MemoryPolicy) -> None:
        """Go on under another policy."""
        self.policy = policy

    async def forget(self, what: Callable[[str], bool]) -> int:
        """Remove notes."""
        kept = tuple(note for note in self.notes if not what(note.text))
        gone, self.notes = len(self.notes) - len(kept), kept
        return gone

    async def aclose(self) -> None:
        """Hold nothing open."""

    @property
    def _lines(self) -> tuple[str, ...]:
        return tuple(note.text for note in self.notes)


async def compare(data: str) -> None:
    """Score both with the embedded model, and tell the paired difference."""
    MEMORIES.register("notebook", Notebook)
    policies = {
        "notebook": MemoryPolicy.model_validate({"backend": "notebook", "write": {"mode": "none"}}),
        "rag": load_policy("rag"),
        "window": load_policy("window"),
    }
    model, track = EmbeddedModel(), DialogueTrack()
    cast = Cast(assistant=model, user=model, embedder=open_embedder("lexical:1024"), context_tokens=1000)
    evaluator = Evaluator(track, cast)
    users = track.load(data)
    scores = {name: await evaluator.evaluate(policy, users) for name, policy in policies.items()}
    for name, score in scores.items():
        mean = score.memory_score
        print(f"{name:9} {mean.mean:6.3f} [{mean.low:.3f}, {mean.high:.3f}], {mean.users} users")
    for other in ("rag", "window"):
        gain = paired_difference(scores["notebook"].by_group, scores[other].by_group)
        print(f"notebook - {other}: {gain.mean:.3f} [{gain.low:.3f}, {gain.high:.3f}], paired by user")
    await cast.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare a memory of your own with the built-in one.")
    parser.add_argument("--data", default="generated:8@1", help="users, best your own")
    asyncio.run(compare(parser.parse_args().data))

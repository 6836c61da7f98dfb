"""Whether facts that are to be forgotten are gone: from memories, from what waits, and from the store's files.

python -m mnemotune.experiments.reliability.deletion [--facts N] [--seed N]

Simulated users tell a store their lives. Then each fact is forgotten by the sentence that told it, one after another,
and all that is left is searched for it: memories, contexts, saved states, and the bytes of the files, also once the
store was opened again.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...data.dialogue.load import load_scenarios
from ...data.dialogue.scenario import Scenario
from ...env.evidence import telling
from ...env.stored import is_told, words_of
from ...optimizer.views.table import markdown_lines
from ...policies import load_policy
from ...policies.deploy.stating import stating
from ...policies.deploy.store import MemoryStore, UserMemory
from ...policies.lm.base import Message
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.lexical import LexicalEmbedder
from ..command import run

PRESETS = ("rag", "awe", "awi", "mem0-g", "nemori", "letta")
FACTS_A_USER = 50
SEED = 20261126
COLUMNS = (
    "policy",
    "facts",
    "held before",
    "texts removed",
    "left in memory",
    "left in files",
    "left in part",
    "seconds",
)


@dataclass(frozen=True, slots=True)
class Deletion:
    """What became of the facts."""

    facts: int
    held: int
    """Of them stated by a memory, a message of the buffer or one that waits, before they were forgotten."""
    removed: int
    """Texts that were removed."""
    in_memory: int
    """Facts that something of these still states."""
    in_files: int
    """Removed texts that still stand in the bytes of the store's files, though nobody says the same."""
    in_part: int
    """Facts of which a line still has a part: most of its words are the fact's."""
    seconds: float
    """All facts, one after another."""


def facts_of(user: Scenario) -> list[str]:
    """Return the sentences that tell a user's facts, each once."""
    said = {session.opening: session.query for period in user.periods for session in period.sessions}
    sources = ((fact.text, fact.sources[-1]) for fact in user.facts.values() if fact.sources)
    told = (telling(fact, said.get(source, source)) for fact, source in sources)
    return list(dict.fromkeys(told))[:FACTS_A_USER]


async def tell(memory: UserMemory, user: Scenario) -> None:
    """Tell a memory a user's life; the last message waits to be observed."""
    said = [session.query for period in user.periods for session in period.sessions]
    for text in said[:-1]:
        await memory.observe([Message("user", text), Message("assistant", "I see.")])
    memory.queue([Message("user", said[-1])])


async def texts_of(memory: UserMemory, about: str) -> list[str]:
    """Return all that is remembered or waits, what comes back for a fact, and what would be saved."""
    context = await memory.context(about, tokens=None)
    shown = [*(item.text for item in context.items), *(message.content for message in context.messages)]
    saved = json.dumps(await memory.dump(), ensure_ascii=False)
    return [*(item.text for item in await memory.listing()), *shown, saved]


async def states(memory: UserMemory, fact: str) -> bool:
    """Tell whether anything of a memory states a fact; a saved state does where it has the fact letter by letter."""
    *texts, saved = await texts_of(memory, fact)
    return any(map(stating(fact), texts)) or json.dumps(fact, ensure_ascii=False)[1:-1] in saved


async def delete(preset: str, users: Sequence[Scenario], folder: Path) -> Deletion:
    """Tell a store the users' lives, forget all their facts, and look for them."""
    file, facts = folder / "memories.db", {user.id: facts_of(user) for user in users}

    def opened() -> MemoryStore:
        return MemoryStore(file, load_policy(preset), EmbeddedModel(), LexicalEmbedder())

    removed: list[tuple[str, str]] = []
    with opened() as store:
        for user in users:
            await tell(store.memory(user.id), user)
        held = [await states(store.memory(user), fact) for user, each in facts.items() for fact in each]
        began = time.monotonic()
        for user_id, each in facts.items():
            for fact in each:
                removed += [(user_id, text) for text in await store.forget(user_id, fact)]
        seconds = time.monotonic() - began
        bytes_left = bytes_in(folder)
    with opened() as store:
        left = [await states(store.memory(user), fact) for user, each in facts.items() for fact in each]
        parts = [await in_part(store.memory(user), fact) for user, each in facts.items() for fact in each]
        held_by = {user: await texts_of(store.memory(user), "") for user in facts}
    in_files = 0
    for user_id, text in {*removed}:
        letters = json.dumps(text, ensure_ascii=False)[1:-1]
        shown = any(text in other for texts in held_by.values() for other in texts[:-1])
        saved = any(letters in texts[-1] for other, texts in held_by.items() if other != user_id)
        in_files += letters.encode() in bytes_left and not shown and not saved
    return Deletion(len(held), sum(held), len(removed), sum(left), in_files, sum(parts), seconds)


def bytes_in(folder: Path) -> bytes:
    """Return the bytes of all files."""
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


async def in_part(memory: UserMemory, fact: str) -> bool:
    """Tell whether a memory has a line most of whose words are a fact's."""
    words = words_of(fact)
    lines = [words_of(item.text) for item in await memory.listing()]
    return any(line and is_told(words, line, shared=len(words & line)) for line in lines)


def main(facts: int = 1000, seed: int = SEED) -> None:
    """Print what became of so many facts under each preset."""
    users = load_scenarios(f"generated:{-(-facts // FACTS_A_USER)}@{seed}:b")
    rows = []
    for preset in PRESETS:
        with tempfile.TemporaryDirectory() as folder:
            done = asyncio.run(delete(preset, users, Path(folder)))
        counts = (done.facts, done.held, done.removed, done.in_memory, done.in_files, done.in_part)
        rows.append((preset, *(f"{count:,}" for count in counts), f"{done.seconds:.1f}"))
    print("\n".join(markdown_lines(COLUMNS, rows)))


if __name__ == "__main__":
    run(main)

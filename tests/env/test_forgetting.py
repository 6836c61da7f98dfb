"""Whether memory forgets what it is asked to forget, and no more than that."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from mnemotune.data.task import Fact
from mnemotune.env.forgetting import Forgetting, forgetting
from mnemotune.policies import MemoryPolicy
from mnemotune.policies.lm.base import Message
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory.builtin import BuiltinMemory
from mnemotune.policies.memory.stores import MemoryState
from tasks import HandMade

SAID = (
    "I repair old clocks in a cellar.",
    "Which seeds suit my grey parrot at night?",
    "My sister lives in Lisbon now.",
    "Our garden has thirty tomato plants.",
)
TASK = HandMade(
    stages=1,
    facts={str(i): Fact(str(i), str(i), "life", text.lower(), 0, sources=(text,)) for i, text in enumerate(SAID)},
    checks={},
)
VERBATIM = MemoryPolicy.model_validate(
    {"write": {"mode": "verbatim"}, "store": "external", "top_k": 4, "update_every": 1, "buffer_size": 1}
)


async def filled(kind: type[BuiltinMemory] = BuiltinMemory) -> BuiltinMemory:
    memory = kind(VERBATIM, EmbeddedModel(), LexicalEmbedder())
    for text in SAID:
        await memory.observe([Message("user", text)])
    return memory


class Deaf(BuiltinMemory):
    """Forgets nothing."""

    async def forget(self, what: Callable[[str], bool]) -> int:
        return 0


class Eager(BuiltinMemory):
    """Forgets everything as soon as it is to forget something."""

    async def forget(self, what: Callable[[str], bool]) -> int:
        return await super().forget(lambda text: True)


class Chronicler(BuiltinMemory):
    """Keeps a log of all that it observes in what is saved of it."""

    log: tuple[str, ...] = ()

    async def observe(self, messages: Any) -> Any:
        self.log = (*self.log, *(message.text for message in messages))
        return await super().observe(messages)

    async def dump(self) -> Any:
        return await super().dump() | {"log": [*self.log]}


async def test_what_is_asked_for_goes_and_all_else_stays() -> None:
    memory = await filled()
    before = await memory.snapshot()
    assert await forgetting(TASK, memory) == Forgetting(unforgotten=0, taken_along=0)
    assert await memory.snapshot() == before, "the memory itself forgets nothing"


@pytest.mark.parametrize(("kind", "unforgotten", "taken_along"), [(Deaf, 1, 0), (Eager, 0, 1), (Chronicler, 1, 0)])
async def test_who_forgets_nothing_or_too_much_is_found_out(
    kind: type[BuiltinMemory], unforgotten: float, taken_along: float
) -> None:
    assert await forgetting(TASK, await filled(kind)) == Forgetting(unforgotten, taken_along)


async def test_a_scrap_of_a_fact_does_not_tell_it() -> None:
    memory = await filled()
    await memory.restore(MemoryState().with_new(["clocks", "seeds suit my grey parrot", "Lisbon"]))
    done = await forgetting(TASK, memory)
    assert done.unforgotten == 0, "the parrot alone is told, and it is asked for"
    assert math.isnan(done.taken_along), "no other fact is told"


async def test_where_nothing_is_told_nothing_is_known() -> None:
    memory = await filled()
    await memory.restore(MemoryState())
    assert math.isnan((await forgetting(TASK, memory)).unforgotten)

"""The memory of another package, in whose process's place stands one that keeps texts."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.policies.lm import Message, Request
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.openai import OpenAIModel
from mnemotune.policies.memory.packages import memory as packages
from mnemotune.policies.memory.packages.endpoint import Endpoint
from mnemotune.policies.memory.packages.memory import LangMemMemory
from mnemotune.policies.memory.packages.process import Store

if TYPE_CHECKING:
    from ..conftest import MakeModel, MakePolicy, Pair


class Texts:
    """Keeps each message as a memory, named by its text, once it is allowed to."""

    def __init__(self) -> None:
        self.left: deque[str] = deque()
        self.stores: dict[str, list[str]] = {}
        self.writing, self.allowed = asyncio.Event(), asyncio.Event()
        self.allowed.set()
        self.elsewhere: list[str] = []

    def store(self) -> Store:
        return Store(self, str(len(self.stores)))  # type: ignore[arg-type]

    async def ask(self, op: str, **request: Any) -> Any:
        request |= {field: held.name for field, held in request.items() if isinstance(held, Store)}
        texts = self.stores.get(request.get("store") or "", [])
        match op:
            case "write":
                self.writing.set()
                await self.allowed.wait()
                self.stores[request["new"]] = [*texts, *(message["content"] for message in request["messages"])]
                return [(text, text) for text in self.stores[request["new"]]]
            case "search":
                return [*self.elsewhere, *texts]
            case "forget":
                self.stores[request["new"]] = [text for text in texts if text not in request["names"]]
                return None
        return []


@pytest.fixture
async def process(monkeypatch: pytest.MonkeyPatch) -> Texts:
    texts = Texts()
    monkeypatch.setattr(packages, "process_of", lambda _: texts)
    return texts


@pytest.fixture
def memory(process: Texts, make_model: MakeModel, make_policy: MakePolicy) -> LangMemMemory:
    policy = make_policy("verbatim", update_every=2, buffer_size=0, store="external", top_k=9)
    return LangMemMemory(policy, make_model(), LexicalEmbedder())


async def held(memory: LangMemMemory) -> list[str]:
    return [item.text for item in await memory.listing()]


async def test_what_is_written_meanwhile_is_not_lost_to_forgetting(
    memory: LangMemMemory, process: Texts, pair: Pair
) -> None:
    await memory.observe(pair("My pin is 1234.", "Noted."))
    process.writing.clear()
    process.allowed.clear()
    writing = asyncio.create_task(memory.observe(pair("I like tea.", "Good.")))
    await process.writing.wait()
    forgetting = asyncio.create_task(memory.forget(lambda text: "1234" in text))
    await asyncio.sleep(0)
    process.allowed.set()
    await writing
    assert await forgetting == 1
    assert await held(memory) == ["Noted.", "I like tea.", "Good."]
    assert process.stores[(await memory.snapshot()).store.name] == await held(memory)  # type: ignore[attr-defined]
    await memory.aclose()


async def test_a_memory_that_the_package_finds_and_does_not_list_is_left_out(
    memory: LangMemMemory, process: Texts, pair: Pair
) -> None:
    await memory.observe(pair("My pin is 1234.", "Noted."))
    process.elsewhere = ["a text of nobody"]
    context = await memory.context("pin", tokens=None)
    assert [item.text for item in context.items] == ["My pin is 1234.", "Noted."]
    await memory.aclose()


def test_a_package_reaches_its_model_in_another_event_loop_too(make_model: MakeModel) -> None:
    endpoint = Endpoint(make_model("Yes.", "No."), LexicalEmbedder())

    async def asked() -> str:
        async with endpoint.open() as about:
            client = OpenAIModel("scripted", base_url=about["url"], api_key="none")
            reply = await client.complete(Request((Message("user", "Well?"),), "write"))
            await client.aclose()
        await endpoint.aclose()
        return reply.text

    assert [asyncio.run(asked()) for _ in range(2)] == ["Yes.", "No."]

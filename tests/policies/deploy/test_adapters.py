"""Memories behind what other packages ask for, each with the real package; skipped where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import openai
import pytest

from mnemotune.policies.deploy import MemoryStore
from mnemotune.policies.deploy.agents_session import MemorySession
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.serving import Served, listening
from mnemotune.policies.memory.conformance import Scribe

if TYPE_CHECKING:
    from ..conftest import MakePolicy

pytestmark = pytest.mark.packages


@pytest.fixture
def store(tmp_path: Path, make_policy: MakePolicy) -> Iterator[MemoryStore]:
    policy = make_policy(
        "verbatim", write={"mode": "verbatim", "roles": "user"}, store="external", top_k=1, buffer_size=2
    )
    with MemoryStore(tmp_path / "m.db", policy, Scribe(), LexicalEmbedder()) as opened:
        yield opened


@pytest.fixture
def memories(store: MemoryStore) -> Any:
    pytest.importorskip("langgraph.store.base", reason="needs langgraph: pip install 'mnemotune[langgraph]'")
    from mnemotune.policies.deploy.langgraph_store import LangGraphStore

    return LangGraphStore(store)


class State(TypedDict, total=False):
    said: str
    known: list[str]


ANN, BEN = ("memories", "ann"), ("memories", "ben")


def test_a_message_that_is_no_memory_yet_is_found_and_deleted_by_its_key(memories: Any) -> None:
    memories.put(ANN, "k", {"text": "My PIN is 4711."})
    [found] = memories.search(ANN, query="PIN")
    memories.put(ANN, "k", {"text": "I run."})
    assert memories.get(ANN, found.key).value == {"text": "My PIN is 4711."}
    memories.delete(ANN, found.key)
    assert memories.get(ANN, found.key) is None
    assert [item.value["text"] for item in memories.search(ANN, query="PIN")] == ["I run."]


def test_what_a_graph_puts_is_observed_and_searched_under_the_policy(memories: Any) -> None:
    for i, fact in enumerate(("My cat is old.", "My boat is red.", "I swim.", "I run.")):
        memories.put(ANN, f"k{i}", {"text": fact})
    memories.put(BEN, "k", {"messages": [{"role": "user", "content": "I golf."}]})
    found = memories.search(ANN, query="Which colour has the boat?")
    assert [item.value["text"] for item in found] == ["user: My boat is red.", "I run.", "I swim."]
    assert memories.get(ANN, found[0].key).value == found[0].value
    assert memories.search(ANN, query="boat", limit=1, offset=1)[0].value == {"text": "I run."}
    assert [item.value["text"] for item in memories.search(ANN)] == ["user: My cat is old.", "user: My boat is red."]
    assert memories.search(ANN, filter={"text": "user: My cat is old."})[0].namespace == ANN
    memories.delete(ANN, found[0].key)
    assert memories.get(ANN, found[0].key) is None
    assert "boat" not in str([item.value for item in memories.search(("memories",), query="boat")])
    assert memories.list_namespaces() == [ANN, BEN]
    assert memories.list_namespaces(suffix=("ben",)) == [BEN]
    assert memories.list_namespaces(prefix=("*", "ann")) == [ANN]
    assert memories.list_namespaces(max_depth=1) == [("memories",)]


@pytest.mark.parametrize(
    "wanted",
    [
        {"text": "12"},
        {"text": {"$eq": "12"}},
        {"text": {"$ne": "12"}},
        {"text": {"$gt": 3, "$lte": "12"}},
        {"text": {"$gte": 12}},
        {"text": {"$lt": 12}},
        {"text": {"deeper": "12"}},
        {"text": ["12"]},
        {"other": {"$ne": 1}},
        {},
    ],
)
def test_a_filter_means_what_it_means_in_langgraphs_own_store(memories: Any, wanted: dict[str, Any]) -> None:
    from langgraph.store.memory import InMemoryStore

    own, texts = InMemoryStore(), ("3", "12", "30")
    for text in texts:
        memories.put(ANN, text, {"text": text})
    found = memories.search(ANN, query="12", limit=9)
    for item in found:
        own.put(ANN, item.key, item.value)
    assert len(found) == len(texts)
    expected = {item.key for item in own.search(ANN, filter=wanted, limit=9)}
    assert {item.key for item in memories.search(ANN, query="12", filter=wanted, limit=9)} == expected


def test_an_operator_that_langgraph_does_not_have_is_refused(memories: Any) -> None:
    memories.put(ANN, "a", {"text": "I run."})
    with pytest.raises(ValueError, match=r"'\$in' is no operator; there are \$eq, \$ne, \$gt"):
        memories.search(ANN, query="run", filter={"text": {"$in": ["run"]}})


def test_what_is_no_memory_is_refused_with_what_to_do(memories: Any) -> None:
    from langgraph.store.base import InvalidNamespaceError

    with pytest.raises(InvalidNamespaceError, match=r"memories are in \('memories', 'USER'\)"):
        memories.put(("shoes", "ann"), "k", {"text": "red"})
    with pytest.raises(ValueError, match="this one has 'size'"):
        memories.put(ANN, "k", {"size": 42})


async def test_a_graph_s_nodes_use_it(memories: Any) -> None:
    graphs = pytest.importorskip("langgraph.graph", reason="needs langgraph itself: pip install langgraph")

    async def node(state: dict[str, Any], *, store: Any) -> dict[str, Any]:
        known = await store.asearch(ANN, query=state["said"])
        await store.aput(ANN, "newest", {"text": state["said"]})
        return {"known": [item.value["text"] for item in known]}

    from langgraph.store.base import BaseStore

    node.__annotations__ = {"store": BaseStore}  # which is how a graph knows what to give
    graph = graphs.StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(graphs.START, "node")
    app = graph.compile(store=memories)
    assert (await app.ainvoke({"said": "I own a boat."}))["known"] == []
    assert (await app.ainvoke({"said": "What do I own?"}))["known"] == ["I own a boat."]


async def test_a_session_remembers_from_run_to_run(store: MemoryStore) -> None:
    agents = pytest.importorskip("agents", reason="needs openai-agents: pip install 'mnemotune[agents]'")
    agents.set_tracing_disabled(True)
    session = MemorySession(store.memory("ann"), context_tokens=200)
    assert isinstance(session, agents.memory.Session)
    served = Served(EmbeddedModel(), LexicalEmbedder())
    async with (
        listening(served, host="127.0.0.1", port=0) as url,
        openai.AsyncOpenAI(base_url=url, api_key="any") as client,
    ):
        model = agents.OpenAIChatCompletionsModel(model="embedded", openai_client=client)
        agent = agents.Agent(name="helper", model=model)
        config = agents.RunConfig(session_input_callback=session.recall)
        for said in ("I own a red boat.", "I work nights.", "I like tea.", "Tell me about the boat, please."):
            result = await agents.Runner.run(agent, said, session=session, run_config=config)
    assert "boat" in result.final_output
    assert [item.text for item in await store.memory("ann").listing()][:2] == [
        "user: I own a red boat.",
        "user: I work nights.",
    ]
    assert "boat" in str(result.to_input_list()[0]) or "boat" in str(await session.get_items())


def call(name: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": name, "name": "look", "arguments": "{}"}


def output(name: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": name, "output": f"A heron, says {name}."}


@pytest.mark.parametrize("at_once", [True, False])
async def test_calls_that_a_model_makes_together_stay_with_their_results(store: MemoryStore, at_once: bool) -> None:
    session = MemorySession(store.memory("ann"))
    asked = {"role": "user", "content": "What is at the lake?"}
    if at_once:
        await session.add_items([asked, call("a"), call("b"), output("a"), output("b")])
    else:
        await session.add_items([asked, call("a"), call("b")])
        await session.add_items([output("a"), output("b")])
    assert await session.get_items() == [asked, call("a"), call("b"), output("a"), output("b")]
    assert await session.pop_item() == output("b")
    assert await session.pop_item() == output("a")
    assert await session.pop_item() == call("b")
    assert await session.get_items() == [asked, call("a")]
    await session.add_items([output("a")])
    for i in range(9):
        await session.add_items([{"role": "user", "content": f"Heron {i}?"}])
        shown = await session.get_items()
        assert (call("a") in shown) == (output("a") in shown), "a result without its call is refused by models"


async def test_a_session_keeps_to_its_contract(store: MemoryStore) -> None:
    session = MemorySession(store.memory("ann"))
    assert await session.get_items() == []
    assert await session.pop_item() is None
    talk: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "What is at the lake?"}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "A heron."},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A heron."}]},
    ]
    await session.add_items(talk)
    said = [
        {"role": "user", "content": "What is at the lake?"},
        *talk[1:3],
        {"role": "assistant", "content": "A heron."},
    ]
    assert await session.get_items() == said
    assert await session.get_items(limit=2) == said[2:]
    assert await session.get_items(limit=0) == []
    assert await session.pop_item() == said[3]
    assert await session.get_items() == said[:3]
    await session.add_items([said[3]])
    await session.add_items([{"role": "user", "content": "Thanks."}])
    assert [item.text for item in await store.memory("ann").listing()] == ["user: What is at the lake?"]
    other = MemorySession(store.memory("ben"))
    assert await other.get_items() == []
    await session.clear_session()
    assert await session.get_items() == []
    assert store.users() == []

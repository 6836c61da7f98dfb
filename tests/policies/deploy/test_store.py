"""Memories of many users in one file.

Invariants:

1. A memory in a store is a memory (``MemoryConformance``), and is in the file at once.
2. Users never see each other's facts, however their calls come.
3. A killed process loses at most the write that was under way.
4. What is forgotten, or of a deleted user, is nowhere in the files.
5. What somebody else writes meanwhile is not lost: threads, processes, event loops.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies import load_policy
from mnemotune.policies.deploy import MemoryStore, StoreError, UserMemory
from mnemotune.policies.lm import LanguageModelError, Message
from mnemotune.policies.lm.base import Embedding
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import MEMORIES, SavedMemoryError
from mnemotune.policies.memory.conformance import Make, MemoryConformance, Scribe, observe, talk, view
from mnemotune.policies.memory.notes import Note
from mnemotune.policies.memory.stores import MemoryState

if TYPE_CHECKING:
    from ..conftest import MakePolicy

Open = Callable[..., MemoryStore]


@pytest.fixture
def open_store(tmp_path: Path, make_policy: MakePolicy) -> Iterator[Open]:
    opened: list[MemoryStore] = []

    def make(mode: str = "verbatim", *, model: Any = None, embedder: Any = None, **changes: Any) -> MemoryStore:
        policy = make_policy(mode, **changes)
        opened.append(MemoryStore(tmp_path / "users.db", policy, model or Scribe(), embedder or LexicalEmbedder()))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("users.db*"))


class TestMemoryOfAStore(MemoryConformance):
    @pytest.fixture(params=["verbatim", "facts", "summary"])
    def make(self, open_store: Open, request: pytest.FixtureRequest) -> Make:
        users = count()
        changes = {"store": "external", "top_k": 5} if request.param == "facts" else {}
        return lambda model: open_store(request.param, model=model, **changes).memory(f"user {next(users)}")


async def test_a_memory_goes_on_after_a_restart(open_store: Open) -> None:
    first = open_store()
    await observe(first.memory("ann"), talk("heron", 5))
    seen = await view(first.memory("ann"))
    first.close()
    again = open_store()
    assert again.users() == ["ann"]
    assert await view(again.memory("ann")) == seen


@settings(max_examples=3)
@given(
    turns=st.lists(st.integers(0, 99), min_size=100, max_size=300).map(lambda extra: [*range(100), *extra]),
    mode=st.sampled_from(["verbatim", "facts", "profile"]),
    share=st.integers(1, 3),
)
def test_a_hundred_users_side_by_side_never_see_each_other_s_facts(
    turns: list[int], mode: str, share: int, tmp_path_factory: pytest.TempPathFactory, make_policy: MakePolicy
) -> None:
    """Their messages come in any order, through one store or several, and are asked for everything."""
    file = tmp_path_factory.mktemp("store") / "users.db"
    policy = make_policy(mode, buffer_size=1)
    stores = [MemoryStore(file, policy, Scribe(), LexicalEmbedder()) for _ in range(share)]

    async def live() -> None:
        async def say(place: int, user: int) -> None:
            memory = stores[place % share].memory(f"user {user}")
            await memory.observe([Message("user", f"My bird is bird{user}x-{place}.")])

        await asyncio.gather(*(say(place, user) for place, user in enumerate(turns)))
        for user in range(100):
            memory = stores[user % share].memory(f"user {user}")
            shown = (await memory.context("Which birds are there?", tokens=None)).render()
            told = "\n".join([*(message.text for message in shown), *(item.text for item in await memory.listing())])
            said = {f"bird{user}x-{place}" for place, who in enumerate(turns) if who == user}
            assert {*re.findall(r"bird\d+x-\d+", told)} == said

    asyncio.run(live())
    for store in stores:
        store.close()


SCRIPT = """
import asyncio, sys, time
from mnemotune import LexicalEmbedder, Message, load_policy
from mnemotune.policies.deploy import MemoryStore
from mnemotune.policies.memory.conformance import Scribe

class Slow(Scribe):
    async def complete(self, request):
        if sys.argv[2] == "hang" and "heron-5" in request.messages[-1].content:
            print("writing", flush=True)
            time.sleep(600)
        return await super().complete(request)

async def main():
    policy = load_policy("awi").model_copy(update={"update_every": 2, "buffer_size": 0})
    memory = MemoryStore(sys.argv[1], policy, Slow(), LexicalEmbedder()).memory("ann")
    for i in range(100_000):
        await memory.observe([Message("user", f"I saw heron-{i} today."), Message("assistant", "Nice.")])
        print(i, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["hang", "5", "23"])
def test_a_killed_process_loses_at_most_the_write_under_way(when: str, tmp_path: Path, open_store: Open) -> None:
    (tmp_path / "live.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "live.py"), str(tmp_path / "users.db"), when]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() in {"writing", when}:
                break
        process.send_signal(signal.SIGKILL)
        told = [line, *process.stdout.read().split()]
    memory = open_store("profile").memory("ann")
    texts = [item.text for item in asyncio.run(memory.listing()) if item.text.startswith("said")]
    finished = 4 if when == "hang" else int([line for line in told if line.strip().isdigit()][-1])
    herons = [f"heron-{i}" for i in range(len(texts))]
    assert texts == [f"said {heron}: yes" for heron in herons]
    assert len(texts) - 1 in ({finished} if when == "hang" else {finished, finished + 1})
    asyncio.run(memory.observe([Message("user", "I go on."), Message("assistant", "Do.")]))


SHARED = """
import asyncio, sys
from mnemotune import EmbeddedModel, LexicalEmbedder, MemoryStore, Message, load_policy

async def main():
    policy = load_policy("rag").model_copy(update={"update_every": 1, "buffer_size": 0})
    memory = MemoryStore(sys.argv[1], policy, EmbeddedModel(), LexicalEmbedder()).memory("ann")
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(20):
        await memory.observe([Message("user", f"{sys.argv[2]} {i}")])

asyncio.run(main())
"""


def test_processes_share_a_file_and_lose_nothing(tmp_path: Path, open_store: Open) -> None:
    """They open the same new file, and write to the same user, at the same moment."""
    names, pipe = ("wren", "robin"), subprocess.PIPE
    started = [
        subprocess.Popen([sys.executable, "-c", SHARED, str(tmp_path / "users.db"), name], stdin=pipe, stdout=pipe)
        for name in names
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=60)
        assert process.returncode == 0
    texts = [item.text for item in asyncio.run(open_store().memory("ann").listing())]
    assert len(texts) == 40
    for name in names:
        assert [text for text in texts if name in text] == [f"user: {name} {i}" for i in range(20)]


async def test_what_is_forgotten_is_nowhere_in_the_files(open_store: Open, tmp_path: Path) -> None:
    store = open_store("verbatim", embedder=Counting(), store="external", top_k=3)
    ann, ben = store.memory("ann"), store.memory("ben")
    for memory in (ann, ben):
        await observe(memory, talk("heron", 6))
        await memory.context("heron-1", tokens=None)
    ann.queue([Message("user", "I have seen heron-1 again."), Message("assistant", "Heron-1!")])
    ann.queue([Message("user", "And a gull."), Message("assistant", "Heron-1 and a gull?")])
    assert await store.forget("ann", "Heron-1") == [
        "I have seen heron-1 again.",
        "Heron-1!",
        "Heron-1 and a gull?",
        "user: I have seen heron-1 today.",
        "assistant: How was heron-1?",
    ]
    seen = await view(ann)
    assert not any("heron-1 " in item.text for item in seen.listing)
    assert seen.buffer[-1] == Message("user", "And a gull.")
    assert (await view(ben)).has("heron-1"), "another user's"
    assert await store.forget("ann", "heron-1") == []
    assert store.delete("ben")
    left = files(tmp_path)
    assert b"heron-2" in left
    assert b"heron-1" not in left
    assert not store.delete("ben")
    with sqlite3.connect(tmp_path / "users.db") as database:
        assert len(await ann.listing()) == database.execute("SELECT COUNT(*) FROM vectors").fetchone()[0]


async def test_what_is_still_in_the_log_is_not_called_gone(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemotune.policies.deploy.rows.BUSY_SECONDS", 0.05)
    store = open_store()
    await observe(store.memory("ann"), talk("heron", 3))
    with sqlite3.connect(tmp_path / "users.db", isolation_level=None) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM memories").fetchall()
        with pytest.raises(StoreError, match="is still in the log beside it, which another program reads"):
            await store.forget("ann", "heron-1")
        assert not (await view(store.memory("ann"))).has("heron-1 ")
        reader.execute("ROLLBACK")
    assert await store.forget("ann", "heron-1") == []
    assert b"heron-1" not in files(tmp_path)


@pytest.mark.parametrize(
    ("fact", "text", "stated"),
    [
        ("lives in Lisbon", "The user lives in Lisbon.", True),
        ("lives in Lisbon", "Lisbon is where they have lived since May", True),
        ("lives in Lisbon", "The user likes Lisbon.", False),
        ("my sister Ann lives in Lisbon", "My sister Ann lives", True),
        ("my sister Ann lives in Lisbon", "My sister Ann", False),
        ("my sister Ann lives in Lisbon", "Ann lives in Lisbon", False),
        ("my sister lives in Lisbon", "I live in Lisbon.", False),
        ("Lisbon", "home: LISBON", True),
        ("李", "姓李", True),
        ("it is", "Yes, IT  is", True),
        ("it is", "They are", False),
    ],
)
async def test_a_fact_is_stated_by_the_words_that_carry_meaning(
    fact: str, text: str, stated: bool, open_store: Open
) -> None:
    store = open_store("verbatim", buffer_size=0)
    await store.memory("ann").observe([Message("user", text), Message("assistant", "Yes?")])
    assert (f"user: {text}" in await store.forget("ann", fact)) == stated


async def test_an_empty_fact_forgets_nothing(open_store: Open) -> None:
    store = open_store()
    await observe(store.memory("ann"), talk("heron", 3))
    with pytest.raises(ValueError, match="the fact to forget is empty"):
        await store.forget("ann", " ")
    assert (await view(store.memory("ann"))).has("heron-1")


async def test_to_forget_what_nobody_said_makes_no_user(open_store: Open) -> None:
    store = open_store()
    assert await store.forget("ann", "heron-1") == []
    assert store.users() == []


async def test_what_a_memory_keeps_besides_its_texts_is_forgotten_in_the_file_too(tmp_path: Path) -> None:
    with MemoryStore(tmp_path / "users.db", load_policy("a-mem"), Scribe(), LexicalEmbedder()) as store:
        note = Note(0, "She has moved to the coast.", keywords=("sister Ann", "coast"))
        await store.memory("ann").restore(MemoryState(entries=(note,), next_id=1))
        await store.forget("ann", "sister Ann lives")
        assert b"sister Ann" not in files(tmp_path)
        assert len(await store.memory("ann").listing()) == 1


class Gate(Scribe):
    """Waits with every write until it may go on."""

    def __init__(self) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def complete(self, request: Any) -> Any:
        self.asked.set()
        await self.go.wait()
        return await super().complete(request)


async def test_what_another_store_writes_meanwhile_is_not_lost(open_store: Open) -> None:
    gate = Gate()
    slow = open_store("profile", buffer_size=0, model=gate).memory("ann")
    quick = open_store("profile", buffer_size=0).memory("ann")
    writing = asyncio.create_task(slow.observe([Message("user", "I saw wren-1."), Message("assistant", "Oh.")]))
    await gate.asked.wait()
    await quick.observe([Message("user", "I saw robin-1."), Message("assistant", "Oh.")])
    gate.go.set()
    await writing
    assert await slow.listing() == await quick.listing()
    assert {"said robin-1: yes", "said wren-1: yes"} < {item.text for item in await slow.listing()}


async def test_a_user_who_is_deleted_during_a_write_stays_deleted(open_store: Open) -> None:
    gate = Gate()
    store, other = open_store("facts", buffer_size=0, model=gate), open_store("facts", buffer_size=0)
    await other.memory("ann").observe([Message("user", "I saw robin-1."), Message("assistant", "Oh.")])
    ann, ben = store.memory("ann"), store.memory("ben")
    ben.queue([Message("user", "I saw wren-1."), Message("assistant", "Oh.")])
    said = [Message("user", "I saw stork-1."), Message("assistant", "Oh.")]
    writing = [asyncio.create_task(ann.observe(said)), asyncio.create_task(ben.catch_up())]
    await gate.asked.wait()
    for user in ("ann", "ben"):
        assert other.delete(user)
    gate.go.set()
    assert await asyncio.gather(*writing) == [[], []]
    assert other.users() == []


async def test_what_is_forgotten_during_a_write_stays_forgotten(open_store: Open, tmp_path: Path) -> None:
    gate = Gate()
    store, other = open_store("facts", buffer_size=0, model=gate), open_store("facts", buffer_size=0)
    ann = store.memory("ann")
    ann.queue([Message("user", "I saw wren-1."), Message("assistant", "Oh.")])
    ann.queue([Message("user", "I saw robin-1."), Message("assistant", "Oh.")])
    writing = asyncio.create_task(ann.catch_up())
    await gate.asked.wait()
    assert await other.forget("ann", "wren-1") == ["I saw wren-1."]
    gate.go.set()
    await writing
    assert [item.text for item in await ann.listing()] == ["The user said robin-1."]
    assert b"wren" not in files(tmp_path)


async def test_messages_that_wait_are_shown_and_observed_in_their_order(open_store: Open) -> None:
    ann = open_store("verbatim").memory("ann")
    for i in range(4):
        ann.queue([Message("user", f"I say {i}."), Message("assistant", f"You said {i}.")])
    assert [m.text for m in (await view(ann)).buffer if m.role == "user"] == [f"I say {i}." for i in range(4)]
    assert (await ann.context("", tokens=12)).tokens <= 12
    assert ann.take_back() == [Message("user", "I say 3."), Message("assistant", "You said 3.")]
    await ann.catch_up()
    assert ann.take_back() == []
    assert [item.text for item in await ann.listing()][::2] == ["user: I say 0.", "user: I say 1."]
    assert [m.text for m in (await view(ann)).buffer] == ["I say 2.", "You said 2."]


async def test_a_failing_model_leaves_messages_waiting(open_store: Open) -> None:
    model = Scribe()
    ann = open_store("facts", buffer_size=0, model=model).memory("ann")
    ann.queue([Message("user", "I saw wren-1."), Message("assistant", "Oh.")])
    model.fails = True
    with pytest.raises(LanguageModelError):
        await ann.catch_up()
    with pytest.raises(LanguageModelError):
        await ann.observe([Message("user", "I saw robin-1.")])
    model.fails = False
    await ann.catch_up()
    assert [item.text for item in await ann.listing()] == ["The user said wren-1."]


def test_threads_and_event_loops_share_a_store(open_store: Open) -> None:
    store = open_store("verbatim", buffer_size=0, update_every=1)

    def say(name: str) -> None:
        for i in range(10):  # each in an event loop of its own
            asyncio.run(store.memory("ann").observe([Message("user", f"{name} {i}")]))

    threads = [threading.Thread(target=say, args=[name]) for name in ("wren", "robin", "stork")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = [item.text for item in asyncio.run(store.memory("ann").listing())]
    assert len(texts) == 30
    for name in ("wren", "robin", "stork"):
        assert [text for text in texts if name in text] == [f"user: {name} {i}" for i in range(10)]


class Counting(LexicalEmbedder):
    """Stands behind an endpoint, as far as can be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def worst_case(self, texts: Sequence[str]) -> Usage | None:
        return Usage(1, 0)

    async def embed(self, texts: Sequence[str], **_: Any) -> Embedding:
        self.asked += texts
        return await super().embed(texts)


async def test_vectors_that_an_endpoint_was_asked_for_are_kept(open_store: Open) -> None:
    embedder = Counting()
    external = {"store": "external", "top_k": 3, "buffer_size": 0}
    first = open_store(embedder=embedder, **external)
    await observe(first.memory("ann"), talk("heron", 3))
    before = await first.memory("ann").context("heron-2?", tokens=None)
    assert len(embedder.asked) == 7
    first.close()
    again = open_store(embedder=embedder, **external).memory("ann")
    assert await again.context("heron-2?", tokens=None) == before
    assert embedder.asked[7:] == ["heron-2?"]
    assert np.array_equal((await embedder.embed(["a"])).vectors, (await LexicalEmbedder().embed(["a"])).vectors)


async def test_vectors_of_what_is_forgotten_go_whichever_embedder_made_them(open_store: Open, tmp_path: Path) -> None:
    external = {"store": "external", "top_k": 3, "buffer_size": 0}
    store = open_store(embedder=Counting(), **external)
    await observe(store.memory("ann"), talk("heron", 3))
    await store.memory("ann").context("heron-2?", tokens=None)
    store.close()
    with sqlite3.connect(tmp_path / "users.db") as database:
        count = "SELECT COUNT(*) FROM vectors"
        before = database.execute(count).fetchone()[0]
        gone = await open_store(**external).forget("ann", "I have seen heron-2")
        assert database.execute(count).fetchone()[0] == before - len(gone) < before


def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path, open_store: Open) -> None:
    file = tmp_path / "users.db"
    file.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match=r"users\.db: file is not a database; the file is damaged or no store"):
        open_store()
    file.unlink()
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE shoes (size INTEGER)")
    with pytest.raises(StoreError, match=r"users\.db is another program's database: name another file"):
        open_store()
    file.unlink()
    open_store().close()
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA user_version = 2")
    with pytest.raises(StoreError, match=r"is a later version's store \(2; here it is 1\)"):
        open_store()


async def test_a_damaged_memory_is_named_with_its_user_and_others_go_on(tmp_path: Path, open_store: Open) -> None:
    store = open_store()
    for user in ("ann", "ben"):
        await observe(store.memory(user), talk("heron", 2))
    with sqlite3.connect(tmp_path / "users.db") as database:
        memory = json.loads(database.execute("SELECT memory FROM memories WHERE user = 'ann'").fetchone()[0])
        memory["state"]["entries"][0]["text"] = 7
        database.execute("UPDATE memories SET memory = ?, version = 1 WHERE user = 'ann'", (json.dumps(memory),))
    with pytest.raises(SavedMemoryError, match=r"users\.db, user ann: state\.entries\.0\.text: Input should be"):
        await store.memory("ann").listing()
    assert (await view(store.memory("ben"))).has("heron-1")


def test_a_user_needs_an_id(open_store: Open) -> None:
    for user in ("", " ", "\ud800"):
        with pytest.raises(ValueError, match="the user's id is empty"):
            open_store().memory(user)


def test_a_memory_that_cannot_be_saved_is_refused_at_once(open_store: Open) -> None:
    class Fleeting:
        def __init__(self, policy: Any, *_: Any) -> None:
            self.policy = policy

    MEMORIES.register("fleeting", Fleeting)  # type: ignore[arg-type]
    try:
        with pytest.raises(SavedMemoryError, match="the memory 'fleeting' cannot be saved"):
            open_store(backend="fleeting")
    finally:
        MEMORIES.unregister("fleeting")


def test_a_memory_says_whose_it_is(open_store: Open) -> None:
    memory: UserMemory = open_store().memory("ann")
    assert memory.user == "ann"


async def test_more_users_than_stay_open_are_remembered(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemotune.policies.deploy.store.MOST_OPEN", 2)
    store = open_store("facts", buffer_size=0)
    said = [[Message("user", f"I saw heron-{i}."), Message("assistant", "Oh.")] for i in range(6)]
    for _ in range(2):
        await asyncio.gather(*(store.memory(f"user {i}").observe(talk) for i, talk in enumerate(said)))
    for i in range(6):
        assert {item.text for item in await store.memory(f"user {i}").listing()} == {f"The user said heron-{i}."}

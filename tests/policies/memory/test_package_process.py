"""The process of a package is told to remove a store once nobody needs it, and no sooner."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mnemotune.policies.deploy import MemoryStore
from mnemotune.policies.lm import Message
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory.conformance import Scribe
from mnemotune.policies.memory.packages import process as processes
from mnemotune.policies.memory.packages.process import Process
from mnemotune.policies.memory.protocol import MemoryFault

if TYPE_CHECKING:
    from ..conftest import MakePolicy

WRITES_LATE = """
import json, sys
late, dropped = [], []
for line in sys.stdin:
    request = json.loads(line)
    dropped += request["drop"]
    if request["op"] == "write":
        late.append({"id": request["id"], "reply": request["new"]})
        continue
    reply = {"id": request["id"], "reply": {"late": len(late), "dropped": dropped}}
    for answer in [*(late if request["op"] == "finish" else ()), reply]:
        print(json.dumps(answer), flush=True)
"""
"""Answers a write when it is asked to finish."""


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    (tmp_path / f"{processes.HOSTED}.py").write_text(WRITES_LATE, encoding="utf-8")
    monkeypatch.setattr(processes, "HERE", tmp_path)
    process = Process("late", sys.executable)
    yield process
    process.end()


async def test_a_store_whose_write_was_given_up_is_removed_after_the_write(process: Process) -> None:
    writing = asyncio.create_task(process.ask("write", new=process.store()))
    while not (await process.ask("look"))["late"]:
        pass
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    del writing
    assert (await process.ask("look"))["dropped"] == []
    assert (await process.ask("finish"))["dropped"] == []
    assert (await process.ask("look"))["dropped"] == ["0"]


async def test_a_store_of_a_process_that_has_ended_is_none_of_another_one_s(process: Process) -> None:
    store = process.store()
    process.end()
    another = Process("late", sys.executable)
    with pytest.raises(MemoryFault, match="late: the process that kept this memory has ended, and the memory with it"):
        await another.ask("write", store=store, new=another.store())
    assert (await another.ask("look"))["late"] == 0
    another.end()


KEEPS_TEXTS = """
import json, sys
stores = {}
for line in sys.stdin:
    request = json.loads(line)
    texts, reply = stores.get(request.get("store"), []), None
    if request["op"] == "write":
        texts = texts + [message["content"] for message in request["messages"]]
    if request["op"] == "load":
        texts = request["values"]
    if request["op"] in ("write", "load"):
        stores[request["new"]] = texts
        reply = [[str(place), text] for place, text in enumerate(texts)]
    if request["op"] == "dump":
        reply = texts
    print(json.dumps({"id": request["id"], "reply": reply}), flush=True)
"""


async def test_a_store_of_many_users_goes_on_when_a_package_s_process_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_policy: MakePolicy
) -> None:
    (tmp_path / f"{processes.HOSTED}.py").write_text(KEEPS_TEXTS, encoding="utf-8")
    monkeypatch.setattr(processes, "HERE", tmp_path)
    monkeypatch.setenv(processes.python_variable("langmem"), sys.executable)
    policy = make_policy("verbatim", backend="langmem", update_every=2, buffer_size=0, store="external", top_k=3)
    with MemoryStore(tmp_path / "users.db", policy, Scribe(), LexicalEmbedder()) as store:
        ann = store.memory("ann")
        await ann.observe([Message("user", "I swim."), Message("assistant", "Nice.")])
        processes.process_of("langmem").end()
        with pytest.raises(MemoryFault):
            await ann.observe([Message("user", "I am lost."), Message("assistant", "Oh.")])
        await ann.observe([Message("user", "I run."), Message("assistant", "Good.")])
        assert [item.text for item in await ann.listing()] == ["I swim.", "Nice.", "I run.", "Good."]
    processes.process_of("langmem").end()

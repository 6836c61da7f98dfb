"""The process of a package is told to remove a store once nobody needs it, and no sooner."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemotune.policies.memory.packages import process as processes
from mnemotune.policies.memory.packages.process import Process

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

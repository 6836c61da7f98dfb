"""What a memory in front of an endpoint adds to a call that writes nothing: medians of paired calls.

python -m mnemotune.experiments.reliability.proxy
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp
from aiohttp import web

from ...policies.deploy.proxy import USER_HEADER, Proxied, proxying
from ...policies.deploy.store import MemoryStore
from ...policies.files import load_policy
from ...policies.lm.base import Message
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.embedded.pool import end_with_parent
from ...policies.lm.lexical import LexicalEmbedder
from ...policies.memory.stores import Entry, MemoryState
from ..command import run

USERS = 10
"""With as many memories each: they take turns, so that none has a long talk of its own."""
PAUSE_SECONDS = 0.03
"""Between pairs: what the call before has left to do in the background is done by then."""
PAIRS = 300
WARM_UP = 20
MEMORIES = (0, 100, 1000)
REPLY = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "I see."}, "finish_reason": "stop"}]}
PIECES = [{"choices": [{"index": 0, "delta": {"content": "I see. "}, "finish_reason": None}]}] * 20
LAST = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def store_at(path: Path) -> MemoryStore:
    """Open a store whose policy searches its memories, and writes none during the measurement."""
    policy = load_policy("rag").model_copy(update={"update_every": 100_000})
    return MemoryStore(path, policy, EmbeddedModel(), LexicalEmbedder())


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer at once, so that nothing hides what is added."""
    if not (await request.json()).get("stream"):
        return web.json_response(REPLY)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in [*PIECES, LAST]:
        await response.write(f"data: {json.dumps(piece)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


@asynccontextmanager
async def endpoint(_: str) -> AsyncIterator[str]:
    """Serve the endpoint behind."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"


@asynccontextmanager
async def proxy(given: str) -> AsyncIterator[str]:
    """Serve the memory."""
    path, upstream = given.split(" ", 1)
    with store_at(Path(path)) as store:
        async with proxying(Proxied(store, upstream, 1000), host="127.0.0.1", port=0) as url:
            yield url


def serve(serving: Callable[[str], Any], given: str, told: Connection) -> None:
    """Serve in this process until it is ended, or the one that measures has."""
    end_with_parent()

    async def until_ended() -> None:
        async with serving(given) as url:
            told.send(url)
            await asyncio.Event().wait()

    asyncio.run(until_ended())


@contextmanager
def process(serving: Callable[[str], Any], given: str = "") -> Iterator[tuple[str, int]]:
    """Serve in a process of its own inside the block; gives the URL and the process."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=[serving, given, theirs])
    server.start()
    try:
        yield ours.recv(), server.pid or 0
    finally:
        server.terminate()
        server.join()


def processor_seconds(process: int) -> float:
    """Return what a process has taken of the processor so far; Linux alone says it so."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def fill(store: MemoryStore) -> None:
    """Give users as many memories as their names say."""
    for count in MEMORIES:
        entries = tuple(Entry(i, f"user: On day {i} I met {i * 7} people at place {i % 37}.") for i in range(count))
        for user in range(USERS):
            await store.memory(f"{count} {user}").restore(MemoryState(entries=entries, next_id=count))


async def measure(direct: str, through: str, *, memories: int, stream: bool) -> tuple[float, list[float]]:
    """Return the median of a direct call, and what each proxied call took longer than the direct one beside it."""
    dice, alone, added = random.Random(0), list[float](), list[float]()
    async with aiohttp.ClientSession() as session:

        async def seconds(url: str, i: int) -> float:
            text, headers = f"Whom did I meet on day {i}?", {USER_HEADER: f"{memories} {i % USERS}"}
            body = {"model": "m", "stream": stream, "messages": [Message("user", text).as_json()]}
            start = time.perf_counter()
            async with session.post(f"{url}/chat/completions", json=body, headers=headers) as reply:
                await reply.read()
                reply.raise_for_status()
            return time.perf_counter() - start

        for i in range(WARM_UP + PAIRS):
            await asyncio.sleep(PAUSE_SECONDS)
            urls = [direct, through]
            dice.shuffle(urls)
            taken = {url: await seconds(url, i) for url in urls}
            if i >= WARM_UP:
                alone.append(taken[direct])
                added.append(taken[through] - taken[direct])
    return median(alone), added


def main() -> None:
    """Print a row for each number of memories, whole and streamed."""
    print("| memories | reply | ms direct, median | ms added, median | 95% of calls below | processor ms a call |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, process(endpoint) as (direct, _):
        path = Path(folder) / "memories.db"
        with store_at(path) as store:
            asyncio.run(fill(store))
        with process(proxy, f"{path} {direct}") as (through, served):
            for count in MEMORIES:
                for stream in (False, True):
                    before = processor_seconds(served)
                    alone, added = asyncio.run(measure(direct, through, memories=count, stream=stream))
                    kind = "streamed" if stream else "whole"
                    most = quantiles(added, n=20)[-1]
                    work = (processor_seconds(served) - before) / (WARM_UP + PAIRS)
                    row = " | ".join(f"{seconds * 1e3:.2f}" for seconds in (alone, median(added), most, work))
                    print(f"| {count:,} | {kind} | {row} |", flush=True)


if __name__ == "__main__":
    run(main)

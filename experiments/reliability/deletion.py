"""Whether facts that are to be forgotten are gone: from memories, from what waits, from files, process and log.

python -m mnemotune.experiments.reliability.deletion [--facts N] [--seed N]

Simulated users tell an assistant their lives, through a memory in front of an endpoint that also fails at times, and
then repeats what it was sent. Each fact is forgotten by the sentence that told it, one after another. All that is left
is searched for it: memories, contexts, saved states, what the store's objects lead to in the process, the log, and the
bytes of all files in the folder where the deployment ran, also once the store was opened again.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import astuple, dataclass
from itertools import count
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType

import aiohttp
from aiohttp import web

from ...data.dialogue.load import load_scenarios
from ...data.dialogue.scenario import Scenario
from ...env.evidence import telling
from ...env.stored import is_told, words_of
from ...optimizer.views.table import markdown_lines
from ...policies import load_policy
from ...policies.deploy.deployment import Deployment, deployed_store
from ...policies.deploy.proxy import USER_HEADER, Proxied, proxying
from ...policies.deploy.stating import stating
from ...policies.deploy.store import MemoryStore, UserMemory
from ...policies.lm.base import Message, to_json
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.lexical import LexicalEmbedder
from ...policies.lm.serving import Served, listening
from ..command import run

PRESETS = ("rag", "awe", "awi", "mem0", "mem0-g", "a-mem", "nemori", "ace", "letta")
FACTS_A_USER = 50
SEED = 20261126
FAILS_EACH = 20
"""The endpoint fails at one in so many calls."""
REPEATED = 250
"""Characters that it then repeats of what the user said last."""
LOG = "log.txt"
COLUMNS = (
    "policy",
    "facts",
    "held before",
    "texts removed",
    "left in memory",
    "left in the process",
    "left in files",
    "left in the log",
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
    in_process: int
    """Facts that a text states which the store leads to in the process, and which nobody remembers."""
    in_files: int
    """Removed texts that still stand in the bytes of the deployment's files, though nobody says the same."""
    in_log: int
    """Facts whose sentence stands in the log, at its most talkative."""
    in_part: int
    """Facts of which a line still has a part: most of its words are the fact's."""
    seconds: float
    """All facts, one after another."""

    @property
    def counts(self) -> tuple[int, ...]:
        """All but the seconds."""
        return astuple(self)[:-1]


def facts_of(user: Scenario) -> list[str]:
    """Return the sentences that tell a user's facts, each once."""
    said = {session.opening: session.query for period in user.periods for session in period.sessions}
    sources = ((fact.text, fact.sources[-1]) for fact in user.facts.values() if fact.sources)
    told = (telling(fact, said.get(source, source)) for fact, source in sources)
    return list(dict.fromkeys(told))[:FACTS_A_USER]


@asynccontextmanager
async def endpoint() -> AsyncIterator[str]:
    """Serve the embedded model behind an endpoint that fails at times, and then repeats what it was sent."""
    calls = count(1)
    served = Served(EmbeddedModel(), LexicalEmbedder())
    async with listening(served, host="127.0.0.1", port=0) as inner, aiohttp.ClientSession() as session:

        async def answer(request: web.Request) -> web.Response:
            body = await request.read()
            if next(calls) % FAILS_EACH == 0:
                said = json.loads(body)["messages"][-1]["content"].split('"role": "user"')[-1]
                return web.json_response({"error": {"message": f"cannot take {said[:REPEATED]}"}}, status=500)
            url = f"{inner}/{request.match_info['path']}"
            async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as reply:
                return web.Response(body=await reply.read(), status=reply.status, content_type=reply.content_type)

        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        finally:
            await runner.cleanup()


@contextmanager
def logged(file: Path) -> Iterator[None]:
    """Write all that is logged inside the block into a file, in the folder of the file."""
    handler, root = logging.FileHandler(file, encoding="utf-8"), logging.getLogger()
    before, there = root.level, Path.cwd()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    os.chdir(file.parent)
    try:
        yield
    finally:
        os.chdir(there)
        root.setLevel(before)
        root.removeHandler(handler)
        handler.close()


async def tell(url: str, store: MemoryStore, user: Scenario) -> None:
    """Tell an assistant a user's life; the last message waits to be observed."""
    said = [session.query for period in user.periods for session in period.sessions]
    async with aiohttp.ClientSession(headers={USER_HEADER: user.id}) as session:
        for text in said[:-1]:
            body = to_json({"model": "embedded", "messages": [Message("user", text).as_json()]})
            status = 500
            while status == 500:
                async with session.post(f"{url}/chat/completions", data=body) as reply:
                    status = reply.status
                    await reply.read()
            reply.raise_for_status()
    memory = store.memory(user.id)
    await memory.catch_up()
    memory.queue([Message("user", said[-1])])


def texts_behind(thing: object) -> Iterator[str]:
    """Yield every text that an object leads to; functions, classes and modules lead nowhere."""
    seen, waiting = dict[int, object](), [thing]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | FunctionType | BuiltinFunctionType | ModuleType):
            continue
        seen[id(each)] = each  # also so that no later one gets its id
        if isinstance(each, str):
            yield each
        else:
            waiting += gc.get_referents(each)


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
    """Tell an assistant the users' lives, forget all their facts, and look for them."""
    file, facts = folder / "memories.db", {user.id: facts_of(user) for user in users}
    every = [(user, fact) for user, each in facts.items() for fact in each]
    removed: list[tuple[str, str]] = []
    with logged(folder / LOG):
        async with endpoint() as url:
            deployment = Deployment(load_policy(preset), "openai:embedded", "lexical:1024", 1000)
            async with deployed_store(deployment, file, base_url=url) as store:
                async with proxying(Proxied(store, url, 1000), host="127.0.0.1", port=0) as served:
                    await asyncio.gather(*(tell(served, store, user) for user in users))
                held = [await states(store.memory(user), fact) for user, fact in every]
                began = time.monotonic()
                for user, fact in every:
                    removed += [(user, text) for text in await store.forget(user, fact)]
                seconds = time.monotonic() - began
                behind = [*texts_behind(store)]
                bytes_left = bytes_in(folder)
    with MemoryStore(file, load_policy(preset), EmbeddedModel(), LexicalEmbedder()) as store:
        left = [await states(store.memory(user), fact) for user, fact in every]
        parts = [await in_part(store.memory(user), fact) for user, fact in every]
        kept = {user: await texts_of(store.memory(user), "") for user in facts}
    others = "\n".join(text for *shown, _ in kept.values() for text in shown)  # another user may have said the same
    unheard = [text for text in {*behind} if text not in others]
    stated = ((user, filter(stating(fact), unheard)) for user, fact in every)
    in_process = sum(any(not _is_said(text, user, kept) for text in texts) for user, texts in stated)
    gone = [text for user, text in {*removed} if not _is_said(text, user, kept)]
    in_files = sum(_escaped(text) in bytes_left for text in gone)
    log = (folder / LOG).read_bytes()
    in_log = sum(fact.encode() in log or _escaped(fact) in log for _, fact in every)
    figures = sum(left), in_process, in_files, in_log, sum(parts)
    return Deletion(len(held), sum(held), len(removed), *figures, seconds)


def _is_said(text: str, user: str, kept: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether a text that a user's memory has lost is shown by some memory, or saved by another user's."""
    return any(
        any(text in shown for shown in texts) or (other != user and _escaped(text) in saved.encode())
        for other, (*texts, saved) in kept.items()
    )


def _escaped(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


def bytes_in(folder: Path) -> bytes:
    """Return the bytes of all files but the log."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != LOG)


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
        rows.append((preset, *(f"{figure:,}" for figure in done.counts), f"{done.seconds:.1f}"))
    print("\n".join(markdown_lines(COLUMNS, rows)))


if __name__ == "__main__":
    run(main)

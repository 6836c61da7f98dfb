"""Nemori: episodes and facts in a PostgreSQL schema of each store, their vectors in Qdrant."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import os
import secrets
import sys
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from .naming import DAY
from .store import ENDPOINTS, USER, Json, Listing, Store

DATABASE, QDRANT = "MNEMOTUNE_NEMORI_PACKAGE_DATABASE", "MNEMOTUNE_NEMORI_PACKAGE_QDRANT"
"""Variables with the URLs of PostgreSQL and of a Qdrant server; without one Qdrant runs in this process's memory."""
COLUMNS = {
    "episodes": "id, user_id, agent_id, title, content, source_messages, metadata, created_at, updated_at",
    "semantic_memories": "id, user_id, agent_id, content, memory_type, source_episode_id, confidence, metadata, "
    "created_at, updated_at",
    "message_buffer": "id, user_id, agent_id, role, content, timestamp, processed",
}
"""Of Nemori's tables, those that it does not fill itself."""
OF_A_PROCESS = "mnemotune_nemori_"
CONNECTIONS = 8
PAGE = 1000
AGENT = "default"
SECONDS = 3600.0
"""Of a call; the other side knows when to give up."""
WHEN = datetime.fromisoformat(DAY).replace(tzinfo=UTC)
T = TypeVar("T")


class NemoriStore(Store):
    """A schema with Nemori's tables, and two collections of vectors."""

    modules = ("nemori.factory",)

    def __init__(self, folder: Path, endpoint: Json, source: NemoriStore | None) -> None:
        """Open a store that is empty or a copy of ``source``."""
        super().__init__(folder, endpoint, source)
        self.heard: int = source.heard if source else 0
        self.servers = _servers()
        self.schema = f"{self.servers.name}_{folder.name}"
        self.tables, self.vectors = self.servers.tables(self.schema), self.servers.vectors(self.schema)
        try:
            self.servers.run(self._open(endpoint, source))
        except BaseException:
            with suppress(Exception):
                self.close()
            raise

    @classmethod
    def reach(cls) -> None:
        """Load the package, and connect to the servers. Raises what says why not."""
        super().reach()
        _servers()

    async def _open(self, endpoint: Json, source: NemoriStore | None) -> None:
        from nemori.config import MemoryConfig
        from nemori.db.migrations import get_migrations
        from nemori.factory import create_memory_system

        await self.tables.execute(f'CREATE SCHEMA "{self.schema}"')
        await self.tables.ensure_schema(get_migrations(endpoint["width"]))
        self.vectors.ensure_collections(endpoint["width"])
        urls = {"llm_base_url": endpoint["url"], "embedding_base_url": endpoint["url"]}
        config = MemoryConfig(llm_api_key="none", embedding_api_key="none", agent_id=AGENT, **urls)
        self.batch = config.buffer_size_min
        config.buffer_size_min = config.buffer_size_max = sys.maxsize  # it is written when we say so, not beside us
        self.system = await create_memory_system(config, self.tables, self.vectors)
        _call_once(self.system._orchestrator)
        _tell_that_day(self.system._episode_gen)
        self.bind(endpoint)
        if source is not None:
            for table, columns in COLUMNS.items():
                rows = f'SELECT {columns} FROM "{source.schema}".{table} ORDER BY id'  # noqa: S608 - names of ours
                await self.tables.execute(f"INSERT INTO {table} ({columns}) {rows}")
            await self._count_on()
            self.servers.copy_vectors(source.vectors, self.vectors)

    def bind(self, endpoint: Json) -> None:
        """Ask this endpoint from now on."""
        client, system = _client(endpoint["url"]), self.system
        system._orchestrator._provider._client = system._embedding._client = client
        system._orchestrator._default_model, system._embedding._model = endpoint["model"], endpoint["embedder"]

    def write(self, messages: list[Json]) -> None:
        """Hand messages to the package, which makes episodes and facts of them once it has heard enough."""
        self.servers.run(self._write(messages))

    async def _write(self, messages: list[Json]) -> None:
        from nemori.domain.models import Message

        times = [WHEN + timedelta(seconds=self.heard + place) for place in range(len(messages))]
        said = [Message(m["role"], _storable(m["content"]), time) for m, time in zip(messages, times, strict=True)]
        self.heard += len(said)
        await self.system.add_messages(USER, said)
        if await self.system._buffer_store.count_unprocessed(USER, AGENT) >= self.batch:
            await self.system.flush(USER)

    def search(self, query: str, limit: int) -> list[str]:
        """Return the names of what the package finds, best first: facts and episodes in turn."""
        found = self.servers.run(self.system.search(USER, _storable(query), limit, limit))
        in_turn = itertools.zip_longest(found.semantic_memories, found.episodes)
        return [each.id for pair in in_turn for each in pair if each is not None][:limit]

    def listing(self) -> Listing:
        """Return all episodes and facts."""
        episodes = [(row["id"], f"{row['title']}: {_content(row)}") for row in self._rows("episodes")]
        return sorted([*episodes, *((row["id"], row["content"]) for row in self._rows("semantic_memories"))])

    def said(self) -> Listing:
        """Return the messages that wait, those that lie beside episodes, and what an episode was said to be about."""
        waiting = [(f"/{row['id']}", str(row["content"])) for row in self._rows("message_buffer")]
        episodes = self._rows("episodes")
        about = [(f"{row['id']}/", str(row["metadata"].get("boundary_reason", ""))) for row in episodes]
        heard = [
            (f"{row['id']}/{place}", _unquoted(message["content"]))
            for row in episodes
            for place, message in enumerate(row["source_messages"])
        ]
        return [*waiting, *about, *heard]

    def forget(self, names: list[str], said: list[str]) -> None:
        """Remove episodes, facts and messages."""
        self.servers.run(self._forget(names, said))

    async def _forget(self, names: list[str], said: list[str]) -> None:
        for name in names:
            await self.system.delete_episode(USER, name)
            await self.system.delete_semantic(USER, name)
        for episode, _, place in (name.partition("/") for name in said):
            if not episode:
                await self.tables.execute("DELETE FROM message_buffer WHERE id = $1", int(place))
            elif not place:
                await self.tables.execute("UPDATE episodes SET metadata = '{}' WHERE id = $1", episode)
        gone = {episode for episode in (name.partition("/")[0] for name in said) if episode}
        for row in await self._read("episodes"):
            if row["id"] in gone:
                pairs = enumerate(row["source_messages"])
                left = [message for place, message in pairs if f"{row['id']}/{place}" not in said]
                query = "UPDATE episodes SET source_messages = $1 WHERE id = $2"
                await self.tables.execute(query, json.dumps(left), row["id"])
        for table in COLUMNS:  # what is deleted stays in a table's file until then
            await self.tables.execute(f"VACUUM FULL {table}")

    def dump(self) -> Json:
        """Return everything that is kept, as plain JSON values."""
        return {"heard": self.heard, **{table: self._rows(table) for table in COLUMNS}}

    def load(self, values: Json) -> None:
        """Take in what ``dump`` has returned, into an empty store; vectors are made again."""
        self.heard = int(values["heard"])
        self.servers.run(self._load(values))

    async def _load(self, values: Json) -> None:
        for table, columns in COLUMNS.items():
            rows = f"SELECT {columns} FROM jsonb_populate_recordset(NULL::{table}, $1)"  # noqa: S608 - names of ours
            await self.tables.execute(f"INSERT INTO {table} ({columns}) {rows}", json.dumps(values[table]))
        await self._count_on()
        embed = self.system._embedding.embed
        for row in values["episodes"]:
            if not row["metadata"].get("fallback"):  # Nemori gives it no vector
                vector = await embed(f"{row['title']} {row['content']}")
                self.vectors.upsert_episode(row["id"], USER, AGENT, vector)
        for row in values["semantic_memories"]:
            self.vectors.upsert_semantic(row["id"], USER, AGENT, await embed(row["content"]))

    def close(self) -> None:
        """Remove the schema and the collections."""
        self.servers.run(self._close())

    async def _close(self) -> None:
        await self.tables.execute(f'DROP SCHEMA IF EXISTS "{self.schema}" CASCADE')
        self.servers.drop_vectors(self.vectors)

    async def _count_on(self) -> None:
        """Number the next message after those that are there."""
        numbers = "pg_get_serial_sequence('message_buffer', 'id')"
        query = f"SELECT setval({numbers}, max(id)) FROM message_buffer HAVING max(id) > 0"  # noqa: S608 - ours
        await self.tables.execute(query)

    def _rows(self, table: str) -> list[Json]:
        return self.servers.run(self._read(table))

    async def _read(self, table: str) -> list[Json]:
        rows = await self.tables.fetch(f"SELECT to_jsonb(t) - 'tsv' FROM {table} t ORDER BY id")  # noqa: S608
        return [json.loads(row[0]) for row in rows]


class _Servers:
    """Both servers, from an event loop in a thread of its own."""

    def __init__(self) -> None:
        from nemori.llm import client
        from nemori.services import embedding
        from qdrant_client import QdrantClient

        client.AsyncOpenAI = embedding.AsyncOpenAI = lambda api_key, base_url: _client(base_url)  # slow to make
        self.name = f"{OF_A_PROCESS}{secrets.token_hex(4)}"
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        where = os.environ.get(QDRANT)
        self.client = QdrantClient(url=where, check_compatibility=False) if where else QdrantClient(":memory:")
        self.run(self._connect())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine; it counts names as this thread does."""
        done: Future[T] = Future()
        context = copy_context()

        async def settle() -> None:
            try:
                done.set_result(await work)
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                done.set_exception(error)

        self.loop.call_soon_threadsafe(lambda: self.loop.create_task(settle(), context=context))
        return done.result()

    async def _connect(self) -> None:
        import asyncpg

        url = os.environ[DATABASE]
        # plans of one schema would be kept for the others
        self.pool = await asyncpg.create_pool(url, min_size=0, max_size=CONNECTIONS, statement_cache_size=0)
        self.holding = await asyncpg.connect(url)
        await self.holding.execute("SELECT pg_advisory_lock(hashtext($1))", self.name)
        await self.holding.execute("SELECT pg_advisory_lock(hashtext($1))", OF_A_PROCESS)
        await self.holding.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public")
        await self._sweep()
        await self.holding.execute("SELECT pg_advisory_unlock(hashtext($1))", OF_A_PROCESS)

    def check(self) -> None:
        """End the process where its lock is lost: the next one to start would take its stores for left ones."""
        if self.holding.is_closed():
            sys.stderr.write(f"{self.name}: the connection to PostgreSQL was closed\n")
            os._exit(1)

    async def _sweep(self) -> None:
        """Remove what processes have left that were killed: nobody holds their locks."""
        rows = await self.holding.fetch("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, $1)", OF_A_PROCESS)
        collections = [each.name for each in self.client.get_collections().collections]
        left = {*(schema for (schema,) in rows), *(name for name in collections if name.startswith(OF_A_PROCESS))}
        owners = {name[: len(self.name)] for name in left} - {self.name}
        for owner in sorted(owners):
            if await self.holding.fetchval("SELECT pg_try_advisory_lock(hashtext($1))", owner):
                for name in sorted(each for each in left if each.startswith(owner)):
                    await self.holding.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')
                    if name in collections:
                        self.client.delete_collection(name)
                await self.holding.execute("SELECT pg_advisory_unlock(hashtext($1))", owner)

    def tables(self, schema: str) -> Any:
        """Return Nemori's database whose tables are those of a schema."""
        from nemori.db.connection import DatabaseManager

        database = DatabaseManager()
        database.pool = _InSchema(self, schema)
        return database

    def vectors(self, prefix: str) -> Any:
        """Return Nemori's store of vectors, in two collections under a prefix."""
        from nemori.db.qdrant_store import QdrantVectorStore

        store = QdrantVectorStore.__new__(QdrantVectorStore)  # its own constructor knows no Qdrant in the process
        store._client, store._prefix = self.client, prefix
        store._episodes_collection, store._semantic_collection = f"{prefix}_episodes", f"{prefix}_semantic"
        return store

    def copy_vectors(self, source: Any, target: Any) -> None:
        """Copy all vectors of one store into another."""
        from qdrant_client.models import PointStruct

        for old, new in zip(_collections(source), _collections(target), strict=True):
            start: Any = None
            while True:
                points, start = self.client.scroll(old, limit=PAGE, offset=start, with_vectors=True)
                if points:
                    self.client.upsert(new, [PointStruct(id=p.id, vector=p.vector, payload=p.payload) for p in points])
                if start is None:
                    break

    def drop_vectors(self, store: Any) -> None:
        """Remove a store's collections."""
        for name in _collections(store):
            self.client.delete_collection(name)


class _InSchema:
    """A pool of connections whose tables are those of a schema."""

    def __init__(self, servers: _Servers, schema: str) -> None:
        self.servers, self.schema = servers, schema

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Any]:
        self.servers.check()
        async with self.servers.pool.acquire() as connection:
            await connection.execute(f'SET search_path TO "{self.schema}", public')
            yield connection


def _storable(text: str) -> str:
    """Return a text without what PostgreSQL cannot hold."""
    return text.replace("\0", " ").replace("\\u0000", " ").encode("utf-8", "replace").decode("utf-8")


def _unquoted(said: Any) -> str:
    """Return what a message says: Nemori keeps it as JSON, since it takes what its database gives for a text."""
    try:
        value = json.loads(said)
    except (TypeError, ValueError):
        return str(said)
    return value if isinstance(value, str) else str(said)


def _content(episode: Json) -> str:
    """Return what an episode tells: its messages, each in a line, where no model has told it."""
    if not episode["metadata"].get("fallback"):
        return str(episode["content"])
    turns = (line.partition(": ") for line in episode["content"].splitlines())
    return "\n".join(f"{role}{colon}{_unquoted(said)}" for role, colon, said in turns)


def _collections(store: Any) -> tuple[str, str]:
    return store._episodes_collection, store._semantic_collection


def _call_once(orchestrator: Any) -> None:
    """Have failed calls not tried again, as the other side does that."""
    execute = orchestrator.execute

    async def execute_once(request: Any) -> Any:
        reply = await execute(replace(request, retries=1, timeout=SECONDS))
        reply.content = _storable(reply.content)
        return reply

    orchestrator.execute = execute_once


def _tell_that_day(generator: Any) -> None:
    """Give episodes without a time always the same one: prompts show it."""
    generate = generator.generate

    async def generate_that_day(*args: Any) -> Any:
        began = datetime.now(UTC).replace(tzinfo=None)
        episode = await generate(*args)
        if episode.created_at.tzinfo is None and episode.created_at >= began:
            episode.created_at = WHEN
        return episode

    generator.generate = generate_that_day


@functools.cache
def _servers() -> _Servers:
    return _Servers()


@functools.lru_cache(maxsize=ENDPOINTS)
def _client(url: str) -> Any:
    """Return the client of an endpoint; a failed call is not tried again here either."""
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=url, api_key="none", max_retries=0)

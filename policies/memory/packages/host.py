"""Runs in the environment of another package, which is all that it imports: keeps that package's memories in stores.

python host.py mem0ai|langmem FOLDER

Each line of the input is a request as JSON, and each line of the output a reply. A store never changes: what writes
makes a new one, from a copy.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sqlite3
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from contextvars import ContextVar
from copy import copy
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Listing = list[tuple[str, str]]
"""Names and texts, oldest write first."""

USER = "user"
DAY = "2026-01-01"
"""Mem0 writes the date into its prompt: today's would make each day's calls other ones."""
THREADS = 8
ENDPOINTS = 64
"""Whose clients are kept."""
_made: ContextVar[list[int] | None] = ContextVar("_made", default=None)
"""How many names the store at hand has given: names are counted, so that the same messages make the same prompts."""
_random_name = uuid.uuid4


def _counted_name() -> uuid.UUID:
    made = _made.get()
    if made is None:
        return _random_name()
    made[0] += 1
    return uuid.UUID(int=made[0], version=4)


class Mem0Store:
    """A folder with Qdrant's files and a SQLite database."""

    def __init__(self, folder: Path, endpoint: Json, source: Mem0Store | None) -> None:
        """Open a store that is empty or a copy of ``source``."""
        from mem0 import Memory
        from mem0.memory import main
        from mem0.memory.storage import SQLiteManager
        from mem0.utils.factory import VectorStoreFactory
        from qdrant_client import QdrantClient

        prompt = main.generate_additive_extraction_prompt
        if not isinstance(prompt, functools.partial):
            main.generate_additive_extraction_prompt = functools.partial(prompt, current_date=DAY)
        folder.mkdir()
        if source is not None:
            shutil.copytree(source.folder, folder, dirs_exist_ok=True)
        self.folder: Path = folder
        self.made: list[int] = [*source.made] if source else [0]
        self.client = QdrantClient(path=str(folder / "qdrant"), force_disable_check_same_thread=True)
        database = str(folder / "history.db")
        store = {"client": self.client, "embedding_model_dims": endpoint["width"]}
        if source is None:
            config = {**_mem0_models(**endpoint), "vector_store": {"provider": "qdrant", "config": store}}
            self.memory = Memory.from_config({**config, "history_db_path": database})
        else:  # models, which take longest to open, are the source's
            self.memory = copy(source.memory)
            name = source.memory.collection_name
            self.memory.vector_store = VectorStoreFactory.create("qdrant", {"collection_name": name, **store})
            self.memory.db = SQLiteManager(database)
            self.memory._entity_store = None

    def bind(self, endpoint: Json) -> None:
        """Ask this endpoint from now on."""
        self.memory.llm, self.memory.embedding_model = _mem0_clients(**endpoint)

    def write(self, messages: list[Json]) -> None:
        """Hand messages to the package."""
        self.memory.add(messages, user_id=USER)

    def search(self, query: str, limit: int) -> list[str]:
        """Return the names of what the package finds, best first."""
        found = self.memory.search(query, filters={"user_id": USER}, top_k=limit)
        return [item["id"] for item in found["results"]]

    def listing(self) -> Listing:
        """Return all memories."""
        items = self.memory.get_all(filters={"user_id": USER}, top_k=1_000_000)["results"]
        return sorted((item["id"], item["memory"]) for item in items)

    def said(self) -> Listing:
        """Return the messages that are kept beside the memories."""
        with closing(sqlite3.connect(self.folder / "history.db")) as database:
            return database.execute("SELECT id, content FROM messages").fetchall()

    def forget(self, names: list[str], said: list[str]) -> None:
        """Remove memories and messages, and what the package keeps of them as history."""
        for name in names:
            self.memory.delete(name)
        database = self.memory.db.connection
        database.executemany("DELETE FROM history WHERE memory_id = ?", [(name,) for name in names])
        database.executemany("DELETE FROM messages WHERE id = ?", [(name,) for name in said])
        database.commit()
        for file in self.folder.rglob("*"):
            if file.suffix in (".db", ".sqlite"):
                with closing(sqlite3.connect(file)) as left:
                    left.execute("VACUUM")  # what is deleted stays in the file until then

    def close(self) -> None:
        """Remove the store."""
        self.memory.close()
        self.client.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _mem0_models(model: str, embedder: str, width: int, url: str) -> Json:
    access = {"openai_base_url": url, "api_key": "none"}
    vectors = {"model": embedder, "embedding_dims": width, **access}
    return {
        "llm": {"provider": "openai", "config": {"model": model, **access}},
        "embedder": {"provider": "openai", "config": vectors},
    }


@functools.lru_cache(maxsize=ENDPOINTS)
def _mem0_clients(**endpoint: Any) -> tuple[Any, Any]:
    """Return the models of an endpoint; a failed call is not tried again, as the other side does that."""
    from mem0.utils.factory import EmbedderFactory, LlmFactory

    models = _mem0_models(**endpoint)
    llm = LlmFactory.create("openai", models["llm"]["config"])
    embedder = EmbedderFactory.create("openai", models["embedder"]["config"], None)
    for client in (llm.client, embedder.client):
        client.max_retries = 0
    return llm, embedder


@functools.lru_cache(maxsize=ENDPOINTS)
def _langmem_clients(model: str, url: str) -> tuple[Any, Any]:
    """Return the client for embeddings and the model of an endpoint; a failed call is not tried again here either."""
    from langchain_openai import ChatOpenAI
    from openai import OpenAI

    access: Json = {"base_url": url, "api_key": "none", "max_retries": 0}
    return OpenAI(**access), ChatOpenAI(model=model, **access)


class LangMemStore:
    """LangGraph's store in memory, under LangMem's store manager."""

    def __init__(self, folder: Path, endpoint: Json, source: LangMemStore | None) -> None:
        """Open a store that is empty or a copy of ``source``."""
        from langgraph.store.memory import InMemoryStore

        self.made: list[int] = [*source.made] if source else [0]
        self.bound: Json = {}
        self.bind(endpoint)
        self.store = InMemoryStore(index={"dims": endpoint["width"], "embed": self._embed})
        if source is not None:
            kept, vectors = source.store._data, source.store._vectors
            self.store._data.update({place: dict(items) for place, items in kept.items()})
            for place, rows in vectors.items():
                self.store._vectors[place].update({name: dict(paths) for name, paths in rows.items()})

    def _embed(self, texts: list[str]) -> list[list[float]]:
        reply = self.client.embeddings.create(input=texts, model=self.bound["embedder"], encoding_format="float")
        return [row.embedding for row in reply.data]

    def bind(self, endpoint: Json) -> None:
        """Ask this endpoint from now on."""
        self.bound = endpoint
        self.client, self.model = _langmem_clients(endpoint["model"], endpoint["url"])

    def write(self, messages: list[Json]) -> None:
        """Hand messages to the package."""
        from langmem import create_memory_store_manager

        manager = create_memory_store_manager(self.model, namespace=(USER,), store=self.store)
        manager.invoke({"messages": messages})

    def search(self, query: str, limit: int) -> list[str]:
        """Return the names of what the package finds, best first."""
        return [item.key for item in self.store.search((USER,), query=query, limit=limit)]

    def listing(self) -> Listing:
        """Return all memories."""
        items = sorted(self.store._data.get((USER,), {}).values(), key=lambda item: (item.updated_at, item.key))
        return [(item.key, _text_of(item.value["content"])) for item in items]

    def said(self) -> Listing:
        """Return none: it keeps no messages."""
        return []

    def forget(self, names: list[str], said: list[str]) -> None:
        """Remove memories."""
        for name in names:
            self.store.delete((USER,), name)

    def close(self) -> None:
        """Hold nothing open."""


def _text_of(content: Any) -> str:
    return content["content"] if isinstance(content, dict) and set(content) == {"content"} else json.dumps(content)


KINDS: dict[str, type[Mem0Store] | type[LangMemStore]] = {"mem0ai": Mem0Store, "langmem": LangMemStore}


class Host:
    """Keeps stores by name."""

    def __init__(self, kind: str, folder: Path) -> None:
        """Start without any."""
        self.kind: Callable[..., Any] = KINDS[kind]
        self.folder = folder
        self.stores: dict[str, Any] = {}
        self.locks: dict[str, threading.Lock] = {}
        self.copied: list[float] = []

    @contextmanager
    def using(self, name: str, endpoint: Json | None = None) -> Iterator[Any]:
        """Hold a store, bound to an endpoint."""
        with self.locks[name]:
            store = self.stores[name]
            if endpoint is not None:
                store.bind(endpoint)
            made = _made.set(store.made)
            try:
                yield store
            finally:
                _made.reset(made)

    def copy(self, request: Json) -> None:
        """Make the store ``new``, from a copy of ``store`` where there is one."""
        began = time.perf_counter()
        source = self.stores[request["store"]] if request["store"] else None
        name, endpoint = request["new"], request["endpoint"]
        self.stores[name], self.locks[name] = self.kind(self.folder / name, endpoint, source), threading.Lock()
        self.copied.append(time.perf_counter() - began)

    def answer(self, request: Json) -> Any:
        """Carry out a request."""
        for name in request.get("drop", ()):
            self.drop(name)
        match request["op"]:
            case "write":
                self.copy(request)
                try:
                    with self.using(request["new"], request["endpoint"]) as store:
                        store.write(request["messages"])
                        return store.listing()
                except BaseException:
                    self.drop(request["new"])
                    raise
            case "search":
                with self.using(request["store"], request["endpoint"]) as store:
                    return store.search(request["query"], request["limit"])
            case "said":
                with self.using(request["store"]) as store:
                    return store.said()
            case "forget":
                self.copy(request)
                with self.using(request["new"], request["endpoint"]) as store:
                    store.forget(request["names"], request["said"])
                    return store.listing()
            case "copies":
                return self.copied
            case other:
                raise ValueError(f"there is no request {other!r}")

    def drop(self, name: str) -> None:
        """Remove a store; one whose write failed may be gone already."""
        lock = self.locks.pop(name, None)
        if lock is not None:
            with lock:
                self.stores.pop(name).close()


def main(kind: str, folder: Path) -> None:
    """Answer requests until the input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the package prints is no reply
    uuid.uuid4 = _counted_name
    host, writing = Host(kind, folder), threading.Lock()

    def reply(request: Json) -> None:
        try:
            said: Json = {"reply": host.answer(request)}
        except Exception as error:  # noqa: BLE001 - the other side raises it
            said = {"error": f"{type(error).__name__}: {error}"}
        with writing:
            out.write(json.dumps({"id": request["id"], **said}) + "\n")
            out.flush()

    with ThreadPoolExecutor(THREADS) as pool:
        for line in sys.stdin:
            pool.submit(reply, json.loads(line))
    shutil.rmtree(folder, ignore_errors=True)  # also where the other side was killed


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""Mem0 2: memories in Qdrant's files, messages and history in SQLite."""

from __future__ import annotations

import functools
import shutil
import sqlite3
from contextlib import closing
from copy import copy
from pathlib import Path
from typing import Any

from .naming import DAY
from .store import ENDPOINTS, USER, Json, Listing, Store

DIGITS = 4
"""Of similarities, whose last ones depend on how the files came to be."""
MOST = 1_000_000
"""Memories of a listing."""


class Mem0Store(Store):
    """A folder with Qdrant's files and a SQLite database."""

    modules = ("mem0", "qdrant_client")
    tables: tuple[str, ...] = ("messages", "history")
    """Of the database."""

    def __init__(self, folder: Path, endpoint: Json, source: Mem0Store | None) -> None:
        """Open a store that is empty or a copy of ``source``."""
        from mem0 import Memory
        from mem0.memory.storage import SQLiteManager
        from mem0.utils.factory import VectorStoreFactory
        from qdrant_client import QdrantClient

        super().__init__(folder, endpoint, source)
        self.fix_day()
        folder.mkdir()
        if source is not None:
            self.copy_files(source, folder)
        self.folder: Path = folder
        self.client = QdrantClient(path=str(folder / "qdrant"), force_disable_check_same_thread=True)
        database = str(folder / "history.db")
        store = {"client": self.client, "embedding_model_dims": endpoint["width"]}
        if source is None:
            config = {**_models(**endpoint), "vector_store": {"provider": "qdrant", "config": store}}
            self.memory = Memory.from_config({**config, "history_db_path": database, **self.more_config()})
        else:  # models, which take longest to open, are the source's
            self.memory = copy(source.memory)
            name = source.memory.collection_name
            self.memory.vector_store = VectorStoreFactory.create("qdrant", {"collection_name": name, **store})
            self.memory.db = SQLiteManager(database)
            self.memory._entity_store = None

    def fix_day(self) -> None:
        """Have prompts say the same day every day."""
        from mem0.memory import main

        prompt = main.generate_additive_extraction_prompt
        if not isinstance(prompt, functools.partial):
            main.generate_additive_extraction_prompt = functools.partial(prompt, current_date=DAY)

    def more_config(self) -> Json:
        """Return what the package is configured with besides."""
        return {}

    def copy_files(self, source: Mem0Store, folder: Path) -> None:
        """Copy the files of another store into a folder."""
        shutil.copytree(source.folder, folder, dirs_exist_ok=True)

    def bind(self, endpoint: Json) -> None:
        """Ask this endpoint from now on."""
        self.memory.llm, self.memory.embedding_model = clients(**endpoint)

    def write(self, messages: list[Json]) -> None:
        """Hand messages to the package."""
        self.memory.add(messages, user_id=USER)

    def search(self, query: str, limit: int) -> list[str]:
        """Return the names of what the package finds, best first."""
        found = self.memory.search(query, filters={"user_id": USER}, top_k=limit)
        return names_of(found["results"])

    def listing(self) -> Listing:
        """Return all memories."""
        items = self.memory.get_all(filters={"user_id": USER}, top_k=MOST)["results"]
        return sorted((item["id"], item["memory"]) for item in items)

    def said(self) -> Listing:
        """Return the messages that are kept beside the memories."""
        with closing(sqlite3.connect(self.folder / "history.db")) as database:
            return database.execute("SELECT id, content FROM messages").fetchall()

    def forget(self, names: list[str], said: list[str]) -> None:
        """Remove memories and messages, and what the package keeps of them as history."""
        for name in names:
            self.memory.delete(name)
        self.forget_history(names)
        database = self.memory.db.connection
        database.executemany("DELETE FROM messages WHERE id = ?", [(name,) for name in said])
        database.commit()
        self.vacuum()

    def forget_history(self, names: list[str]) -> None:
        """Remove the history of memories."""
        database = self.memory.db.connection
        database.executemany("DELETE FROM history WHERE memory_id = ?", [(name,) for name in names])
        database.commit()

    def vacuum(self) -> None:
        """Write the files anew: what is deleted stays in them until then."""
        for file in self.folder.rglob("*"):
            if file.suffix in (".db", ".sqlite"):
                with closing(sqlite3.connect(file)) as left:
                    left.execute("VACUUM")

    def dump(self) -> Json:
        """Return everything that is kept, as plain JSON values."""
        own = self.memory.collection_name
        names = [collection.name for collection in self.client.get_collections().collections]
        points = {name: self._points(name) for name in names}
        database = self.memory.db.connection
        rows = {name: database.execute(f"SELECT * FROM {name}").fetchall() for name in self.tables}  # noqa: S608 - ours
        entities = [point for name in names if name != own for point in points[name]]
        return {"memories": points[own], "entities": entities, "tables": rows}

    def _points(self, collection: str) -> list[list[Any]]:
        points, _ = self.client.scroll(collection, limit=MOST, with_payload=True)
        return sorted([point.id, point.payload] for point in points)

    def load(self, values: Json) -> None:
        """Take in what ``dump`` has returned, into an empty store; vectors are made again."""
        database = self.memory.db.connection
        for name in self.tables:
            for row in values["tables"][name]:
                places = ",".join("?" * len(row))
                database.execute(f"INSERT INTO {name} VALUES ({places})", row)  # noqa: S608 - a table of ours
        database.commit()
        self._insert(values["memories"], self.memory.vector_store)
        if values["entities"]:
            self._insert(values["entities"], self.memory.entity_store)

    def _insert(self, points: list[list[Any]], store: Any) -> None:
        for name, payload in points:
            vector = self.memory.embedding_model.embed(payload["data"], "add")
            store.insert(vectors=[vector], payloads=[payload], ids=[name])

    def close(self) -> None:
        """Remove the store."""
        self.memory.close()
        self.client.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def names_of(found: list[Json]) -> list[str]:
    """Return the names of what was found, best first; among equals the oldest, as Qdrant keeps no order there."""
    return [item["id"] for item in sorted(found, key=lambda item: (-round(item["score"], DIGITS), item["id"]))]


def _models(model: str, embedder: str, width: int, url: str) -> Json:
    access = {"openai_base_url": url, "api_key": "none"}
    vectors = {"model": embedder, "embedding_dims": width, **access}
    return {
        "llm": {"provider": "openai", "config": {"model": model, **access}},
        "embedder": {"provider": "openai", "config": vectors},
    }


@functools.lru_cache(maxsize=ENDPOINTS)
def clients(**endpoint: Any) -> tuple[Any, Any]:
    """Return the models of an endpoint; a failed call is not tried again, as the other side does that."""
    from mem0.utils.factory import EmbedderFactory, LlmFactory

    models = _models(**endpoint)
    llm = LlmFactory.create("openai", models["llm"]["config"])
    embedder = EmbedderFactory.create("openai", models["embedder"]["config"], None)
    for client in (llm.client, embedder.client):
        client.max_retries = 0
    return llm, embedder

"""LangMem: memories in LangGraph's store."""

from __future__ import annotations

import functools
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from .store import ENDPOINTS, USER, Json, Listing, Store


class LangMemStore(Store):
    """LangGraph's store in memory, under LangMem's store manager."""

    modules = ("langmem", "langgraph.store.memory", "langchain_openai")

    def __init__(self, folder: Path, endpoint: Json, source: LangMemStore | None) -> None:
        """Open a store that is empty or a copy of ``source``."""
        from langgraph.store.memory import InMemoryStore

        super().__init__(folder, endpoint, source)
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
        self.client, self.model = _clients(endpoint["model"], endpoint["url"])

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

    def forget(self, names: list[str], said: list[str]) -> None:
        """Remove memories."""
        for name in names:
            self.store.delete((USER,), name)

    def dump(self) -> Json:
        """Return everything that is kept, as plain JSON values."""
        items = self.store._data.get((USER,), {}).values()
        fields = ("key", "value", "created_at", "updated_at")
        rows = [[getattr(item, field) for field in fields] for item in items]
        return {"memories": [[key, value, *(when.isoformat() for when in dates)] for key, value, *dates in rows]}

    def load(self, values: Json) -> None:
        """Take in what ``dump`` has returned, into an empty store; vectors are made again."""
        for name, value, *dates in values["memories"]:
            self.store.put((USER,), name, value)
            item = self.store._data[(USER,)][name]
            item.created_at, item.updated_at = map(datetime.fromisoformat, dates)

    def close(self) -> None:
        """Hold nothing open."""


def _text_of(content: Any) -> str:
    return content["content"] if isinstance(content, dict) and set(content) == {"content"} else json.dumps(content)


@functools.lru_cache(maxsize=ENDPOINTS)
def _clients(model: str, url: str) -> tuple[Any, Any]:
    """Return the client for embeddings and the model of an endpoint; a failed call is not tried again here either."""
    from langchain_openai import ChatOpenAI
    from openai import OpenAI

    access: Json = {"base_url": url, "api_key": "none", "max_retries": 0}
    return OpenAI(**access), ChatOpenAI(model=model, **access)

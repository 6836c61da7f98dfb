"""A-Mem: notes in Chroma, in the process's memory."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from .store import ENDPOINTS, Json, Listing, Store

UNUSED = {
    "litellm": ("completion",),
    "sentence_transformers": ("SentenceTransformer",),
    "transformers": ("AutoModel", "AutoTokenizer"),
}
"""Modules, and their names, for models that A-Mem imports and that do not run here; to import them takes minutes."""
NOW = "202601010000"
"""A note says when it was written, and prompts show it: the time of day would make each write's calls other ones."""
PAGE = 1000
"""Rows of one insertion."""


class AMemStore(Store):
    """A collection of notes under A-Mem's memory system."""

    def __init__(self, folder: Path, endpoint: Json, source: AMemStore | None) -> None:
        """Open a store that is empty or a copy of ``source``."""
        super().__init__(folder, endpoint, source)
        kind = _system()
        self.system = kind(llm_model=endpoint["model"], api_key="none", storage_path=f"store-{folder.name}")
        self.bind(endpoint)
        if source is not None:
            self._insert(source.system.retriever.collection.get(include=["documents", "metadatas", "embeddings"]))

    @classmethod
    def reach(cls) -> None:
        """Load the package."""
        _system()

    def bind(self, endpoint: Json) -> None:
        """Ask this endpoint from now on."""
        llm = self.system.llm_controller.llm
        llm.client, llm.model = _client(endpoint["url"]), endpoint["model"]
        self.system.retriever.endpoint = endpoint

    def write(self, messages: list[Json]) -> None:
        """Hand messages to the package, each as a note."""
        for message in messages:
            self.system.add_note(f"{message['role']}: {message['content']}", time=NOW)

    def search(self, query: str, limit: int) -> list[str]:
        """Return the names of what the package finds, best first."""
        return [found["id"] for found in self.system.search_agentic(query, limit)]

    def listing(self) -> Listing:
        """Return all notes as A-Mem shows them to a model, but for their time."""
        rows = self.system.retriever.collection.get(include=["metadatas"])
        notes = [self.system.retriever._deserialize_metadata(metadata) for metadata in rows["metadatas"]]
        return sorted((note["id"], _text(note)) for note in notes)

    def forget(self, names: list[str], said: list[str]) -> None:
        """Remove notes, and links to them."""
        for name in names:
            self.system.delete(name)
        for name, _ in self.listing():
            note = self.system.read(name)
            left = [link for link in note.links if link not in names]
            if left != note.links:
                self.system.update(name, links=left)

    def dump(self) -> Json:
        """Return everything that is kept, as plain JSON values."""
        rows = self.system.retriever.collection.get(include=["documents", "metadatas"])
        metadatas = [dict(sorted(metadata.items())) for metadata in rows["metadatas"]]
        return {"notes": [*map(list, zip(rows["ids"], rows["documents"], metadatas, strict=True))]}

    def load(self, values: Json) -> None:
        """Take in what ``dump`` has returned, into an empty store; vectors are made again."""
        names, documents, metadatas = zip(*values["notes"], strict=True) if values["notes"] else ((), (), ())
        embeddings = self.system.retriever.embed([*documents]) if documents else []
        rows = {"ids": [*names], "documents": [*documents], "metadatas": [*metadatas], "embeddings": embeddings}
        self._insert(rows)

    def close(self) -> None:
        """Remove the collection."""
        self.system.retriever.client.delete_collection(self.system.retriever.collection.name)

    def _insert(self, rows: Json) -> None:
        fields = ("ids", "documents", "metadatas", "embeddings")
        for start in range(0, len(rows["ids"]), PAGE):
            part = {field: rows[field][start : start + PAGE] for field in fields}
            self.system.retriever.collection.add(**part)


def _text(note: Json) -> str:
    keywords, tags = (", ".join(map(str, note[field])) for field in ("keywords", "tags"))
    about = {"memory context": note["context"], "memory keywords": keywords, "memory tags": tags}
    described = "; ".join(f"{name}: {value}" for name, value in about.items() if value)
    return f"{note['content']} ({described})" if described else str(note["content"])


@functools.cache
def _system() -> Any:
    """Return A-Mem's memory system with notes in memory, whose embedder is the endpoint's."""
    for name, members in UNUSED.items():
        module = ModuleType(name)
        vars(module).update(dict.fromkeys(members))
        sys.modules[name] = module
    import chromadb
    from agentic_memory import memory_system, retrievers
    from typing_extensions import override

    client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))

    class _Endpoint(chromadb.EmbeddingFunction):
        """The endpoint's embedder, for a collection."""

        def __init__(self, retriever: Any) -> None:
            self.retriever = retriever

        @override
        def __call__(self, input: list[str]) -> Any:
            return self.retriever.embed(input)

    class _Retriever(retrievers.ChromaRetriever):
        """A-Mem's retriever, but for where its notes and vectors are."""

        endpoint: Json

        def __init__(self, persist_directory: str, **_: Any) -> None:
            self.client = client
            self.collection = client.create_collection(persist_directory, embedding_function=_Endpoint(self))

        def embed(self, texts: list[str]) -> list[list[float]]:
            asked = {"input": texts, "model": self.endpoint["embedder"], "encoding_format": "float"}
            rows = _client(self.endpoint["url"]).embeddings.create(**asked).data
            return [row.embedding for row in rows]

    memory_system.ChromaRetriever = _Retriever
    return memory_system.AgenticMemorySystem


@functools.lru_cache(maxsize=ENDPOINTS)
def _client(url: str) -> Any:
    """Return the client of an endpoint; a failed call is not tried again, as the other side does that."""
    from openai import OpenAI

    return OpenAI(base_url=url, api_key="none", max_retries=0)

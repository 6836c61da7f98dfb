"""Mem0 1 with its graph: memories in Qdrant's files, their history in SQLite, relations in Kuzu's file."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from copy import copy
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from .mem0_store import DIGITS, MOST, Mem0Store, clients, names_of
from .naming import DAY
from .store import USER, Json, Listing

POOL = 32 * 2**20
"""Bytes of a database's buffer: Kuzu takes most of the machine's memory for each unless it is told a size."""
LARGEST = 2**36
"""Bytes of a database's addresses: each copy that is made of a store takes 8 MiB of them for good."""
GRAPH = "graph.kuzu"
RELATION = ("source", "relationship", "destination")
SCALARS = "n.user_id AS user_id, n.name AS name, n.mentions AS mentions, n.embedding AS embedding"
NODE = "{user_id: $user_id, name: $name, mentions: $mentions, created: current_timestamp(), embedding: $embedding}"


class Mem0GraphStore(Mem0Store):
    """A folder of Mem0 1. A relation is a memory too, named by what it says."""

    modules = ("mem0.memory.kuzu_memory", "qdrant_client")
    tables = ("history",)

    def __init__(self, folder: Path, endpoint: Json, source: Mem0GraphStore | None) -> None:
        """Open a store that is empty or a copy of ``source``."""
        from mem0.memory import kuzu_memory

        opened = kuzu_memory.kuzu.Database
        if not isinstance(opened, functools.partial):
            small = functools.partial(opened, buffer_pool_size=POOL, max_db_size=LARGEST, max_num_threads=1)
            kuzu_memory.kuzu.Database = small
            kuzu_memory.MemoryGraph._search_graph_db = _in_order(kuzu_memory.MemoryGraph._search_graph_db)
        self._at = folder / GRAPH
        super().__init__(folder, endpoint, source)
        if source is not None:
            self._open_graph()

    def fix_day(self) -> None:
        """Have prompts say the same day every day."""
        from mem0.memory import utils

        for name, value in [*vars(utils).items()]:
            if name.endswith("_PROMPT") and isinstance(value, str):
                setattr(utils, name, re.sub(r"(Today's date is )\d{4}-\d\d-\d\d", rf"\g<1>{DAY}", value))

    def more_config(self) -> Json:
        """Return what the package is configured with besides."""
        return {"graph_store": {"provider": "kuzu", "config": {"db": str(self._at)}}}

    def copy_files(self, source: Mem0Store, folder: Path) -> None:
        """Copy the files of another store into a folder."""
        source.memory.graph.kuzu_execute("CHECKPOINT")
        super().copy_files(source, folder)

    def bind(self, endpoint: Json) -> None:
        """Ask this endpoint from now on."""
        super().bind(endpoint)
        self.memory.graph.llm, self.memory.graph.embedding_model = clients(**endpoint)

    def write(self, messages: list[Json]) -> None:
        """Hand messages to the package."""
        super().write(messages)
        self._reconnect()

    def search(self, query: str, limit: int) -> list[str]:
        """Return the names of what the package finds, best first: memories and relations in turn."""
        found = self.memory.search(query, user_id=USER, limit=limit)
        self._reconnect()
        memories = names_of(found["results"])
        said = (_text(*(relation[part] for part in RELATION)) for relation in found["relations"])
        relations = [*dict.fromkeys(said)]  # one comes once for each of its ends that is found
        turns = chain.from_iterable(zip_longest(memories, relations))
        return [name for name in turns if name is not None][:limit]

    def listing(self) -> Listing:
        """Return all memories, and then all relations."""
        items = self.memory.vector_store.list(filters={"user_id": USER}, limit=MOST)[0]
        memories = sorted((item.id, item.payload["data"]) for item in items)
        relations = dict.fromkeys(_text(*relation[:3]) for relation in self._relations())
        return [*memories, *((text, text) for text in relations)]

    def said(self) -> Listing:
        """Return none: it keeps no messages."""
        return []

    def forget(self, names: list[str], said: list[str]) -> None:
        """Remove memories, what the package keeps of them as history, relations, and nodes that had no others."""
        relations = [relation for relation in self._relations() if _text(*relation[:3]) not in names]
        kept = {name for relation in relations for name in (relation[0], relation[2])}
        nodes = [node for node in self._nodes() if node["name"] in kept]
        memories = [name for name, text in self.listing() if name in names and name != text]
        for name in memories:
            self.memory._delete_memory(memory_id=name)
        self.forget_history(memories)
        self.vacuum()
        self._close_graph()
        for file in self.folder.glob(f"{GRAPH}*"):  # what is deleted would stay in the file
            file.unlink()
        self._open_graph()
        self._fill(nodes, relations)

    def dump(self) -> Json:
        """Return everything that is kept, as plain JSON values."""
        nodes = [{key: node[key] for key in ("user_id", "name", "mentions")} for node in self._nodes()]
        return super().dump() | {"nodes": nodes, "relations": self._relations()}

    def load(self, values: Json) -> None:
        """Take in what ``dump`` has returned, into an empty store; vectors are made again."""
        super().load(values)
        embed = self.memory.graph.embedding_model.embed
        self._fill([{**node, "embedding": embed(node["name"])} for node in values["nodes"]], values["relations"])

    def close(self) -> None:
        """Remove the store."""
        self._close_graph()
        super().close()

    def _nodes(self) -> list[Json]:
        nodes: list[Json] = self.memory.graph.kuzu_execute(f"MATCH (n:Entity) RETURN {SCALARS} ORDER BY n.id")
        return nodes

    def _relations(self) -> list[list[Any]]:
        found = self.memory.graph.kuzu_execute(
            "MATCH (n:Entity)-[r:CONNECTED_TO]->(m:Entity) RETURN n.name AS source, r.name AS relation, "
            "m.name AS destination, r.mentions AS mentions ORDER BY offset(id(r))"
        )
        return [[row["source"], row["relation"], row["destination"], row["mentions"]] for row in found]

    def _fill(self, nodes: list[Json], relations: list[list[Any]]) -> None:
        for node in nodes:
            self.memory.graph.kuzu_execute(f"CREATE (:Entity {NODE})", node)
        for source, relation, destination, mentions in relations:
            self.memory.graph.kuzu_execute(
                "MATCH (n:Entity {name: $source}), (m:Entity {name: $destination}) CREATE (n)-[:CONNECTED_TO "
                "{name: $relation, mentions: $mentions, created: current_timestamp()}]->(m)",
                {"source": source, "relation": relation, "destination": destination, "mentions": mentions},
            )

    def _open_graph(self) -> None:
        from mem0.memory.kuzu_memory import kuzu

        graph = self.memory.graph = copy(self.memory.graph)
        graph.db = kuzu.Database(str(self._at))
        graph.graph = kuzu.Connection(graph.db)
        graph.kuzu_create_schema()

    def _reconnect(self) -> None:
        """Close the connection, which keeps all that it was asked until then, and open another."""
        from mem0.memory.kuzu_memory import kuzu

        graph = self.memory.graph
        graph.graph.close()
        graph.graph = kuzu.Connection(graph.db)

    def _close_graph(self) -> None:
        self.memory.graph.graph.close()
        self.memory.graph.db.close()


def _text(source: str, relation: str, destination: str) -> str:
    return f"{source} -- {relation} -- {destination}"


def _in_order(search: Callable[..., list[Json]]) -> Callable[..., list[Json]]:
    """Return the graph's search with a fixed order: Kuzu's depends on how its file came to be."""

    @functools.wraps(search)
    def searched(*args: Any, **more: Any) -> list[Json]:
        rows = search(*args, **more)
        return sorted(rows, key=lambda row: (-round(row["similarity"], DIGITS), *(row[part] for part in RELATION)))

    return searched

"""Answers requests: keeps the stores of one package by name."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from .naming import count_names, counting
from .store import Json, Store

THREADS = 8
KINDS = {
    "mem0ai": ("mem0_store", "Mem0Store"),
    "mem0ai-kuzu": ("mem0_graph_store", "Mem0GraphStore"),
    "langmem": ("langmem_store", "LangMemStore"),
    "a-mem-package": ("a_mem_store", "AMemStore"),
    "nemori-package": ("nemori_store", "NemoriStore"),
}
"""The module and the class of each package's stores."""


def store_of(package: str) -> type[Store]:
    """Return the class of a package's stores."""
    module, name = KINDS[package]
    kind: type[Store] = getattr(importlib.import_module(f".{module}", __package__), name)
    return kind


class Host:
    """Keeps stores by name."""

    def __init__(self, package: str, folder: Path) -> None:
        """Start without any."""
        self.kind = store_of(package)
        self.folder = folder
        self.stores: dict[str, Store] = {}
        self.locks: dict[str, threading.Lock] = {}
        self.copied: list[float] = []
        self.loaded = False
        self.first = threading.Lock()
        """Held by the first requests: they load the package, and few stand to be loaded by several threads at once."""

    @contextmanager
    def using(self, name: str, endpoint: Json | None = None) -> Iterator[Store]:
        """Hold a store to read it, bound to an endpoint; names that this takes are not counted as the store's."""
        with self.locks[name]:
            store = self.stores[name]
            if endpoint is not None:
                store.bind(endpoint)
            with counting([*store.made]):
                yield store

    @contextmanager
    def new(self, request: Json) -> Iterator[Store]:
        """Make the store ``new``, from a copy of ``store`` where there is one; where the block fails, it is removed."""
        began = time.perf_counter()
        name, source, endpoint = request["new"], request.get("store"), request["endpoint"]
        with self.locks[source] if source else nullcontext():
            opened = self.kind(self.folder / name, endpoint, self.stores[source] if source else None)
        self.stores[name], self.locks[name] = opened, threading.Lock()
        self.copied.append(time.perf_counter() - began)
        try:
            with self.using(name, endpoint), counting(opened.made):
                yield opened
        except BaseException:
            self.drop(name)
            raise

    def answer(self, request: Json) -> Any:
        """Carry out a request."""
        with nullcontext() if self.loaded else self.first:
            reply = self._reply(request)
        self.loaded |= request["op"] != "reach"  # packages load more when they first write
        return reply

    def _reply(self, request: Json) -> Any:
        for name in request.get("drop", ()):
            self.drop(name)
        match request["op"]:
            case "write":
                with self.new(request) as store:
                    store.write(request["messages"])
                    return store.listing()
            case "search":
                with self.using(request["store"], request["endpoint"]) as store:
                    return store.search(request["query"], request["limit"])
            case "said":
                with self.using(request["store"]) as store:
                    return store.said()
            case "forget":
                with self.new(request) as store:
                    store.forget(request["names"], request["said"])
                    return store.listing()
            case "dump":
                with self.using(request["store"]) as store:
                    return {"made": store.made[0], **store.dump()}
            case "load":
                with self.new(request) as store:
                    store.load(request["values"])
                    listing = store.listing()
                    store.made[0] = int(request["values"]["made"])
                    return listing
            case "reach":
                return self.kind.reach()
            case "copies":
                return self.copied
            case other:
                raise ValueError(f"there is no request {other!r}")

    def drop(self, name: str) -> None:
        """Remove a store; one whose write failed may be gone already."""
        lock = self.locks.pop(name, None)
        if lock is not None:
            with lock:
                store = self.stores.pop(name)
                try:
                    store.close()
                except Exception as error:  # noqa: BLE001 - what cannot be removed is no fault of the request at hand
                    sys.stderr.write(f"{name}: {error}\n")


def serve(host: Host, requests: Iterable[str], out: TextIO) -> None:
    """Answer lines, each of them, until they end; what fails in any way is answered with the error."""
    writing = threading.Lock()

    def answered(number: int, request: Json) -> str:
        return json.dumps({"id": number, "reply": host.answer(request)})

    def reply(number: int, answering: Future[str]) -> None:
        error = answering.exception()
        failed = {"id": number, "error": f"{type(error).__name__}: {error}"}
        with writing:
            out.write(f"{answering.result() if error is None else json.dumps(failed)}\n")
            out.flush()

    with ThreadPoolExecutor(THREADS) as pool:
        for line in requests:
            request = json.loads(line)
            number = request["id"]
            pool.submit(answered, number, request).add_done_callback(partial(reply, number))


def main(package: str, folder: Path) -> None:
    """Answer requests until the input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the package prints is no reply
    count_names()
    host = Host(package, folder)
    serve(host, sys.stdin, out)
    for name in [*host.stores]:
        host.drop(name)
    shutil.rmtree(folder, ignore_errors=True)  # also where the other side was killed

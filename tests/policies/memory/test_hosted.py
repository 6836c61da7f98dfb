"""The process of a package keeps stores that never change, whatever the package is."""

from __future__ import annotations

import io
import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mnemotune.policies.memory.packages.hosted.host import Host, serve
from mnemotune.policies.memory.packages.hosted.naming import count_names
from mnemotune.policies.memory.packages.hosted.store import Json, Listing, Store

ENDPOINT = {"url": "http://127.0.0.1:9/v1"}


class Notes(Store):
    """A package that keeps messages word by word, and that is loaded by its first write."""

    loading = threading.Lock()
    is_loaded = False
    closed = 0

    def __init__(self, folder: Path, endpoint: Json, source: Notes | None) -> None:
        super().__init__(folder, endpoint, source)
        self.notes: dict[str, str] = {**source.notes} if source else {}

    def bind(self, endpoint: Json) -> None:
        self.endpoint = endpoint

    def write(self, messages: list[Json]) -> None:
        if not Notes.is_loaded:
            assert self.loading.acquire(blocking=False), "two threads load the package"
            threading.Event().wait(0.05)
            Notes.is_loaded = True
            self.loading.release()
        for message in messages:
            self.notes[str(uuid.uuid4())] = message["content"]
        if any(message["content"] == "fail" for message in messages):
            raise RuntimeError("the package fails")
        if any(message["content"] == "exit" for message in messages):
            raise SystemExit(3)

    def search(self, query: str, limit: int) -> list[str]:
        uuid.uuid4()
        return [name for name, text in self.notes.items() if query in text][:limit]

    def listing(self) -> Listing:
        return [*self.notes.items()]

    def forget(self, names: list[str], said: list[str]) -> None:
        self.notes = {name: text for name, text in self.notes.items() if name not in names}

    def dump(self) -> Json:
        return {"notes": {**self.notes}}

    def load(self, values: Json) -> None:
        self.notes = {**values["notes"]}

    def close(self) -> None:
        Notes.closed += 1


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(uuid, "uuid4", uuid.uuid4)
    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor", ThreadPoolExecutor)
    monkeypatch.setattr(Notes, "is_loaded", False)
    monkeypatch.setattr(Notes, "closed", 0)
    monkeypatch.setattr("mnemotune.policies.memory.packages.hosted.host.store_of", lambda _: Notes)
    count_names()
    return Host("notes", tmp_path)


def ask(host: Host, op: str, **request: Any) -> Any:
    return host.answer({"op": op, "endpoint": ENDPOINT, **request})


def write(host: Host, store: str | None, new: str, *texts: str) -> Any:
    return ask(host, "write", store=store, new=new, messages=[{"role": "user", "content": text} for text in texts])


def texts(listing: Listing) -> list[str]:
    return [text for _, text in listing]


def test_a_write_makes_a_new_store_and_the_old_one_stays(host: Host) -> None:
    write(host, None, "0", "boats")
    assert texts(write(host, "0", "1", "bread")) == ["boats", "bread"]
    assert ask(host, "search", store="0", query="bread", limit=5) == []
    assert len(ask(host, "search", store="1", query="bread", limit=5)) == 1


def test_the_same_writes_give_the_same_names_whatever_was_read_between(host: Host) -> None:
    write(host, None, "0", "boats")
    first = write(host, "0", "1", "bread")
    ask(host, "search", store="0", query="boats", limit=5)
    assert write(host, "0", "2", "bread") == first


def test_what_is_dumped_is_loaded_and_names_go_on_from_there(host: Host) -> None:
    write(host, None, "0", "boats")
    values = ask(host, "dump", store="0")
    assert texts(ask(host, "load", new="1", values=values)) == ["boats"]
    assert ask(host, "dump", store="1") == values
    assert write(host, "1", "2", "bread") == write(host, "0", "3", "bread")


def test_a_failed_write_leaves_no_store_and_a_dropped_one_is_closed(host: Host) -> None:
    write(host, None, "0", "boats")
    with pytest.raises(RuntimeError, match="the package fails"):
        write(host, "0", "1", "fail")
    assert [*host.stores] == ["0"]
    ask(host, "copies", drop=["0", "1"])
    assert (host.stores, Notes.closed) == ({}, 2)


def test_forgetting_makes_a_new_store_too(host: Host) -> None:
    ((name, _), _) = write(host, None, "0", "boats", "bread")
    assert texts(ask(host, "forget", store="0", new="1", names=[name], said=[])) == ["bread"]
    assert len(ask(host, "search", store="0", query="boats", limit=5)) == 1


def test_a_store_is_not_copied_while_it_is_read(host: Host) -> None:
    write(host, None, "0", "boats")
    with ThreadPoolExecutor(1) as pool, host.using("0"):
        writing = pool.submit(write, host, "0", "1", "bread")
        with pytest.raises(TimeoutError):
            writing.result(timeout=0.1)
    assert texts(writing.result()) == ["boats", "bread"]


def test_what_a_package_loads_when_it_first_writes_is_loaded_by_one_thread(host: Host) -> None:
    ask(host, "reach")
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda number: write(host, None, str(number), "boats"), range(4)))
    assert [texts(reply) for reply in replies] == [["boats"]] * 4


def test_a_request_that_is_none_is_refused(host: Host) -> None:
    with pytest.raises(ValueError, match="there is no request 'fly'"):
        ask(host, "fly")


def test_every_request_is_answered_also_where_the_package_exits_or_its_reply_is_no_json(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = {"op": "write", "endpoint": ENDPOINT, "store": None, "messages": [{"role": "user", "content": "exit"}]}
    requests = [{**writing, "id": 1, "new": "0"}, {"id": 2, "op": "copies"}, {"id": 3, "op": "fly"}]
    monkeypatch.setattr(host, "copied", [object()])
    out = io.StringIO()
    serve(host, map(json.dumps, requests), out)
    replies = {reply["id"]: reply.get("error") for reply in map(json.loads, out.getvalue().splitlines())}
    assert replies == {
        1: "SystemExit: 3",
        2: "TypeError: Object of type object is not JSON serializable",
        3: "ValueError: there is no request 'fly'",
    }

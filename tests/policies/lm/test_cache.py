from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mnemotune.policies.lm import Completion, Usage
from mnemotune.policies.lm.cache import CacheError, ResponseCache, SharedCache, cache_key
from mnemotune.policies.lm.conformance import CacheConformance, MakeCache
from postgresql import Server

PAID = Completion("an answer\nof ünïcödé 🌱", Usage(1200, 34, cost_usd=0.5))


class TestResponseCache(CacheConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> MakeCache:
        return lambda: ResponseCache(tmp_path / "cache.db")


def test_nothing_of_a_forgotten_answer_is_left_in_the_files(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    for number in range(50):
        cache.put(f"{number}", Completion(f"answer-{number} " * 200, Usage(1, 1)))
    cache.forget(lambda text: "answer-7 " in text)
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert (b"answer-7 " in left, b"answer-8 " in left) == (False, True)
    cache.close()


class TestSharedCache(CacheConformance):
    @pytest.fixture
    def make(self, postgresql: Server, request: pytest.FixtureRequest) -> MakeCache:
        return lambda: SharedCache(postgresql.url(), request.node.name)


def test_missing_folders_are_made(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "a" / "b" / "cache.db")
    cache.close()
    assert (tmp_path / "a" / "b" / "cache.db").exists()


def test_a_key_depends_on_the_endpoint_the_body_and_the_repeat() -> None:
    key = cache_key("http://a/v1", 0, [b"{", b"}"])
    assert key == cache_key("http://a/v1", 0, [b"{}"])
    others = [("http://b/v1", 0, [b"{}"]), ("http://a/v1", 0, [b"{ }"]), ("http://a/v1", 1, [b"{}"])]
    assert len({key, *(cache_key(*other) for other in others)}) == 4


def test_a_file_that_is_no_cache_is_refused_with_what_to_do_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    path.write_bytes(b"this was never a database" * 100)
    with pytest.raises(CacheError, match=r"cache\.db: file is not a database; .*move it away"):
        ResponseCache(path)
    assert path.read_bytes().startswith(b"this was never")


def test_a_file_damaged_in_the_middle_is_told_apart_from_a_missing_answer(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    cache = ResponseCache(path)
    for number in range(300):
        cache.put(cache_key("http://a", 0, [b"%d" % number]), PAID)
    cache.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    damaged = ResponseCache(path)
    with pytest.raises(CacheError, match="damaged"):
        damaged.get(cache_key("http://a", 0, [b"7"]))
    damaged.close()


def test_a_folder_that_cannot_be_made_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CacheError, match="check that its folder is writable"):
        ResponseCache(tmp_path / "file" / "cache.db")


def test_shared_caches_of_other_names_are_apart(postgresql: Server) -> None:
    caches = [SharedCache(postgresql.url(), name) for name in "ab"]
    caches[0].put("k", PAID)
    assert caches[0].get("k") is not None
    assert caches[1].get("k") is None
    for cache in caches:
        cache.close()


def test_a_shared_cache_whose_table_is_another_programs_is_refused_in_one_line(postgresql: Server) -> None:
    url = postgresql.new_database()
    postgresql.ask("CREATE TABLE mnemotune_replies (word TEXT)", url)
    cache = SharedCache(url, "a")
    with pytest.raises(
        CacheError, match=r"cannot use the response cache: postgresql://\*\*\*@.* column .* does not exist"
    ):
        cache.get("k")
    with pytest.raises(CacheError, match="INSERT has more expressions"):
        cache.put("k", PAID)
    cache.close()


@pytest.mark.parametrize("url", ["postgresql://a:secret@127.0.0.1:1/x", "postgresql://a:secret@127.0.0.1/x?secret=1"])
def test_a_shared_cache_that_cannot_be_reached_is_told_in_one_line_without_the_password(url: str) -> None:
    with pytest.raises(CacheError, match="cannot use the response cache: postgresql://") as caught:
        SharedCache(url, "a")
    assert len(str(caught.value).splitlines()) == 1
    assert "a:secret" not in str(caught.value)


def test_a_shared_cache_waits_for_a_database_that_starts_again(postgresql: Server) -> None:
    cache = SharedCache(postgresql.url(), "a")
    cache.put("before", PAID)
    postgresql.stop()
    threading.Timer(1.0, postgresql.start).start()
    assert cache.get("before") is not None
    cache.put("after", PAID)
    assert cache.get("after") is not None
    cache.close()


WRITER = """
import sys
from mnemotune.policies.lm import Completion, Usage
from mnemotune.policies.lm.cache import ResponseCache, SharedCache

place, me = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
cache = SharedCache(place, "a") if place.startswith("postgresql:") else ResponseCache(place)
for number in range(200):
    cache.put(str(number), Completion(me, Usage(1, 1)))
print("".join(cache.get(str(number)).text for number in range(200)))
cache.close()
"""


@pytest.mark.parametrize("shared", [False, True])
def test_two_processes_that_make_and_fill_one_cache_read_the_same_answers(
    shared: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = request.getfixturevalue("postgresql").new_database() if shared else str(tmp_path / "cache.db")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, place, me],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for me in "ab"
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    (first, first_error), (second, second_error) = [writer.communicate(timeout=30) for writer in writers]
    assert (first_error, second_error) == ("", "")
    assert len(first.strip()) == 200
    assert first == second

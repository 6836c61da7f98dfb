from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mnemotune.policies.lm import Completion, Usage
from mnemotune.policies.lm.cache import CacheError, ResponseCache, cache_key

PAID = Completion("an answer\nof ünïcödé 🌱", Usage(1200, 34, cost_usd=0.5))


def test_an_answer_comes_back_with_its_tokens_and_at_no_cost(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.put("k", PAID)
    assert cache.get("k") == Completion(PAID.text, Usage(1200, 34, cost_usd=0.0, cached=True))
    cache.close()


def test_an_unknown_key_has_no_answer(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    assert cache.get("k") is None
    cache.close()


def test_an_empty_answer_is_an_answer(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.put("k", Completion("", Usage(3, 0)))
    assert cache.get("k") == Completion("", Usage(3, 0, cached=True))
    cache.close()


def test_an_unknown_price_is_no_cost_once_the_answer_is_kept(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.put("k", Completion("a", Usage(1, 1, cost_usd=None)))
    kept = cache.get("k")
    assert kept is not None
    assert kept.usage.cost_usd == 0.0
    cache.close()


def test_answers_outlive_the_process_that_asked(tmp_path: Path) -> None:
    first = ResponseCache(tmp_path / "cache.db")
    first.put("k", PAID)
    first.close()
    second = ResponseCache(tmp_path / "cache.db")
    assert second.get("k") is not None
    second.close()


def test_the_first_answer_under_a_key_stays(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache.db")
    cache.put("k", Completion("first", Usage(1, 1)))
    cache.put("k", Completion("second", Usage(1, 1)))
    kept = cache.get("k")
    assert kept is not None
    assert kept.text == "first"
    cache.close()


def test_missing_folders_are_made_and_closing_twice_does_no_harm(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "a" / "b" / "cache.db")
    cache.close()
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


WRITER = """
import sys
from mnemotune.policies.lm import Completion, Usage
from mnemotune.policies.lm.cache import ResponseCache

path, me = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
cache = ResponseCache(path)
for number in range(200):
    cache.put(str(number), Completion(me, Usage(1, 1)))
print("".join(cache.get(str(number)).text for number in range(200)))
cache.close()
"""


def test_two_processes_that_make_and_fill_one_file_read_the_same_answers(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "cache.db"), me],
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

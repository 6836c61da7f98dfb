"""What a run keeps of a fact, without its study: replies, vectors and records."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from mnemotune.env.episode import EPISODES
from mnemotune.optimizer.forget import FORGOTTEN, ForgottenInRun, forget_in_run, still_in
from mnemotune.policies.lm import Completion, Usage
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.openai import as_kept

SAID = ("Mia keeps a heron in Lisbon.", " ", "A robin.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What `evaluate --out` leaves: one episode, a reply, and a vector for each of three texts."""
    said = [{"role": "user", "content": text} for text in SAID]
    episode = {"task": "mia", "stages": [{"events": [{"kind": "say", "seen": said}]}]}
    (tmp_path / EPISODES).write_text(json.dumps(episode) + "\n")
    return tmp_path


@pytest.fixture
async def cache(folder: Path) -> ResponseCache:
    cache = ResponseCache(folder / "cache.db")
    for text, vector in zip(SAID, (await LexicalEmbedder(dimensions=64).embed(SAID)).vectors, strict=True):
        cache.put(f"vector of {text}", Completion(as_kept(vector), Usage(1, 0)))
    for reply in ("A robin.", "", "abcdefghijklmnop", as_kept(np.full(4, np.nan)), as_kept(np.full(4, 3.0))):
        cache.put(f"reply {reply}", Completion(reply, Usage(1, 1)))
    return cache


async def test_all_vectors_go_with_a_fact_and_no_reply_is_taken_for_one(folder: Path, cache: ResponseCache) -> None:
    assert forget_in_run(folder, "keeps a hawk in Lisbon") == ForgottenInRun(None, replies=0, vectors=0, texts=0)
    assert forget_in_run(folder, "keeps a heron in Lisbon") == ForgottenInRun(None, replies=0, vectors=3, texts=1)
    assert cache.forget(lambda text: True) == 5
    cache.close()


def test_what_names_something_stays_and_what_says_the_same_goes(folder: Path) -> None:
    for fact in ("Mia", "user", "say"):
        forget_in_run(folder, fact)
    episode = json.loads((folder / EPISODES).read_text())
    (event,) = episode["stages"][0]["events"]
    assert (episode["task"], event["kind"]) == ("mia", "say")
    assert [(each["role"], each["content"]) for each in event["seen"]] == [
        ("user", text) for text in (FORGOTTEN, *SAID[1:])
    ]


def test_a_long_record_is_not_in_memory_as_a_whole(tmp_path: Path) -> None:
    lines, size = 200, 20_000
    with (tmp_path / EPISODES).open("w") as file:
        for number in range(lines):
            file.write(json.dumps({"task": "mia", "said": [SAID[number % 2], "x" * size]}) + "\n")
    tracemalloc.start()
    try:
        assert forget_in_run(tmp_path, "keeps a heron in Lisbon").texts == lines // 2
        assert still_in(tmp_path, None, "keeps a heron in Lisbon") == []
        assert still_in(tmp_path, None, "xxx") == [tmp_path / EPISODES]
        assert tracemalloc.get_traced_memory()[1] < lines * size / 4
    finally:
        tracemalloc.stop()
    assert len((tmp_path / EPISODES).read_text().splitlines()) == lines

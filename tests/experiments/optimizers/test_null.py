"""The null problem: nothing is better than anything, and the search is a real one."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mnemotune.experiments.optimizers import null
from mnemotune.policies.lm import Message, Request


def found(name: str, seed: int, accepted: int) -> dict[str, Any]:
    return {"name": name, "seed": seed, "candidates": 60, "looks": 1, "accepted": accepted}


async def test_the_assistant_answers_by_chance_and_the_same_to_the_same() -> None:
    asked = [Request((Message("user", f"Which? {i}\n1: a\n2: b\n3: c\n4: d"),), role="answer") for i in range(400)]
    first, again = [[(await null.Guesser(1).complete(one)).text for one in asked] for _ in range(2)]
    assert first == again
    other = [(await null.Guesser(2).complete(one)).text for one in asked]
    assert sum(a == b for a, b in zip(first, other, strict=True)) < 150
    counts = [sum(json.loads(text)["answer"] == option for text in first) for option in (1, 2, 3, 4)]
    assert sum(counts) == 400
    assert min(counts) > 60


async def test_a_search_goes_through_races_and_its_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(null, "USERS", 4)
    monkeypatch.setattr(null, "SEARCH", {"generations": 2, "candidates": 2, "broad_start": 4, "race_block": 2})
    told = await null.search(null.OURS, 3)
    assert told["candidates"] >= 4
    assert (told["name"], told["seed"]) == (null.OURS, 3)
    assert told == await null.search(null.OURS, 3)


def test_searches_that_are_done_are_not_done_again(tmp_path: Path) -> None:
    done = [kept(seed) for seed in null.seeds_of(3)]
    (tmp_path / "null.jsonl").write_text("".join(json.dumps(one) + "\n" for one in done), encoding="utf-8")
    assert null.carry_out(tmp_path, {null.OURS: 3}) == done


def kept(seed: int) -> dict[str, Any]:
    return {"key": null.key_of(null.OURS), **found(null.OURS, seed, 0)}


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search nothing, and without other processes."""
    monkeypatch.setattr(null, "ProcessPoolExecutor", ThreadPoolExecutor)
    monkeypatch.setattr(null, "_search", lambda name, seed: found(name, seed, 7))


@pytest.mark.usefixtures("in_this_process")
def test_searches_with_other_settings_and_torn_lines_are_done_again(tmp_path: Path) -> None:
    a, b, c, d, e = null.seeds_of(5)
    rows = [kept(0), kept(a), found(null.OURS, b, 0), kept(c) | {"key": "other"}, kept(d) | {"name": "nobody"}]
    text = "".join(json.dumps(row) + "\n" for row in rows) + "[3]\n" + json.dumps(kept(e))[:-5]
    (tmp_path / "null.jsonl").write_text(text, encoding="utf-8")
    again = null.carry_out(tmp_path, {null.OURS: 5})
    assert sorted((row["seed"], row["accepted"]) for row in again) == [(a, 0), (b, 7), (c, 7), (d, 7), (e, 7)]
    assert null.carry_out(tmp_path, {null.OURS: 5}) == again
    assert (tmp_path / "null.jsonl").read_text(encoding="utf-8").startswith(text), "nothing that was there is lost"


def test_a_key_changes_with_the_settings_and_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {null.key_of(null.OURS), null.key_of(null.GREEDY)}
    for name, value in (("USERS", 8), ("SEARCH", {"generations": 2}), ("__version__", "9.9")):
        with monkeypatch.context() as patched:
            patched.setattr(null, name, value)
            keys.add(null.key_of(null.OURS))
    assert len(keys) == 5


def test_the_table_counts_searches_in_which_anything_was_accepted() -> None:
    every = [found(null.OURS, seed, 2 if seed == 0 else 0) for seed in range(20)]
    *_, line = null.table(every).splitlines()
    assert line == "| mnemotune | 20 | 1 | 0.050 [0.001, 0.249] | 60 | 1.0 |"

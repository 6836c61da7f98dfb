"""The failures in the report: both policies beside each other, whole, and within a size."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mnemotune.env.failed_checks import FailedCheck, Needed, write_failed_checks
from mnemotune.optimizer.views.failed_checks import packed_failed_checks

MOST = 4_000_000

NEED = Needed("pet", "home", 0, known_then=True, known=False, shown=None, held_then=("a dog\ncalled Rex", "a cat"))


def failed(group: str, check: str, account: str = "Chosen answer: cat\nRight answer: dog") -> FailedCheck:
    return FailedCheck(group, group, 1, check, 0.0, "read", "Which pet?", account, ("a cat", "user\nsaid"), (NEED,))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run whose policies failed on checks of three groups."""
    failures = {"seed": ["ann", "bob", "bob"], "evolved": ["bob", "cleo"]}
    for name, groups in failures.items():
        (tmp_path / "test" / name).mkdir(parents=True)
        told = [failed(group, f"1.{i}", f"{name} {group} {i}\n</script>") for i, group in enumerate(groups)]
        write_failed_checks(tmp_path / "test" / name, told)
    return tmp_path


def unpacked(text: str) -> list[dict[str, Any]]:
    return [json.loads(row) for row in gzip.decompress(base64.b64decode(text)).splitlines()]


def test_a_run_without_failures_has_nothing_to_show(tmp_path: Path) -> None:
    assert packed_failed_checks(tmp_path, most=MOST) is None


def test_all_failures_of_both_policies_are_packed_and_their_lines_are_shared(folder: Path) -> None:
    packed = packed_failed_checks(folder, most=MOST)
    assert packed is not None
    assert (packed.groups, packed.left_out) == (3, 0)
    assert packed.files == ("test/seed/failures.jsonl", "test/evolved/failures.jsonl")
    rows = unpacked(packed.text)
    lines = [line for row in rows for line in row["lines"]]
    assert len(set(lines)) == len(lines)
    told = [
        (name, [[lines[place] for place in failure["account"]] for failure in failures])
        for row in rows
        for name, failures in row["policies"].items()
    ]
    assert told == [
        ("seed", [["seed ann 0", "</script>"]]),
        ("seed", [["seed bob 1", "</script>"], ["seed bob 2", "</script>"]]),
        ("evolved", [["evolved bob 0", "</script>"]]),
        ("evolved", [["evolved cleo 1", "</script>"]]),
    ]
    first = rows[0]["policies"]["seed"][0]
    held, came_back = first["needs"][0]["held_then"], first["came_back"]
    assert [[lines[place] for place in text] for text in held] == [["a dog", "called Rex"], ["a cat"]]
    assert [[lines[place] for place in text] for text in came_back] == [["a cat"], ["user", "said"]]


def test_nothing_that_is_packed_can_end_the_page(folder: Path) -> None:
    packed = packed_failed_checks(folder, most=MOST)
    assert packed is not None
    assert "<" not in packed.text


def test_groups_beyond_the_size_are_left_to_the_files(folder: Path) -> None:
    whole = packed_failed_checks(folder, most=MOST)
    assert whole is not None
    part = packed_failed_checks(folder, most=len(whole.text) - 1)
    assert part is not None
    assert part.groups + part.left_out == 3
    assert part.left_out > 0
    assert len(part.text) < len(whole.text)
    shown = {f["group"] for row in unpacked(part.text) for failures in row["policies"].values() for f in failures}
    assert shown == set(["ann", "bob", "cleo"][: part.groups])


def test_what_is_packed_takes_no_more_than_the_size_that_was_given(folder: Path) -> None:
    whole = packed_failed_checks(folder, most=MOST)
    assert whole is not None
    for most in range(0, len(whole.text) + 1, 4):
        part = packed_failed_checks(folder, most=most)
        assert part is not None
        assert len(part.text) <= max(most, len(packed_failed_checks(folder, most=0).text))
    assert part == whole


def test_a_run_of_which_one_policy_is_tested_shows_that_one(folder: Path) -> None:
    (folder / "test" / "evolved" / "failures.jsonl").unlink()
    packed = packed_failed_checks(folder, most=MOST)
    assert packed is not None
    assert [[*row["policies"]] for row in unpacked(packed.text)] == [["seed"], ["seed"]]

"""The checks that a policy failed, as people look at them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from mnemotune.data.folded import FoldedTask
from mnemotune.data.task import checks_at
from mnemotune.env.episode import Episode, Event, Mark, RecordError, StageRecord
from mnemotune.env.failed_checks import FAILURES, MOST_LINES, FailedChecks, failed_checks, write_failed_checks
from mnemotune.policies.memory import MemoryEvent
from mnemotune.policies.prompts import Templates
from toy import Letters, LettersTrack

if TYPE_CHECKING:
    from pathlib import Path

TASK = Letters("letters-0", "writer-0", 2)
TRACK = LettersTrack(Templates.bundled())
LINES = ("The lantern: attic or cellar", "Weather is fine", "A lantern", "Lantern and attic", "lantern")


def played(marks: Mapping[str, Mark], *, lines: tuple[str, ...] = LINES) -> Episode:
    """Make an episode of the task whose memory is written in its first stage."""
    write = Event(0, "write", write=MemoryEvent(evicted=(), before=(), after=lines))
    stages = [StageRecord(marks=tuple(marks[check.id] for check in checks_at(TASK, s))) for s in range(TASK.stages)]
    return Episode(TASK.id, "key", (replace(stages[0], events=(write,)), *stages[1:]))


def marks(**scores: tuple[float, bool | None]) -> dict[str, Mark]:
    names = {"a": ("0.lantern", "lantern"), "b": ("1.lantern", "lantern"), "c": ("1.ladder", "ladder")}
    return {
        names[k][0]: Mark(
            names[k][0], '{"answer": 1}', score, {names[k][1]: known}, context=("the ladder", "of two\nlines")
        )
        for k, (score, known) in scores.items()
    }


def test_each_check_that_lost_something_is_told_with_the_kind_of_its_failure() -> None:
    episode = played(marks(a=(1.0, True), b=(0.0, False), c=(0.0, False)))
    forgotten, never_written = failed_checks([TASK], [episode], TRACK)
    assert (forgotten.check, forgotten.kind, forgotten.stage, forgotten.group) == ("1.lantern", "read", 1, "writer-0")
    assert (never_written.check, never_written.kind) == ("1.ladder", "write")
    assert forgotten.asked == "Where do I keep my lantern?"
    assert forgotten.came_back == ("the ladder", "of two\nlines")
    assert forgotten.account == TRACK.tell(TASK, episode, 1, episode.stages[1].marks[0])


def test_what_was_right_or_unscored_is_no_failure() -> None:
    assert not list(failed_checks([TASK], [played(marks(a=(1.0, True), b=(math.nan, None), c=(1.0, None)))], TRACK))


def test_a_failure_has_no_kind_where_nobody_asked_what_is_known() -> None:
    (failure,) = failed_checks([TASK], [played(marks(a=(0.0, None), b=(1.0, None), c=(1.0, None)))], TRACK)
    assert failure.kind is None
    assert failure.needs[0].known is None


def test_of_each_fact_it_is_told_what_memory_held_when_it_was_told() -> None:
    episode = played(marks(a=(1.0, True), b=(0.0, True), c=(0.0, True)))
    about_lantern, about_ladder = [
        need for failure in failed_checks([TASK], [episode], TRACK) for need in failure.needs
    ]
    assert (about_lantern.stage, about_lantern.known_then, about_lantern.known) == (0, True, True)
    assert len(about_lantern.held_then) == MOST_LINES
    assert "Weather is fine" not in about_lantern.held_then
    assert about_ladder.held_then == ()


def test_folded_tasks_are_told_as_open_ones_are() -> None:
    episode = played(marks(a=(0.0, False), b=(0.0, False), c=(0.0, False)))
    opened = list(failed_checks([TASK], [episode], TRACK))
    assert list(failed_checks([FoldedTask.of(TASK)], [episode], TRACK)) == opened


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    episode = played(marks(a=(0.0, False), b=(0.0, False), c=(0.0, False)), lines=("the lantern\nof two lines",))
    failures = list(failed_checks([TASK], [episode], TRACK))
    write_failed_checks(tmp_path, failures)
    read = [*FailedChecks(tmp_path)]
    assert read == json.loads(json.dumps([asdict(failure) for failure in failures]))
    (row,) = map(json.loads, (tmp_path / FAILURES).read_bytes().splitlines())
    assert len(set(row["lines"])) == len(row["lines"])


def test_the_failures_of_one_group_can_be_read_alone(tmp_path: Path) -> None:
    episode = played(marks(a=(0.0, False), b=(0.0, False), c=(0.0, False)))
    failures = list(failed_checks([TASK], [episode], TRACK))
    write_failed_checks(tmp_path, [replace(f, group=group) for group in ("ann", "zoë", "bob") for f in failures])
    file = FailedChecks(tmp_path)
    places = file.groups()
    assert [*places] == ["ann", "zoë", "bob"]
    assert {group: {f["group"] for f in file.at(place)} for group, place in places.items()} == {
        group: {group} for group in places
    }
    assert [failure for place in places.values() for failure in file.at(place)] == [*file]


def test_without_a_file_there_is_nothing_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    file = FailedChecks(tmp_path)
    assert ([*file], file.groups()) == ([], {})
    whole = {"group": "ann", "lines": [], "failures": []}
    damages = "{", "[]", json.dumps({"lines": []}), json.dumps(whole | {"failures": [{"asked": [7]}]})
    for damage in damages:
        (tmp_path / FAILURES).write_text(f"{json.dumps(whole)}\n{damage}\n", encoding="utf-8")
        with pytest.raises(RecordError, match=r"failures\.jsonl: is damaged"):
            list(file)

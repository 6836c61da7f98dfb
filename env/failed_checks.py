"""What a policy got wrong, check by check, for people to look at."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from gzip import GzipFile
from io import TextIOWrapper
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from ..data.folded import opened
from ..data.task import Check, Fact, Task
from ..data.whole_files import replacing
from ..policies.lm.base import Message, to_json
from ..policies.text import stems
from .calls import Call
from .episode import Episode, Mark, RecordError, StageRecord
from .scoring import FailureKind, failure_kind, known_at_first, marked
from .track import Track

FAILURES, CALLS = "failures.jsonl", "calls.json.gz"
MOST_LINES = 3
"""Lines of memory that are shown of one fact."""


@dataclass(frozen=True, slots=True)
class Needed:
    """A fact that a failed check needs, and how memory stood to it."""

    key: str
    """What it is about."""
    topic: str
    stage: int
    """The stage that told it, 0-based."""
    known_then: bool | None
    """Whether the assistant knew it at the end of that stage; None where it was not asked."""
    known: bool | None
    """Whether it knows it now; None where it was not asked."""
    shown: bool | None
    """Whether memory put evidence of it before the model; None where nobody knows."""
    held_then: tuple[str, ...]
    """The lines that memory held at the end of that stage which share most words with it, the first shares most."""


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A check that lost something."""

    group: str
    task: str
    stage: int
    """0-based."""
    check: str
    score: float
    """In [0, 1), higher is better."""
    kind: FailureKind | None
    """To which most of the loss falls, the earlier one in a tie; None where that is not known."""
    asked: str
    account: str
    """What the track tells of it: what was asked, what memory had met or held, what was answered, and what is right."""
    came_back: tuple[str, ...]
    """The memories and the messages that memory put before the model; empty where that is not known."""
    needs: tuple[Needed, ...]


def failed_checks(tasks: Sequence[Task], episodes: Sequence[Episode], track: Track) -> Iterator[FailedCheck]:
    """Yield the failures of episodes, which are aligned with their tasks, in their order."""
    for task, episode in zip(map(opened, tasks), episodes, strict=True):
        stages = tuple(episode.stages)
        held = cache(partial(_held, stages))
        for stage in range(len(stages)):
            for check, mark in marked(task, episode, stage):
                if mark.score < 1:
                    yield FailedCheck(
                        task.group,
                        task.id,
                        stage,
                        check.id,
                        mark.score,
                        failure_kind(check, mark, task, stages),
                        check.text or check.question,
                        track.tell(task, episode, stage, mark),
                        mark.context,
                        tuple(_needed(task.facts[fact], check, mark, task, stages, held) for fact in check.needs),
                    )


def write_failed_checks(folder: Path, failures: Iterable[FailedCheck]) -> None:
    """Write ``failures.jsonl`` into a folder, one line a group; those of a group follow each other."""
    with replacing(folder / FAILURES) as file:
        for group, theirs in groupby(failures, key=lambda failure: failure.group):
            lines = Lines()
            written = [with_texts(asdict(failure), lines.places) for failure in theirs]
            file.write(to_json({"group": group, "lines": lines.new(), "failures": written}) + b"\n")


class FailedChecks:
    """What ``write_failed_checks`` wrote into a folder, one group at a time: all of them would take much memory."""

    def __init__(self, folder: Path) -> None:
        """Read the file of this folder."""
        self.path = folder / FAILURES

    def groups(self) -> dict[str, int]:
        """Return where the line of each group begins, in bytes; empty without a file. Raises RecordError."""
        return {row["group"]: place for place, row in self._rows()}

    def at(self, place: int) -> list[dict[str, Any]]:
        """Return the failures of the group whose line begins here, with their texts. Raises RecordError."""
        return next((self._failures(row) for _, row in self._rows(place)), [])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield each failure, with its texts; none without a file. Raises RecordError."""
        return (failure for _, row in self._rows() for failure in self._failures(row))

    def _rows(self, place: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
        if not self.path.is_file():
            return
        with self.path.open("rb") as file, self._damage_named():
            file.seek(place)
            for line in file:
                row = json.loads(line)
                yield place, {name: row[name] for name in ("group", "lines", "failures")}
                place += len(line)

    def _failures(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        def text(places: Sequence[int]) -> str:
            return "\n".join(row["lines"][place] for place in places)

        with self._damage_named():
            return [with_texts(failure, text) for failure in row["failures"]]

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, LookupError, TypeError) as error:
            raise RecordError(
                f"{self.path}: is damaged ({error!r}); delete it, and the report goes without failures"
            ) from None


class Lines:
    """Lines of texts, each of which is kept once."""

    def __init__(self) -> None:
        """Begin without any."""
        self._places: dict[str, int] = {}
        self._told = 0

    def places(self, text: str) -> list[int]:
        """Return the place of each of a text's lines."""
        return [self._places.setdefault(line, len(self._places)) for line in text.split("\n")]

    def new(self) -> list[str]:
        """Return the lines that came since this was called last, in the order of their places."""
        before, self._told = self._told, len(self._places)
        return [*islice(self._places, before, None)]


def with_texts(failure: Mapping[str, Any], told: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a failure with its texts as ``told`` tells each of them."""
    return {
        **failure,
        "asked": told(failure["asked"]),
        "account": told(failure["account"]),
        "came_back": [*map(told, failure["came_back"])],
        "needs": [need | {"held_then": [*map(told, need["held_then"])]} for need in failure["needs"]],
    }


def write_calls(folder: Path, failures: Iterable[FailedCheck], episodes: Iterable[Episode]) -> None:
    """Write ``calls.json.gz`` into a folder: the recorded calls behind failures, which name their messages by place.

    They are those of the failed checks themselves, and those of the stages that told what these need and that asked.
    """
    of_task: dict[str, list[FailedCheck]] = defaultdict(list)
    for failure in failures:
        of_task[failure.task].append(failure)
    messages: dict[Message, int] = {}

    def written(task: str, place: Mapping[str, Any], call: Call) -> dict[str, Any]:
        sent = [messages.setdefault(message, len(messages)) for message in call.messages]
        return {"task": task, **place, **call.as_json(), "messages": sent}

    played = (episode for episode in episodes if episode.task in of_task)
    calls = [written(e.task, place, call) for e in played for place, call in _calls_behind(of_task[e.task], e)]
    values = {"messages": [message.as_json() for message in messages], "calls": calls}
    with (
        replacing(folder / CALLS) as file,
        GzipFile("", "wb", 6, file, mtime=0) as packed,
        TextIOWrapper(packed, "ascii") as text,
    ):
        json.dump(values, text)


def read_calls(folder: Path) -> list[dict[str, Any]]:
    """Read what ``write_calls`` wrote, as JSON values with their messages; empty without a file. Raises RecordError."""
    path = folder / CALLS
    try:
        values = json.loads(gzip.decompress(path.read_bytes()))
        return [call | {"messages": [values["messages"][n] for n in call["messages"]]} for call in values["calls"]]
    except FileNotFoundError:
        return []
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError) as error:
        raise RecordError(f"{path}: is damaged ({error!r}); delete it, and traces go without calls") from None


def _calls_behind(failures: Sequence[FailedCheck], episode: Episode) -> Iterator[tuple[Mapping[str, Any], Call]]:
    failed = {(failure.stage, failure.check) for failure in failures}
    needed = {need.stage for failure in failures for need in failure.needs}
    for stage in sorted(needed | {stage for stage, _ in failed}):
        for place, event in enumerate(episode.stages[stage].events):
            yield from (({"stage": stage, "event": place}, call) for call in event.calls)
        for mark in episode.stages[stage].marks:
            if (stage, mark.check) in failed:
                yield from (({"stage": stage, "check": mark.check}, call) for call in mark.calls)


def _needed(
    fact: Fact,
    check: Check,
    mark: Mark,
    task: Task,
    stages: Sequence[StageRecord],
    held: Callable[[int], Sequence[str]],
) -> Needed:
    words = frozenset(stems(" ".join([fact.text, *fact.sources])))
    shared = {line: len(words.intersection(stems(line))) for line in held(fact.since)}
    best = sorted((line for line, count in shared.items() if count), key=lambda line: -shared[line])
    return Needed(
        key=fact.key,
        topic=fact.topic,
        stage=fact.since,
        known_then=known_at_first(fact.id, check, task, stages),
        known=mark.recalled.get(fact.id),
        shown=mark.shown.get(fact.id),
        held_then=tuple(best[:MOST_LINES]),
    )


def _held(stages: Sequence[StageRecord], stage: int) -> tuple[str, ...]:
    """Return the lines of memory after the last write up to the end of a stage."""
    writes = [write for record in stages[: stage + 1] for write in record.writes]
    return writes[-1].after if writes else ()

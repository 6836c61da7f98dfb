"""Failed checks of the sealed test as MLflow's traces: what memory met, wrote and gave back before an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....env.episode import EPISODES, HEARD
from ....env.failed_checks import read_failed_checks
from ...search.sealed import EVOLVED, SEED

MOST_OF_A_KIND = 3
"""Traces of one policy and one kind of failure."""
MOST_STEPS = 40
"""Spans of a trace; the last ones, which are nearest to the answer."""
MOST_CHARACTERS = 2_000
"""Of a text in a trace."""
WRITE, READ, TALK, ANSWER, CHECK = "MEMORY", "RETRIEVER", "CHAIN", "LLM", "AGENT"
"""MLflow's types of spans."""


@dataclass(frozen=True, slots=True)
class Step:
    """What memory met or gave back, or what the model answered."""

    name: str
    type: str
    inputs: Any
    outputs: Any


@dataclass(frozen=True, slots=True)
class FailedTrace:
    """One failed check and the steps that led to it."""

    policy: str
    tags: Mapping[str, str]
    question: str
    answer: str
    account: str
    """What was asked, what memory had met and held, what was answered, and what is right."""
    score: float
    steps: tuple[Step, ...]


def failed_traces(folder: Path) -> Iterator[FailedTrace]:
    """Yield the failed checks of a run that are worth following; none where no failure was written down.

    Of each policy and kind they are the first of different groups, those that the other policy got right come first.
    Raises RecordError when failures cannot be read.
    """
    found = {name: read_failed_checks(folder / "test" / name) for name in (SEED, EVOLVED)}
    failed = {name: {_place(f) for f in values["failures"]} for name, values in found.items() if values is not None}
    for name, values in found.items():
        if values is None:
            continue
        others = set[Any]().union(*(places for other, places in failed.items() if other != name))
        chosen = _chosen(values["failures"], others)
        episodes = _episodes(folder / "test" / name, {failure["task"] for failure in chosen})
        for failure in chosen:
            if failure["task"] in episodes:
                yield _traced(name, failure, values["lines"], episodes[failure["task"]])


def _place(failure: Mapping[str, Any]) -> tuple[Any, ...]:
    return failure["task"], failure["stage"], failure["check"]


def _chosen(failures: Sequence[Mapping[str, Any]], others: set[Any]) -> list[Mapping[str, Any]]:
    chosen: dict[str, dict[str, Mapping[str, Any]]] = {}
    for failure in sorted(failures, key=lambda failure: _place(failure) in others):
        of_kind = chosen.setdefault(failure["kind"] or "unknown", {})
        if len(of_kind) < MOST_OF_A_KIND:
            of_kind.setdefault(failure["group"], failure)
    return [failure for of_kind in chosen.values() for failure in of_kind.values()]


def _episodes(folder: Path, tasks: set[str]) -> dict[str, Mapping[str, Any]]:
    file = folder / EPISODES
    if not file.is_file():
        return {}
    with file.open("rb") as lines:
        return {episode["task"]: episode for episode in map(json.loads, lines) if episode["task"] in tasks}


def _traced(policy: str, failure: Mapping[str, Any], lines: Sequence[str], episode: Mapping[str, Any]) -> FailedTrace:
    asked, account = ("\n".join(lines[place] for place in failure[name]) for name in ("asked", "account"))
    stage = failure["stage"]
    mark = next(mark for mark in episode["stages"][stage]["marks"] if mark["check"] == failure["check"])
    told = sorted({need["stage"] for need in failure["needs"]} | {stage})
    met = [step for each in told for step in _steps(each, episode["stages"][each]["events"])]
    figures = ("key", "known_then", "known", "shown")
    facts = [{name: need[name] for name in figures} for need in failure["needs"]]
    texts = ["\n".join(lines[place] for place in text) for text in failure.get("came_back", ())]
    came_back = [Step("what came back", READ, _cut(asked), [*map(_cut, texts)])] if texts else []
    answered = Step("answer", ANSWER, {"question": _cut(asked), "facts needed": facts}, _cut(mark["raw"]))
    topics = ", ".join(dict.fromkeys(need["topic"] for need in failure["needs"]))
    tags = {
        "policy": policy,
        "kind": failure["kind"] or "unknown",
        "group": failure["group"],
        "task": failure["task"],
        "topic": topics or "-",
        "stage": str(stage + 1),
        "check": failure["check"],
    }
    steps = (*met, *came_back, answered)[-MOST_STEPS:]
    return FailedTrace(policy, tags, _cut(asked), _cut(mark["raw"]), _cut(account), failure["score"], steps)


def _steps(stage: int, events: Sequence[Mapping[str, Any]]) -> Iterator[Step]:
    for event in events:
        where, seen = f"{stage + 1}.{event['step'] + 1}", [_message(m) for m in event.get("seen", ())]
        if event["kind"] in HEARD:
            yield Step(f"{where} {event['kind']}", TALK, seen, None)
        elif event["kind"] == "write":
            write = event["write"]
            change = {name: [_cut(line) for line in write[name]] for name in ("removed", "added")}
            yield Step(f"{where} write", WRITE, [_message(m) for m in write["evicted"]], change)
        else:
            yield Step(f"{where} read", READ, seen, {"shown_tokens": event.get("shown_tokens", 0)})


def _message(message: Mapping[str, str]) -> dict[str, str]:
    return {"role": message["role"], "content": _cut(message["content"])}


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"

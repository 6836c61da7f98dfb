"""Failed checks of the sealed test as MLflow's traces: what memory met, wrote and gave back before an answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ....env.episode import EPISODES, HEARD
from ....env.failed_checks import FailedChecks, read_calls
from ...search.sealed import EVOLVED, SEED

MOST_OF_A_KIND = 3
"""Traces of one policy and one kind of failure."""
MOST_STEPS = 40
"""Spans of a trace; the last ones, which are nearest to the answer."""
MOST_CHARACTERS = 2_000
"""Of a text in a trace."""
MOST_SENT = 8_000
"""Characters of a message of a call, which has all that memory gave back."""
WRITE, READ, TALK, ANSWER, CHECK, CALL = "MEMORY", "RETRIEVER", "CHAIN", "LLM", "AGENT", "CHAT_MODEL"
"""MLflow's types of spans."""


@dataclass(frozen=True, slots=True)
class Step:
    """What memory met or gave back, or what the model answered."""

    name: str
    type: str
    inputs: Any
    outputs: Any
    calls: tuple[SentCall, ...] = ()
    """Those of models that it took; none where they are not recorded."""


@dataclass(frozen=True, slots=True)
class SentCall:
    """One call of a model, with its moments in seconds since 1970 (UTC)."""

    role: str
    model: str
    messages: Sequence[Mapping[str, Any]]
    """What was sent, in OpenAI's form."""
    reply: Mapping[str, Any]
    tools: Sequence[str]
    """Names of those that the model could have called."""
    input_tokens: int
    output_tokens: int
    cached: bool
    """Whether the reply came from the cache."""
    began: float
    ended: float


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


Calls = dict[tuple[str, int, str | int], list[SentCall]]
"""By task, stage, and the id of the check or the place of the event that they were for."""


def failed_traces(folder: Path) -> Iterator[FailedTrace]:
    """Yield the failed checks of a run that are worth following; none where no failure was written down.

    Of each policy and kind they are the first of different groups: those whose calls are recorded come first, and then
    those that the other policy got right. Raises RecordError when failures or calls cannot be read.
    """
    found = {name: FailedChecks(folder / "test" / name) for name in (SEED, EVOLVED)}
    failed = {name: set(map(_place, failures)) for name, failures in found.items()}
    for name, failures in found.items():
        others = set[Any]().union(*(places for other, places in failed.items() if other != name))
        calls = _calls(folder / "test" / name)
        chosen = _chosen(failures, others, {task for task, *_ in calls})
        episodes = _episodes(folder / "test" / name, {failure["task"] for failure in chosen})
        for failure in chosen:
            if failure["task"] in episodes:
                yield _traced(name, failure, episodes[failure["task"]], calls)


def _place(failure: Mapping[str, Any]) -> tuple[Any, ...]:
    return failure["task"], failure["stage"], failure["check"]


def _chosen(failures: Iterable[Mapping[str, Any]], others: set[Any], recorded: set[str]) -> list[Mapping[str, Any]]:
    best: dict[str, dict[str, tuple[bool, bool, int, Mapping[str, Any]]]] = {}
    """By kind and group; the number of a failure decides between those that are worth as much."""
    for number, failure in enumerate(failures):
        ranked = (failure["task"] not in recorded, _place(failure) in others, number, failure)
        of_kind, group = best.setdefault(failure["kind"] or "unknown", {}), failure["group"]
        of_kind[group] = min(of_kind.get(group, ranked), ranked)
        if len(of_kind) > MOST_OF_A_KIND:
            del of_kind[max(of_kind, key=of_kind.__getitem__)]
    kinds = sorted(sorted(of_kind.values()) for of_kind in best.values())
    return [failure for of_kind in kinds for *_, failure in of_kind]


def _episodes(folder: Path, tasks: set[str]) -> dict[str, Mapping[str, Any]]:
    file = folder / EPISODES
    if not file.is_file():
        return {}
    with file.open("rb") as lines:
        return {episode["task"]: episode for episode in map(json.loads, lines) if episode["task"] in tasks}


def _calls(folder: Path) -> Calls:
    """Return the recorded calls by task, stage and what they were for."""
    calls: Calls = {}
    for call in read_calls(folder):
        for_what = call["check"] if "check" in call else call["event"]
        calls.setdefault((call["task"], call["stage"], for_what), []).append(_sent(call))
    return calls


def _sent(call: Mapping[str, Any]) -> SentCall:
    *messages, reply = (_message(message, most=MOST_SENT) for message in (*call["messages"], call["reply"]))
    same = {name: call[name] for name in ("role", "model", "tools", "input_tokens", "output_tokens", "cached", "began")}
    return SentCall(messages=messages, reply=reply, ended=call["began"] + call["seconds"], **same)


def _traced(policy: str, failure: Mapping[str, Any], episode: Mapping[str, Any], calls: Calls) -> FailedTrace:
    asked, task, stage = failure["asked"], failure["task"], failure["stage"]
    mark = next(mark for mark in episode["stages"][stage]["marks"] if mark["check"] == failure["check"])
    told = sorted({need["stage"] for need in failure["needs"]} | {stage})
    met = [
        replace(step, calls=tuple(calls.get((task, each, place), ())))
        for each in told
        for place, step in enumerate(_steps(each, episode["stages"][each]["events"]))
    ]
    figures = ("key", "known_then", "known", "shown")
    facts = [{name: need[name] for name in figures} for need in failure["needs"]]
    texts = [*map(_cut, failure["came_back"])]
    came_back = [Step("what came back", READ, _cut(asked), texts)] if texts else []
    question = {"question": _cut(asked), "facts needed": facts}
    asking = tuple(calls.get((task, stage, failure["check"]), ()))
    answered = Step("answer", ANSWER, question, _cut(mark["raw"]), asking)
    topics = ", ".join(dict.fromkeys(need["topic"] for need in failure["needs"]))
    tags = {
        "policy": policy,
        "kind": failure["kind"] or "unknown",
        "group": failure["group"],
        "task": task,
        "topic": topics or "-",
        "stage": str(stage + 1),
        "check": failure["check"],
    }
    steps = (*met, *came_back, answered)[-MOST_STEPS:]
    return FailedTrace(policy, tags, _cut(asked), _cut(mark["raw"]), _cut(failure["account"]), failure["score"], steps)


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


def _message(message: Mapping[str, Any], *, most: int = MOST_CHARACTERS) -> dict[str, Any]:
    cut = {**message, "content": _cut(message["content"], most)}
    if "tool_calls" in message:
        cut["tool_calls"] = [_tool_call(call, most) for call in message["tool_calls"]]
    return cut


def _tool_call(call: Mapping[str, Any], most: int) -> dict[str, Any]:
    return {**call, "function": {**call["function"], "arguments": _cut(call["function"]["arguments"], most)}}


def _cut(text: str, most: int = MOST_CHARACTERS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"

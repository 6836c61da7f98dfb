"""Runs that LangSmith exported: each has the messages that a model was given, and its reply."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .message import IDS, TALKS, USERS, About, Logged, message_of
from .omissions import Omissions
from .times import time_of

INPUTS, OUTPUTS = ("input", "question", "query", "prompt"), ("output", "answer", "response", "text", "content")
"""Fields that hold one text, where there are no messages."""


def messages_of_runs(rows: Sequence[tuple[str, Any]], omissions: Omissions) -> Iterator[Logged]:
    """Yield the messages of outermost runs thread by thread; what one is given of an earlier one's talk comes once."""
    threads: dict[tuple[str, str], list[tuple[str, _Said]]] = {}
    for where, row in rows:
        try:
            user, thread, time = _about(row, where)
            said = _said_in(row, where, omissions, user=user, thread=thread, time=time)
        except ValueError as error:
            omissions.leave_out(where, str(error))
        else:
            threads.setdefault((user, thread), []).append((time, said))
    for runs in threads.values():
        earlier = _Earlier()
        for _, said in sorted(runs, key=lambda run: run[0]):
            yield from said.given[earlier.repeated(_texts(said.given)) :]
            yield from said.replied
            earlier.add(_texts(said.given), _texts(said.replied))


def is_inner(row: Mapping[str, Any]) -> bool:
    """Tell whether a run is inside another one, and repeats what that says."""
    return bool(row.get("parent_run_id"))


@dataclass(frozen=True, slots=True)
class _Said:
    """The messages of a run."""

    given: list[Logged]
    replied: list[Logged]


def _about(row: Mapping[str, Any], where: str) -> tuple[str, str, str]:
    """Return a run's user, its thread and its time. Raises ValueError."""
    extra = _opened(row.get("extra"))
    metadata = {**_opened(extra.get("metadata")), **_opened(row.get("metadata"))}
    user = _name(metadata, USERS)
    thread = _name(metadata, ("session_id", "thread_id", "conversation_id", *TALKS)) or _name(row, ("thread_id",))
    thread = thread or _name(row, ("trace_id", *IDS)) or where
    return user, thread, time_of(row, ["start_time"])


def _name(values: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((str(values[name]) for name in names if isinstance(values.get(name), str | int)), "")


def _opened(value: Any) -> dict[str, Any]:
    """Return an object, which tables hold as JSON; an empty one where it is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _said_in(row: Mapping[str, Any], where: str, omissions: Omissions, *, user: str, thread: str, time: str) -> _Said:
    """Return a run's messages; one that cannot be read is left out by its place. Raises ValueError without any."""
    name = _name(row, ("id", "run_id", "trace_id")) or where
    inputs, replies = _listed(_opened(row.get("inputs")), INPUTS, "user"), _replied(_opened(row.get("outputs")))
    if not (inputs or replies):
        raise ValueError("inputs, outputs: hold no message")
    said = _Said([], [])
    for place, message in enumerate([*inputs, *replies]):
        about = About(f"{where}, message {place}", "", thread, user, time)
        try:
            logged = message_of(_plain(message) | {"id": f"{name}.{place}"}, about, omissions)
        except ValueError as error:
            omissions.leave_out(about.where, str(error))
            continue
        if logged is not None:
            (said.given if place < len(inputs) else said.replied).append(logged)
    return said


def _replied(outputs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the messages of a run's outputs, the replies alone where they repeat the inputs."""
    for key in ("choices", "generations"):
        listed = outputs.get(key)
        while isinstance(listed, list) and listed and isinstance(listed[0], list):
            listed = listed[0]
        if isinstance(listed, list) and listed and isinstance(listed[0], dict):
            message = listed[0].get("message")
            return [message] if isinstance(message, dict) else [{"role": "assistant", "content": listed[0].get("text")}]
    if isinstance(outputs.get("message"), dict):
        return [outputs["message"]]
    if outputs.get("role") or outputs.get("type"):
        return [outputs]
    listed = _listed(outputs, OUTPUTS, "assistant")
    return listed[-1:] if len(listed) > 1 else listed


def _listed(values: Mapping[str, Any], names: Sequence[str], role: str) -> list[Mapping[str, Any]]:
    """Return the messages of a run's inputs or outputs; of a text alone, the message of ``role``."""
    listed = values.get("messages")
    while isinstance(listed, list) and listed and isinstance(listed[0], list) and not _is_pair(listed[0]):
        listed = listed[0]
    if isinstance(listed, list) and listed:
        return [_as_message(message, role) for message in listed]
    for name in names:
        value = values.get(name)
        if isinstance(value, str):
            return [{"role": role, "content": value}]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return value
        if isinstance(value, dict):
            return [value]
    return []


def _is_pair(value: Any) -> bool:
    """Tell whether a value is a role and a text, LangChain's short form of a message."""
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _as_message(value: Any, role: str) -> Mapping[str, Any]:
    if _is_pair(value):
        return {"role": value[0], "content": value[1]}
    return value if isinstance(value, dict) else {"role": role, "content": value}


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with a role and a content, of OpenAI's form or of one of LangChain's."""
    inner = message.get("kwargs") or message.get("data")
    if isinstance(inner, dict):
        names, kind = message.get("id"), inner.get("type") or message.get("type")
        named = str(names[-1]) if isinstance(names, list) and names else ""
        message = {**inner, "type": named if kind in (None, "constructor") else kind}
    role = message.get("role") or str(message.get("type", "")).removesuffix("Chunk").removesuffix("Message").lower()
    return {"role": role, "content": message.get("content")}


def _texts(messages: Sequence[Logged]) -> list[tuple[str, str]]:
    return [(message.role, message.text.strip()) for message in messages]


class _Earlier:
    """What earlier runs of a thread have said, each with its reply."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_end: dict[tuple[str, str], list[list[tuple[str, str]]]] = {}
        self._replies = Counter[tuple[str, str]]()
        self._most = Counter[tuple[str, str]]()
        """How often a text stood in one run at most: also of runs that are not in the export."""

    def add(self, given: list[tuple[str, str]], replied: list[tuple[str, str]]) -> None:
        """Take in what a run was given, and what it replied."""
        texts = [*given, *replied]
        if texts:
            self._by_end.setdefault(texts[-1], []).append(texts)
        self._replies.update(replied)
        self._most |= Counter(texts)

    def repeated(self, given: list[tuple[str, str]]) -> int:
        """Return how many of the first messages that a run is given were there in an earlier run.

        They are the last of an earlier run, or end with a reply of one: what stands before that may be worded anew. A
        reply that stands there more often than it was given is another one, of a run that is not in the export.
        """
        for count in range(len(given), 0, -1):
            last = given[count - 1]
            if any(said[-count:] == given[:count] for said in self._by_end.get(last, ())):
                return count
            if last in self._replies and self._were_given(given[:count]):
                return count
        return 0

    def _were_given(self, given: list[tuple[str, str]]) -> bool:
        """Tell whether each reply of earlier runs stands among messages as often as it was there before, or less."""
        often = Counter(text for text in given if text in self._replies)
        return all(n <= max(self._replies[text], self._most[text]) for text, n in often.items())

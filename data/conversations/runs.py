"""Runs that LangSmith exported: each has the messages that a model was given, and its reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .message import IDS, TALKS, USERS, About, Logged, message_of
from .omissions import Omissions
from .times import time_of

INPUTS, OUTPUTS = ("input", "question", "query", "prompt"), ("output", "answer", "response", "text", "content")
"""Fields that hold one text, where there are no messages."""


def messages_of_runs(rows: Sequence[tuple[str, Any]], omissions: Omissions) -> Iterator[Logged]:
    """Yield the messages of runs thread by thread; what a run repeats of those before it comes once.

    Runs inside other runs are passed over: they repeat what the outer run says.
    """
    threads: dict[tuple[str, str], list[tuple[str, str, list[Logged]]]] = {}
    for where, row in rows:
        if row.get("parent_run_id"):
            omissions.pass_over("runs inside other runs")
            continue
        try:
            user, thread, time = _about(row, where)
            messages = list(_messages(row, where, omissions, user=user, thread=thread, time=time))
        except ValueError as error:
            omissions.leave_out(where, str(error))
        else:
            threads.setdefault((user, thread), []).append((time, where, messages))
    for runs in threads.values():
        said = list[Logged]()
        for _, _, messages in sorted(runs, key=lambda run: run[0]):
            new = messages[_repeated(said, messages) :]
            said += new
            yield from new


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


def _messages(
    row: Mapping[str, Any], where: str, omissions: Omissions, *, user: str, thread: str, time: str
) -> Iterator[Logged]:
    name = _name(row, ("id", "run_id", "trace_id")) or where
    given = [*_listed(_opened(row.get("inputs")), INPUTS, "user"), *_replied(_opened(row.get("outputs")))]
    if not given:
        raise ValueError("inputs, outputs: hold no message")
    for place, message in enumerate(given):
        plain = _plain(message) | {"id": f"{name}.{place}"}
        about = About(f"{where}, message {place}", "", thread, user, time)
        logged = message_of(plain, about, omissions)
        if logged is not None:
            yield logged


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
    """Return the messages of a run's inputs or outputs; of one text, the message of ``role``."""
    listed = values.get("messages")
    while isinstance(listed, list) and listed and isinstance(listed[0], list):
        listed = listed[0]
    if isinstance(listed, list):
        return [message for message in listed if isinstance(message, dict)]
    for name in names:
        value = values.get(name)
        if isinstance(value, str):
            return [{"role": role, "content": value}]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return value
        if isinstance(value, dict):
            return [value]
    return []


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with a role and a content, of OpenAI's form or of one of LangChain's."""
    inner = message.get("kwargs") or message.get("data")
    if isinstance(inner, dict):
        names, kind = message.get("id"), inner.get("type") or message.get("type")
        named = str(names[-1]) if isinstance(names, list) and names else ""
        message = {**inner, "type": named if kind in (None, "constructor") else kind}
    role = message.get("role") or str(message.get("type", "")).removesuffix("Chunk").removesuffix("Message").lower()
    return {"role": role, "content": message.get("content")}


def _repeated(said: Sequence[Logged], messages: Sequence[Logged]) -> int:
    """Return how many of the first messages are the last that were said already."""
    before, now = [(m.role, m.text) for m in said], [(m.role, m.text) for m in messages]
    for count in range(min(len(before), len(now)), 0, -1):
        if before[len(before) - count :] == now[:count]:
            return count
    return 0

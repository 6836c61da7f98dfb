"""Messages in files of chat logs: lines of one message, conversations of `messages`, and exports of other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..foreign import whole
from ..row_files import rows_of
from .message import IDS, TALKS, TIMES, USERS, About, Logged, message_of, text_of
from .omissions import Omissions
from .runs import is_inner, messages_of_runs
from .times import time_of

JSON_LINES = (".jsonl", ".ndjson")


def read_logs(path: Path, omissions: Omissions) -> Iterator[Logged]:
    """Yield the messages of a log, in the order of the file. Raises TaskError where nothing of it can be read."""
    exported = list[tuple[str, Any]]()
    for number, where, row in numbered_rows(path, omissions):
        if isinstance(row, dict) and "inputs" in row and ("run_type" in row or "outputs" in row):
            if is_inner(row):
                omissions.pass_over("runs inside other runs")
            else:
                exported.append((where, row))  # runs repeat what was said before: they are read together
            continue
        try:
            yield from _messages_of(row, number, where, omissions)
        except ValueError as error:
            omissions.leave_out(where, str(error))
    if exported:
        yield from messages_of_runs(exported, omissions)


def numbered_rows(path: Path, omissions: Omissions) -> Iterator[tuple[int, str, Any]]:
    """Yield the number of each line or row, where it stands, and what it holds; a line that is no JSON is left out."""
    if path.suffix.lower() not in JSON_LINES:
        for number, row in enumerate(row for whole in rows_of(path) for row in _unwrapped(whole)):
            yield number, f"{path}: row {number}", whole(row)
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path}: line {number}"
            if line.strip():
                try:
                    row = json.loads(line)
                except UnicodeDecodeError as error:
                    omissions.leave_out(where, f"is not UTF-8 text ({error})")
                except (ValueError, RecursionError) as error:
                    omissions.leave_out(where, f"is not JSON: {error}")
                else:
                    yield number, where, whole(row) if b"\\u" in line else row


def _unwrapped(row: Any) -> list[Any]:
    """Return the rows of an object that has nothing but a list of them, as queries reply; else the row itself."""
    if isinstance(row, dict) and "messages" not in row:
        for key in ("runs", "data"):
            if isinstance(row.get(key), list):
                listed: list[Any] = row[key]
                return listed
    return [row]


def _messages_of(row: Any, number: int, where: str, omissions: Omissions) -> Iterator[Logged]:
    """Yield the messages of a line. Raises ValueError."""
    if not isinstance(row, dict):
        raise ValueError("must be an object")
    if isinstance(row.get("mapping"), dict):
        yield from _with_times(_of_chatgpt(row, number, where, omissions), time_of(row, TIMES))
    elif "messages" in row:
        about = _about(row)
        yield from _with_times(_of_conversation(row, about, number, where, omissions), time_of(about, TIMES))
    elif (message := message_of(row, About(where, str(number)), omissions)) is not None:
        yield message


def _with_times(messages: Iterable[Logged], begun: str) -> Iterator[Logged]:
    """Yield a conversation's messages; those before the first with a time of its own have that of the conversation.

    Later ones without a time stay without: they were said after the one before, not when the conversation began.
    """
    for message in messages:
        begun = "" if message.time else begun
        yield replace(message, time=message.time or begun)


def _about(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row says of its conversation as a whole."""
    metadata = row.get("metadata") if isinstance(row.get("metadata"), dict) else {}
    return {**(metadata or {}), **{name: value for name, value in row.items() if name != "messages"}}


def _of_conversation(
    row: Mapping[str, Any], about: Mapping[str, Any], number: int, where: str, omissions: Omissions
) -> Iterator[Logged]:
    """Yield the messages of a row that has a whole conversation in ``messages``."""
    talk = text_of(about, TALKS) or text_of(about, IDS) or f"conversation {number}"
    user = text_of(about, USERS)
    if not isinstance(row["messages"], list):
        raise ValueError("messages: must be a list")
    for place, message in enumerate([*row["messages"], *_replied(row)]):
        there = f"{where}, message {place}"
        try:
            if not isinstance(message, dict):
                raise ValueError("must be an object")
            logged = message_of(message, About(there, f"{number}.{place}", talk, user), omissions)
        except ValueError as error:
            omissions.leave_out(there, str(error))
        else:
            if logged is not None:
                yield logged


def _replied(row: Mapping[str, Any]) -> list[Any]:
    """Return the reply to a row's messages, where the row is a request with its reply."""
    match row.get("choices"):
        case [{"message": dict(message)}, *_]:
            reply = {"role": "assistant", **message}
            told = [(last.get("role"), last.get("content")) for last in row["messages"][-1:] if isinstance(last, dict)]
            return [] if (reply["role"], reply.get("content")) in told else [reply]
    return []


def _of_chatgpt(row: Mapping[str, Any], number: int, where: str, omissions: Omissions) -> Iterator[Logged]:
    """Yield the messages of a conversation that ChatGPT exported: those of the branch that was shown last."""
    nodes = row["mapping"]
    talk = text_of(row, ("conversation_id", "id")) or f"conversation {number}"
    for place, (name, message) in enumerate(_branch(row, nodes)):
        there = f"{where}, message {place}"
        try:
            logged = _of_node(message, About(there, name, talk, "user"), omissions)
        except ValueError as error:
            omissions.leave_out(there, str(error))
        else:
            if logged is not None:
                yield logged


def _of_node(message: Mapping[str, Any], about: About, omissions: Omissions) -> Logged | None:
    author, content = message.get("author"), message.get("content")
    role = author.get("role") if isinstance(author, dict) else None
    if not isinstance(content, dict):
        raise ValueError("content: must be an object")
    is_text = content.get("content_type", "text") in ("text", "multimodal_text")
    if not is_text or message.get("recipient", "all") != "all":  # thoughts, calls of tools, and the like
        omissions.pass_over("messages of systems and tools")
        return None
    plain = {"id": message.get("id"), "role": role, "content": content.get("parts"), "time": message.get("create_time")}
    return message_of(plain, about, omissions)


def _branch(row: Mapping[str, Any], nodes: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the messages from the root to the node that was shown last; without one, to the last node."""
    name = row.get("current_node") or next(reversed([*nodes]), None)
    branch, seen = list[tuple[str, Mapping[str, Any]]](), set[str]()
    while isinstance(name, str) and name in nodes and name not in seen:
        seen.add(name)
        node = nodes[name]
        if not isinstance(node, dict):
            raise ValueError(f"mapping: {name}: must be an object")
        if isinstance(node.get("message"), dict):
            branch.append((name, node["message"]))
        name = node.get("parent")
    return branch[::-1]

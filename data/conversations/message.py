"""A message of a log, read from an object in whatever words logs use for its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..thoughts import without_thoughts
from .omissions import Omissions
from .task import Role
from .times import time_of

ROLES: Mapping[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}
NOBODY = frozenset({"system", "developer", "tool", "function"})
"""Roles whose messages nobody says."""
TEXTS = ("content", "text", "message")
IDS = ("id", "message_id")
TIMES = ("time", "timestamp", "created_at", "create_time", "created")
TALKS = ("conversation", "conversation_id", "session", "session_id", "thread", "thread_id", "chat_id")
USERS = ("user", "user_id")
SPEAKERS = ("speaker", "name")


@dataclass(frozen=True, slots=True)
class Logged:
    """A message of a log."""

    id: str
    where: str
    """The file and the line, or the row."""
    text: str
    role: Role
    speaker: str = ""
    time: str = ""
    """As ISO 8601; empty where it is not known."""
    talk: str = ""
    """The conversation that it belongs to; empty where the log does not say."""
    user: str = ""
    """Whose memory it is; empty where the log does not say."""
    has_id: bool = True
    """Whether the log gives the id; else it is where the message stands."""


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a message besides what it says itself."""

    where: str
    """The file and the line, or the row."""
    id: str
    talk: str = ""
    user: str = ""
    time: str = ""


def message_of(row: Mapping[str, Any], about: About, omissions: Omissions) -> Logged | None:
    """Return the message of an object; None where nobody says it, or it says nothing. Raises ValueError.

    ``about`` stands in for what the message does not say itself. Thoughts at the start of a reply are left out.
    """
    speaker = text_of(row, SPEAKERS)
    role = _role(row, speaker)
    if role is None:
        omissions.pass_over("messages of systems and tools")
        return None
    text = said(first_of(row, TEXTS))
    text = without_thoughts(text) if role == "assistant" else text
    if not text.strip():
        omissions.pass_over("messages without a text")
        return None
    name = text_of(row, IDS)
    return Logged(
        id=name or about.id,
        has_id=bool(name),
        where=about.where,
        text=text,
        role=role,
        speaker=speaker if role == "user" else "",
        time=time_of(row, TIMES, about.time),
        talk=text_of(row, TALKS) or about.talk,
        user=text_of(row, USERS) or about.user,
    )


def _role(row: Mapping[str, Any], speaker: str) -> Role | None:
    """Return who says a message; None for a system or a tool. Raises ValueError."""
    given = row.get("role", row.get("type"))
    if given is None:
        if not speaker:
            raise ValueError("role: must be `user` or `assistant`; or name the speaker in `speaker`")
        return "user"
    if isinstance(given, str) and given in NOBODY:
        return None
    if not isinstance(given, str) or given not in ROLES:
        raise ValueError(f"role: {str(given)[:60]!r} is neither user nor assistant")
    return ROLES[given]


def said(content: Any) -> str:
    """Return the text of a message's content: a text, or the texts among its parts. Raises ValueError."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "\n".join(part for part in parts if isinstance(part, str) and part)
    raise ValueError(f"{TEXTS[0]}: must be a text or a list of parts")


def first_of(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return the first of these fields that is there; None where none is."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def text_of(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first of these fields that is there, as text. Raises ValueError where it is no text or number."""
    for name in names:
        value = row.get(name)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, str | int):
                raise ValueError(f"{name}: must be a text")
            return str(value)
    return ""

"""Chat logs as histories: messages in sessions by user, and questions of one's own on them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ..task import TaskError
from .logs import numbered_rows, read_logs
from .message import Logged
from .omissions import Omissions, field_of
from .task import ABSTENTION, ConversationTask, Question, Session, Utterance
from .times import seconds_between, time_of

PAUSE_S = 4 * 3600
"""Silence after which a new session begins."""
By = Literal["user", "conversation"]


@dataclass(slots=True)
class History:
    """What is known of one memory's messages."""

    group: str
    sessions: tuple[Session, ...]
    users: frozenset[str]
    """Whose messages it has."""
    places: Mapping[str, int]
    """The session of each message, by the message's id."""


def read_histories(path: Path, omissions: Omissions, *, by: By = "user") -> list[History]:
    """Return the histories of a log, in the order in which their first messages come. Raises TaskError.

    ``by`` says what has a memory of its own: each user, or each conversation of a user. A message that names no user is
    of whom its conversation is; where nobody is named in it, the conversation is a user.
    """
    messages = _with_ids_of_their_own([*_with_users(read_logs(path, omissions))], omissions)
    if not messages:
        why = f"; {omissions.broken[0]}" if omissions.broken else ""
        raise TaskError(f"{path}: has no message that somebody says{why}")
    users = _users_of_talks(messages)
    talks: dict[str, dict[str, list[Logged]]] = {}
    for message in messages:
        group = _group(message, users[message.talk] if message.talk else set(), by)
        talks.setdefault(group, {}).setdefault(message.talk, []).append(message)
    return [_history(group, by_talk) for group, by_talk in talks.items()]


def _with_users(messages: Iterable[Logged]) -> Iterator[Logged]:
    """Yield messages; a reply that names neither user nor conversation is to whom the line before it is."""
    last = ""
    for message in messages:
        if message.role == "assistant" and not message.user and not message.talk:
            message = replace(message, user=last)
        last = message.user or last
        yield message


def _with_ids_of_their_own(messages: Sequence[Logged], omissions: Omissions) -> list[Logged]:
    """Return messages with distinct ids.

    Those that several conversations have are ``CONVERSATION/ID``, or ``USER/ID`` where there are no conversations, and
    ``USER/CONVERSATION/ID`` where several users have a conversation of that name. Where a message without an id stands
    is ``line ID`` if another has that id. What has the id of another message of its conversation is left out.
    """
    given = {message.id for message in messages if message.has_id}
    messages = [m if m.has_id else replace(m, id=_free_name(m.id, given)) for m in messages]
    users = _users_of_talks(messages)
    owners: dict[str, set[tuple[str, str]]] = {}
    for message in messages:
        owners.setdefault(message.id, set()).add(_owner(message, users))
    firsts: dict[str, str] = {}
    kept = list[Logged]()
    for message in messages:
        if len(owners[message.id]) > 1:
            message = replace(message, id=_distinct(message, owners[message.id], _owner(message, users)))
        first = firsts.setdefault(message.id, message.where)
        if first != message.where:
            omissions.leave_out(message.where, f"id: {message.id!r} is that of {first} too; ids must be distinct")
            continue
        kept.append(message)
    return kept


def _free_name(name: str, taken: Container[str]) -> str:
    """Return the name of what has none, from where it stands: ``12``, or ``line 12`` where something has that name."""
    while name in taken:
        name = f"line {name}"
    return name


def _users_of_talks(messages: Iterable[Logged]) -> dict[str, set[str]]:
    """Return who is named in each conversation."""
    users: dict[str, set[str]] = {}
    for message in messages:
        users.setdefault(message.talk, set()).update([message.user] if message.user else [])
    return users


def _owner(message: Logged, users: Mapping[str, Set[str]]) -> tuple[str, str]:
    """Return whose a message is, and its conversation; in a conversation of one user all messages are that user's."""
    named = users[message.talk]
    return (next(iter(named)) if message.talk and len(named) == 1 else message.user), message.talk


def _distinct(message: Logged, owners: Set[tuple[str, str]], owner: tuple[str, str]) -> str:
    user, talk = owner
    several = sum(other == talk for _, other in owners) > 1
    return "/".join(part for part in (user if several else "", talk, message.id) if part)


def _group(message: Logged, users: Set[str], by: By) -> str:
    """Return whose memory a message is of, where its conversation has messages of these users."""
    user = message.user or (next(iter(users)) if len(users) == 1 else "")
    if by == "user" or not message.talk:
        return user or message.talk or "user"
    return f"{user} {message.talk}" if user and len(users) > 1 else message.talk


def _history(group: str, talks: Mapping[str, list[Logged]]) -> History:
    timed, last = list[tuple[str, list[Logged]]](), ""
    for part in (part for messages in talks.values() for part in _parted(messages)):
        last = next((message.time for message in part if message.time), last)  # else it is where the file has it
        timed.append((last, part))
    parts = [part for _, part in sorted(timed, key=lambda pair: pair[0])]
    sessions, places = list[Session](), dict[str, int]()
    for stage, part in enumerate(parts):
        spoken = (Utterance(m.id, m.text, m.role, m.speaker, m.time) for m in part)
        sessions.append(Session(f"{part[0].talk or 'session'} {stage}", tuple(spoken)))
        places.update((message.id, stage) for message in part)
    return History(group, tuple(sessions), frozenset(m.user for part in parts for m in part), places)


def _parted(messages: Iterable[Logged]) -> Iterator[list[Logged]]:
    """Yield a conversation's messages in the order of their times, parted at long pauses."""
    timed, last = list[tuple[str, Logged]](), ""
    for message in messages:
        last = message.time or last
        timed.append((last, message))  # a message without a time is said after the one before it
    timed.sort(key=lambda pair: pair[0])
    part, last = list[Logged](), ""
    for time, message in timed:
        if part and last and time and seconds_between(last, time) > PAUSE_S:
            yield part
            part = []
        part.append(message)
        last = time or last
    yield part


def read_questions(path: Path, histories: Iterable[History], omissions: Omissions) -> dict[str, list[Question]]:
    """Return questions of one's own by group; one that cannot be asked is left out. Raises TaskError."""
    by_group = {history.group: history for history in histories}
    asked: dict[str, list[tuple[str, Question]]] = {}
    given: dict[str, str] = {}
    for number, where, row in numbered_rows(path, omissions):
        try:
            group, question = _question(row, by_group)
            if question.id and (first := given.setdefault(question.id, where)) != where:
                raise ValueError(f"id: {question.id!r} is that of {first} too; ids must be distinct")
        except ValueError as error:
            omissions.leave_out(where, str(error))
        else:
            asked.setdefault(group, []).append((str(number), question))
    if not asked:
        why = f"; {omissions.broken[-1]}" if omissions.broken else ""
        raise TaskError(f"{path}: has no question that can be asked{why}")
    return {
        group: [q if q.id else replace(q, id=_free_name(number, given)) for number, q in each]
        for group, each in asked.items()
    }


FIELDS = ("id", "question", "answer", "evidence", "user", "kind", "time", "after", "reworded")
"""Of a question of one's own."""


def _question(row: Any, histories: Mapping[str, History]) -> tuple[str, Question]:
    """Return a question, its id empty where it has none, and the group that it is asked. Raises ValueError."""
    text = field_of(row, "question", str, "a text")
    if unknown := sorted(row.keys() - {*FIELDS}):
        raise ValueError(f"{unknown[0]}: is no field of a question; there are {', '.join(FIELDS)}")
    if not text.strip():
        raise ValueError("question: is empty")
    answers = _answers(row.get("answer"))
    evidence = row.get("evidence", [])
    listed = [evidence] if isinstance(evidence, str | int) else evidence
    if not isinstance(listed, list) or not all(isinstance(part, str | int) for part in listed):
        raise ValueError("evidence: must be a list of the ids of messages")
    ids = tuple(dict.fromkeys(map(str, listed)))
    if answers and not ids:
        raise ValueError("evidence: name the messages that have the answer; without an `answer`, nothing has it")
    history = _asked(row.get("user"), ids, histories)
    after = row.get("after")
    stage = max([_stage(history, str(part), "evidence") for part in ids], default=0)
    last = len(history.sessions) - 1
    stage = last if after is None else max(stage, _stage(history, str(after), "after"))
    kind = str(row.get("kind") or ("" if answers else ABSTENTION))
    when = time_of(row, ["time"])
    reworded = str(row.get("reworded") or "")
    name = "" if row.get("id") is None else str(row["id"])
    return history.group, Question(name, text, answers, ids if answers else (), stage, kind, when, reworded)


def _answers(given: Any) -> tuple[str, ...]:
    listed = given if isinstance(given, list) else [] if given is None else [given]
    if not all(isinstance(answer, str | int | float) and str(answer).strip() for answer in listed):
        raise ValueError("answer: must be a text, or a list of texts any of which is right; null where there is none")
    return tuple(str(answer) for answer in listed)


def _asked(user: Any, evidence: Iterable[str], histories: Mapping[str, History]) -> History:
    """Return the history that a question is about: that of its evidence, or its user's only one. Raises ValueError."""
    named = [history for history in histories.values() if user is None or str(user) in (history.group, *history.users)]
    if not named:
        raise ValueError(f"user: there is no {str(user)[:60]!r} in the chat")
    for name in evidence:
        for history in named:
            if name in history.places:
                return history
        whose = "" if user is None else f" of {str(user)[:60]}"
        shared = any(place.endswith(f"/{name}") for history in named for place in history.places)
        hint = "; several have it, so write CONVERSATION/ID, USER/ID or USER/CONVERSATION/ID" if shared else ""
        raise ValueError(f"evidence: no message{whose} has the id {name[:60]!r}{hint}")
    if len(named) > 1:
        raise ValueError("user: say whose memory is asked, the user or the conversation")
    return named[0]


def _stage(history: History, name: str, of: str) -> int:
    if name not in history.places:
        raise ValueError(f"{of}: no message of {history.group} has the id {name[:60]!r}")
    return history.places[name]


def task_of(history: History, questions: Iterable[Question]) -> ConversationTask:
    """Return a history as a task with its questions, in the order in which they are asked."""
    ordered = sorted(questions, key=lambda question: question.stage)
    return ConversationTask(history.group, history.group, history.sessions, tuple(ordered))

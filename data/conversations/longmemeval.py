"""LongMemEval's rows: each a question, and the sessions of a user and an assistant before it (Wu et al., ICLR 2025)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..row_files import rows_of
from .omissions import Omissions, field_of, text_of_field
from .task import ABSTENTION, ConversationTask, Question, Role, Session, Utterance
from .times import time_of

ABSTAINS = "_abs"
"""What the ids of questions end with that nothing which was said answers."""


def read_longmemeval(path: Path, omissions: Omissions) -> Iterator[ConversationTask]:
    """Yield the histories of an oracle, S or M file, one after another, as they are large. Raises TaskError."""
    for number, row in enumerate(rows_of(path)):
        where = f"{path}: row {number}"
        try:
            task = history_of(row)
        except ValueError as error:
            name = row.get("question_id") if isinstance(row, dict) else None
            omissions.leave_out(f"{where} ({name})" if isinstance(name, str) else where, str(error))
        else:
            yield task


def history_of(row: Any) -> ConversationTask:
    """Read one row. Raises ValueError naming the field."""
    name = field_of(row, "question_id", str, "the question's name")
    talks = field_of(row, "haystack_sessions", list, "a list of sessions")
    dates = field_of(row, "haystack_dates", list, "a list of the sessions' times")
    names = field_of(row, "haystack_session_ids", list, "a list of the sessions' names")
    if not len(talks) == len(dates) == len(names):
        raise ValueError("haystack_sessions, haystack_dates and haystack_session_ids must be of the same length")
    times = [time_of({"haystack_dates": date}, ["haystack_dates"]) for date in dates]
    timed = sorted(zip(times, names, talks, strict=True), key=lambda session: session[0])
    sessions, evidence = list[Session](), list[str]()
    for time, session, talk in timed:
        if not isinstance(talk, list):
            raise ValueError("haystack_sessions: must be a list of lists of turns")
        utterances = tuple(_utterances(talk, time, place=len(sessions), evidence=evidence))
        if utterances:
            sessions.append(Session(str(session), utterances))
    if not sessions:
        raise ValueError("haystack_sessions: nobody says anything")
    question = _question(name, row, evidence, last=len(sessions) - 1)
    return ConversationTask(name, name.removesuffix(ABSTAINS), tuple(sessions), (question,))


def _utterances(talk: list[Any], time: str, *, place: int, evidence: list[str]) -> Iterator[Utterance]:
    """Yield what is said in a session, and add the ids of what has the answer to ``evidence``."""
    for number, turn in enumerate(talk):
        role: Role = field_of(turn, "role", str, "`user` or `assistant`")
        if role not in ("user", "assistant"):
            raise ValueError(f"role: {role!r} is neither user nor assistant")
        text = field_of(turn, "content", str, "what was said")
        if text.strip():
            utterance = Utterance(f"{place}:{number}", text, role, time=time)
            if turn.get("has_answer"):
                evidence.append(utterance.id)
            yield utterance


def _question(name: str, row: Any, evidence: list[str], *, last: int) -> Question:
    text = text_of_field(row, "question")
    kind = field_of(row, "question_type", str, "the kind of question").replace("-", " ")
    time = time_of(row, ["question_date"])
    if name.endswith(ABSTAINS):
        return Question(name, text, (), (), last, ABSTENTION, time)
    if not evidence:
        raise ValueError("haystack_sessions: no turn has the answer (`has_answer`)")
    answer = text_of_field(row, "answer")
    return Question(name, text, (answer,), tuple(evidence), last, kind, time)

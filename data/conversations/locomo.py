"""LoCoMo's conversations: two people talk over months (Maharana et al., ACL 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..row_files import rows_of
from .omissions import Omissions, field_of, text_of_field
from .task import ABSTENTION, ConversationTask, Question, Session, Utterance
from .times import time_of

KINDS = {1: "several turns", 2: "time", 3: "open", 4: "one turn", 5: ABSTENTION}
"""The kinds of questions by their category."""
_SESSION = "session_"
_TIME = "_date_time"


def read_locomo(path: Path, omissions: Omissions) -> Iterator[ConversationTask]:
    """Yield the conversations of ``locomo10.json``, each a group; all is asked at the end. Raises TaskError."""
    for number, row in enumerate(rows_of(path)):
        where = f"{path}: row {number}"
        try:
            task = conversation_of(row, omissions, where=where)
        except ValueError as error:
            omissions.leave_out(where, str(error))
        else:
            yield task


def conversation_of(row: Any, omissions: Omissions, *, where: str = "row") -> ConversationTask:
    """Read one conversation. Raises ValueError naming the field; a question that cannot be asked is left out."""
    name = field_of(row, "sample_id", str, "the conversation's name")
    talk = field_of(row, "conversation", dict, "an object of sessions")
    keys = sorted((key for key, turns in talk.items() if _is_session(key, turns)), key=lambda key: int(key[8:]))
    sessions = tuple(_session(key, talk) for key in keys if talk[key])
    if not sessions:
        raise ValueError("conversation: has no session")
    known = {utterance.id for session in sessions for utterance in session.utterances}
    questions = list[Question]()
    for place, asked in enumerate(field_of(row, "qa", list, "a list of questions")):
        try:
            questions.append(_question(place, asked, known, last=len(sessions) - 1))
        except ValueError as error:
            omissions.leave_out(f"{where} ({name}): qa {place}", str(error))
    return ConversationTask(name, name, sessions, tuple(questions))


def _is_session(key: str, turns: Any) -> bool:
    return isinstance(turns, list) and key.startswith(_SESSION) and key[len(_SESSION) :].isdecimal()


def _session(key: str, talk: dict[str, Any]) -> Session:
    time = time_of(talk, [f"{key}{_TIME}"])
    return Session(key, tuple(_utterance(turn, time) for turn in talk[key]))


def _utterance(turn: Any, time: str) -> Utterance:
    return Utterance(
        id=field_of(turn, "dia_id", str, "the turn's id"),
        text=field_of(turn, "text", str, "what was said"),
        speaker=field_of(turn, "speaker", str, "who spoke"),
        time=time,
        picture=str(turn.get("blip_caption") or ""),
    )


def _question(place: int, asked: Any, known: set[str], *, last: int) -> Question:
    category = field_of(asked, "category", int, "a number from 1 to 5")
    if category not in KINDS:
        raise ValueError("category: must be a number from 1 to 5")
    text = text_of_field(asked, "question")
    if KINDS[category] == ABSTENTION:  # its evidence tells of somebody else
        return Question(str(place), text, (), (), last, ABSTENTION)
    answer = text_of_field(asked, "answer")
    listed = " ".join(map(str, field_of(asked, "evidence", list, "a list of the ids of turns")))
    evidence = [name for name in dict.fromkeys(listed.replace(";", " ").split()) if name in known]
    if not evidence:
        raise ValueError("evidence: names no turn of the conversation")
    return Question(str(place), text, (answer,), tuple(evidence), last, KINDS[category])

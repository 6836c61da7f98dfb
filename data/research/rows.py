"""Rows of research tasks: this package's own, and MemGym's ``MemGymIRInstance``, whose columns vary."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from ..foreign import cleaned, parsed
from ..record import Record, first_problem
from ..task import TaskError
from ..task_files import is_ours, task_in
from .task import SUBJECT, Claim, Document, Hop, ResearchTask, Turn, same_value, states

TRACK = "research"
_log = logging.getLogger(__name__)
_PLACEHOLDER = r"#([0-9]{1,2})\b"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


class _Part(Record):
    """A part of a row, of which more may be there than is read."""

    model_config = ConfigDict(extra="ignore")


class _Document(_Part):
    title: str = ""
    text: str = ""
    is_supporting: bool = False


class _Turn(_Part):
    sub_query: str = ""
    sub_answer: str = ""
    documents: Annotated[list[_Document], BeforeValidator(parsed)] = []
    is_red_herring: bool = False


class _SubQuestion(_Part):
    sub_question: str = ""
    sub_answer: str = ""


class _Fact(_Part):
    content: str = ""
    intermediate_answer: str = ""
    fact_type: str = "fact"


class _Distractor(_Part):
    content: str = ""


class _Row(_Part):
    """What is read of a ``MemGymIRInstance``."""

    instance_id: str = Field(min_length=1)
    base_instance: str = ""
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    decomposition: Annotated[list[_SubQuestion], BeforeValidator(parsed)] = []
    turns: Annotated[list[_Turn], BeforeValidator(parsed)] = Field(min_length=1)
    grounding_facts: Annotated[list[_Fact], BeforeValidator(parsed)] = []
    distractors: Annotated[list[_Distractor], BeforeValidator(parsed)] = []
    memory_files: Annotated[dict[str, str], BeforeValidator(parsed)] = {}


def task_of(row: Any, *, where: str) -> ResearchTask:
    """Return the task of a row. Raises TaskError naming the place, the task and the field."""
    if not isinstance(row, Mapping):
        raise TaskError(f"{where}: must be an object, one research task")
    if is_ours(row):
        return _checked(task_in(row, ResearchTask, track=TRACK, where=where, strict=True), where)
    name = str(row.get("instance_id") or "")
    place = f"{where} ({name})" if name else where
    try:
        return _checked(_task(_Row.model_validate(cleaned(row)), place), place)
    except ValidationError as error:
        raise TaskError(f"{place}: {first_problem(error, whole='row')}") from None
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, TaskError) else TaskError(f"{place}: {error}") from None


def _checked(task: ResearchTask, where: str) -> ResearchTask:
    """Return a task whose parts fit together. Raises TaskError naming the field."""
    if not task.hops or not task.turns:
        raise TaskError(f"{where}: {'turns' if task.hops else 'hops'}: none")
    documents, turns = range(len(task.documents)), range(len(task.turns))
    for place, turn in enumerate(task.turns):
        if any(document not in documents for document in (*turn.documents, *turn.notices)):
            raise TaskError(f"{where}: turns.{place}.documents: names a document that is not there")
        if turn.hop is not None and turn.hop not in range(len(task.hops)):
            raise TaskError(f"{where}: turns.{place}.hop: there is no hop {turn.hop}")
    for place, hop in enumerate(task.hops):
        times = [claim.turn for claim in hop.claims]
        if not times or times != sorted(set(times)) or not set(times) <= set(turns):
            raise TaskError(f"{where}: hops.{place}.claims: must be in the order of the turns that bring them")
        if any(claim.document not in documents for claim in hop.claims):
            raise TaskError(f"{where}: hops.{place}.claims: names a document that is not there")
        if any(not claim.value.strip() for claim in hop.claims):
            raise TaskError(f"{where}: hops.{place}.claims: an answer is empty")
    if [hop.turn for hop in task.hops] != sorted(hop.turn for hop in task.hops):
        raise TaskError(f"{where}: hops: must be in the order of their turns")
    return task


def _task(row: _Row, where: str) -> ResearchTask:
    documents, hops, turns = list[Document](), list[Hop](), list[Turn]()
    turns_answer = any(turn.sub_answer.strip() for turn in row.turns)
    for place, turn in enumerate(row.turns):
        start = len(documents)
        documents += _documents(row, turn, place)
        places = tuple(range(start, len(documents)))
        number = len(hops)
        step = row.decomposition[number] if number < len(row.decomposition) else _SubQuestion()
        answer = turn.sub_answer if turns_answer else step.sub_answer
        if turn.is_red_herring or not answer.strip():
            turns.append(Turn(turn.sub_query, places))
            continue
        if not places:
            raise TaskError(f"{where}: turns.{place}.documents: none, so that nothing states {answer!r}")
        if not any(states(documents[each].text, answer) for each in places):
            _log.warning("%s: turns.%d.documents: none states the answer %r", where, place, answer)
        question = _about_subject(step.sub_question or turn.sub_query, hops)
        hops.append(Hop(question, _reworded(question), "bridge", (_claim(row, answer, place, documents, places),)))
        turns.append(Turn(_about_subject(turn.sub_query or step.sub_question, hops[:-1]), places, number))
    if not hops or not same_value(row.answer, hops[-1].claims[0].value):
        last = len(turns) - 1
        if not documents:
            raise TaskError(f"{where}: turns: bring no document")
        claim = _claim(row, row.answer, last, documents, turns[-1].documents or range(len(documents)))
        hops.append(Hop(row.question, _reworded(row.question), "terminal", (claim,)))
    known = {document.text for document in documents}
    texts = dict.fromkeys(each.content for each in row.distractors if each.content and each.content not in known)
    documents += [Document("", text) for text in texts]
    group = row.base_instance or row.instance_id
    return ResearchTask(row.instance_id, group, row.question, row.answer, tuple(documents), tuple(hops), tuple(turns))


def _documents(row: _Row, turn: _Turn, place: int) -> Iterator[Document]:
    """Yield what a turn brings; files stand in for documents where the row has only these."""
    for document in turn.documents:
        yield Document(document.title, document.text, document.is_supporting)
    text = "" if turn.documents else row.memory_files.get(f"search_results_turn_{place}.txt", "")
    if text.strip():
        yield Document(f"search results {place}", text, states(text, turn.sub_answer))


def _about_subject(text: str, hops: Sequence[Hop]) -> str:
    """Return a question with ``SUBJECT`` in the place of the answer before, which may be given as ``#1``."""
    answers = [hop.claims[-1].value.strip() for hop in hops]
    last = answers[-1] if answers else ""

    def filled(match: re.Match[str]) -> str:
        number = int(match[1] or len(answers))
        known = answers[number - 1] if 1 <= number <= len(answers) else match[0]
        return SUBJECT if number == len(answers) else known

    as_it_stands = rf"|(?<!\w){re.escape(last)}(?!\w)" if last else ""
    return re.sub(_PLACEHOLDER + as_it_stands, filled, text, flags=re.IGNORECASE)


def _reworded(question: str) -> str:
    return f"Please answer this from what was read: {question}"


def _claim(row: _Row, value: str, turn: int, documents: Sequence[Document], places: Sequence[int]) -> Claim:
    """Return where an answer stands among a turn's documents, supporting ones first, and the sentence that has it."""
    ranked = sorted(places, key=lambda i: (not states(documents[i].text, value), not documents[i].supporting))
    document = ranked[0]
    given = [fact.content for fact in row.grounding_facts if same_value(fact.intermediate_answer, value)]
    given += [fact.content for fact in row.grounding_facts if states(fact.content, value)]
    stated = [part for part in _SENTENCE_END.split(documents[document].text) if states(part, value)]
    return Claim(value, next((text for text in (*given, *stated) if text.strip()), value), turn, document)

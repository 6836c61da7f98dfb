"""Read MemGym's rows of code questions: ``CodingQAInstance``, and the older ``MemGymInstance`` without questions."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from ..chunks import MOST_CHUNK_TOKENS, chunks
from ..foreign import cleaned
from ..record import Record, first_problem
from ..task import Check, Fact, TaskError
from .task import CodeTask, tokens_of
from .tree import HEADER_TOKENS

MOST_STAGES = 3
"""Batches of files, as in MemGym's protocol of evicted documents."""
LEAST_STATED = 0.4
"""Share of a fact's words from which on a text states it, as in MemGym."""
SHORTEST_WORD = 5
"""Letters of a word that counts."""

_log = logging.getLogger(__name__)
_IDENTIFIER = re.compile(r"`([^`]+)`|\b(\w+_\w+|[A-Za-z]+[a-z][A-Z]\w*)\b")
_REVISION = re.compile(r"(-\d+|\.[0-9a-f]{8}\..*)$")


class _Row(Record):
    """A part of a row; fields that are not used here are no error."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Grounding(_Row):
    id: str = Field(min_length=1)
    content: str
    category: str
    discoverable: bool
    relevance: str


class _Distractor(_Row):
    content: str
    target_qa_id: str | None = None


class _Question(_Row):
    qa_id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    linked_fact_ids: list[str]


class MemGymRow(_Row):
    """What is used of a row."""

    instance_id: str = Field(min_length=1)
    base_instance: str = Field(min_length=1)
    memory_files: dict[str, str] = Field(min_length=1)
    repo_files: dict[str, str] = Field(default_factory=dict)
    grounding_facts: list[_Grounding]
    distractors: list[_Distractor] = Field(default_factory=list)
    qa_pairs: list[_Question] = Field(default_factory=list)


def task_of(values: Any, *, where: str) -> CodeTask | str:
    """Return the task of a row, or why it has none. Raises TaskError naming the row and the field.

    Memory meets the documents and the files of the repository in up to three batches; all is asked at the end. A row
    without questions is asked what its documents say on each name that its critical facts are about.
    """
    try:
        row = MemGymRow.model_validate(cleaned(values))
    except ValidationError as error:
        raise TaskError(f"{where}: {first_problem(error, whole='row')}") from None
    twice = [name for name, count in Counter(pair.qa_id for pair in row.qa_pairs).items() if count > 1]
    if twice:
        raise TaskError(f"{where}: qa_pairs: two questions have the qa_id {twice[0]!r}")
    return _Conversion(row, where).task()


def stated(text: str, content: str) -> float:
    """Return the share of the words of a fact that stand in a text, those of five letters or more, in [0, 1].

    Where a fact has no such word, all of its words count.
    """
    return _share(_words(text), content)


class _Conversion:
    """A row on its way to a task."""

    def __init__(self, row: MemGymRow, where: str) -> None:
        self._row, self._where = row, where
        count = min(MOST_STAGES, len(row.memory_files))
        documents, files = _batches(row.memory_files, count), _batches(row.repo_files, count)
        self._read = [[*first, *then] for first, then in zip(documents, files, strict=True)]
        self._texts = [(stage, text, _words(text)) for stage, batch in enumerate(self._read) for text in batch]
        told = ((fact, self._best_place(fact.content)) for fact in row.grounding_facts)
        self._told = {fact.id: (fact, *place) for fact, place in told if place is not None}

    def task(self) -> CodeTask | str:
        """Return the task, or why there is none."""
        asked, reasons = {}, []
        for name, question, needs in self._questions():
            reason = self._rejection(name, question, needs)
            if reason is None:
                asked[name] = (question, needs)
            else:
                reasons.append(f"{name}: {reason}")
        if not asked:
            return "; ".join(reasons) or "has no question, nor a critical fact on something with a name"
        for reason in reasons:
            _log.warning("%s: a question is left out: %s", self._where, reason)
        return self._made(asked)

    def _made(self, asked: Mapping[str, tuple[str, Sequence[str]]]) -> CodeTask:
        last = len(self._read) - 1
        needed = {fact for _, needs in asked.values() for fact in needs}
        told = {name: each for name, each in self._told.items() if name in needed}
        return CodeTask(
            id=self._row.instance_id,
            group=_REVISION.sub("", self._row.base_instance) or self._row.base_instance,
            observations=tuple(map(tuple, self._read)),
            facts={
                name: Fact(name, name, fact.category, fact.content, stage, sources=(text,))
                for name, (fact, stage, text) in told.items()
            },
            checks={
                f"{last}.{name}": Check(f"{last}.{name}", name, last, tuple(dict.fromkeys(needs)), 0.0, question)
                for name, (question, needs) in asked.items()
            },
            questions={},
            values={name: fact.content for name, (fact, _, _) in told.items()},
            distractors={name: self._distractors(name) for name in asked},
            external=tuple(name for name, (fact, _, _) in told.items() if not fact.discoverable),
            critical=tuple(name for name, (fact, _, _) in told.items() if fact.relevance == "critical"),
            literal=False,
            tokens=sum(tokens_of(text) for batch in self._read for text in batch),
        )

    def _questions(self) -> Iterator[tuple[str, str, list[str]]]:
        """Yield the id and the text of each question, and the facts that it needs."""
        for pair in self._row.qa_pairs:
            yield pair.qa_id, pair.question, pair.linked_fact_ids
        if not self._row.qa_pairs:
            about: dict[str, list[str]] = {}
            for fact in self._row.grounding_facts:
                named = _IDENTIFIER.search(fact.content)
                if fact.relevance == "critical" and fact.id in self._told and named is not None:
                    about.setdefault(named[1] or named[2], []).append(fact.id)
            for name, facts in about.items():
                yield name, f"What do the documents say about `{name}`?", facts

    def _rejection(self, name: str, question: str, needs: Sequence[str]) -> str | None:
        """Return why a question is not asked; None where it is."""
        known = {fact.id for fact in self._row.grounding_facts}
        if not needs or set(needs) - known:
            return f"is linked to no fact of the row ({', '.join(needs) or 'none'})"
        if set(needs) - self._told.keys():
            return f"unsolvable: no text states {', '.join(sorted(set(needs) - self._told.keys()))}"
        contents = [self._told[fact][0].content for fact in needs]
        if any(stated(text, content) == 1 for text in self._distractors(name) for content in contents):
            return "confusable: a distractor states what is asked for"
        return "leaky: the question states it" if any(stated(question, c) >= LEAST_STATED for c in contents) else None

    def _distractors(self, name: str) -> tuple[str, ...]:
        return tuple(each.content for each in self._row.distractors if each.target_qa_id in {None, name})

    def _best_place(self, content: str) -> tuple[int, str] | None:
        """Return the first batch, and its text, that states most of a fact; None where none states it."""
        share, stage, text = max(
            ((_share(words, content), -stage, text) for stage, text, words in self._texts),
            key=lambda place: place[:2],
            default=(0.0, 0, ""),
        )
        return (-stage, text) if share >= LEAST_STATED else None


def _batches(files: Mapping[str, str], count: int) -> list[list[str]]:
    """Deal files to batches, those that follow each other together; each in texts of 200 tokens or fewer."""
    batches: list[list[str]] = [[] for _ in range(count)]
    for place, (name, text) in enumerate(files.items()):
        header = f"# {name}".encode()[: 4 * HEADER_TOKENS - 1].decode("utf-8", "ignore")
        pieces = chunks(text, tokens=MOST_CHUNK_TOKENS - HEADER_TOKENS)
        batches[place * count // len(files)] += [f"{header}\n{piece.rstrip()}" for piece in pieces if piece.strip()]
    return batches


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def _share(words: frozenset[str], content: str) -> float:
    asked = _words(content)
    long = frozenset(word for word in asked if len(word) >= SHORTEST_WORD) or asked
    return len(long & words) / max(1, len(long))

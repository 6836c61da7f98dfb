"""Make dossiers: chains of questions over renamed material, with chains that nearly look the same beside them.

A chain leads from thing to thing (a package, its maintainer, where that person is employed, ...). Three more chains
run beside it, whose things have nearly the same names and are said to be alike, so that an answer that is nearly right
finds documents that look right too. Between the hops come searches for something else (red herrings), and with one of
them a document that corrects what was said before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..chunks import BYTES_PER_TOKEN
from ..task import TaskError
from ..values import Values
from .ablation import ablate, stands_in
from .material import Material, Subject, drawn, marks_in, renamed
from .names import Names
from .relations import Relation, Relations, bundled_relations, said
from .task import SUBJECT, Claim, Document, Hop, ResearchTask, Turn

MOST_DRAWS = 10
"""Draws of a dossier until one passes the ablation."""
NEAR_MISSES = 3
"""Chains beside the right one."""
FEWEST_DOCUMENTS = 5
"""Documents of a turn."""
LEAST_TOKENS, MOST_TOKENS = 60, 1200
"""Tokens of a document, about."""
LEAST_FILLER_TOKENS = 30
NOTHING = Subject(-1, None, (), ())
"""What a thing is about for which the material has no more subjects."""


@dataclass(frozen=True, slots=True)
class Shape(Values):
    """The proportions of a dossier."""

    hops: int = 4
    """Questions of the chain, 2 to 8."""
    tokens: int = 10_000
    """Tokens that are read where every answer is right, about."""
    herrings: int = 2
    """Searches for something else, each after another hop."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A relation of the chain with what it leads to, in the right chain and in those beside it."""

    relation: Relation
    part: str
    subjects: tuple[str, ...]
    """By chain; the first is the right one."""
    values: tuple[str, ...]
    """By chain."""

    def told(self, template: str, chain: int, value: str) -> str:
        return said(template, part=self.part, subject=self.subjects[chain], value=value)


def each_dossier(material: Material, *, count: int, seed: int, shape: Shape = Shape()) -> Iterator[ResearchTask]:
    """Make dossiers one by one; dossier ``i`` is the same however many are made.

    Each passes the ablation by where values stand; what does not is drawn again. Raises TaskError where none passes.
    """
    starts = drawn(material, random.Random(f"starts:{seed}"))
    words = material.words
    for index in range(count):
        start = next(starts)
        for draw in range(MOST_DRAWS):
            task = _Dossier(material, words, start, shape, f"{seed}-{index}", draw).task()
            verdict = ablate(task, stands_in, seed=seed)
            if verdict.is_accepted:
                yield task
                break
        else:
            raise TaskError(f"dossier {seed}-{index}: no draw passes the ablation: {verdict.reason}")


class _Dossier:
    """One dossier while it is made."""

    def __init__(
        self, material: Material, words: frozenset[str], start: Subject, shape: Shape, name: str, draw: int
    ) -> None:
        self.material, self.start, self.shape, self.name = material, start, shape, name
        self.rng = random.Random(f"dossier:{name}:{draw}")
        self.texts: Relations = bundled_relations()
        self.names = Names(self.rng, words)
        self.documents: list[Document] = []
        self.by_name = {subject.name: subject for subject in material.subjects}
        self.new_names: dict[int, str] = {}
        self.chain_names: set[int] = set()
        """Names of the material that things of the chain had: no other document speaks of these."""
        self.others = drawn(material, self.rng)
        self.passages: dict[int, int] = {}
        """How many passages of a subject were used."""

    def task(self) -> ResearchTask:
        steps, subjects = self._steps()
        herrings = set(self.rng.sample(range(len(steps)), min(self.shape.herrings, len(steps))))
        corrected = min(herrings, default=None)
        turns, hops = list[Turn](), list[Hop]()
        share = self.shape.tokens // (len(steps) + len(herrings))
        for place, step in enumerate(steps):
            old = step.values[1] if place == corrected else None
            own, statement = self._stating(step, subjects[place], old, self._size(share))
            claims = [Claim(old or step.values[0], statement, len(turns), own[0])]
            query = said(step.relation.query, part=step.part, subject=SUBJECT if place else step.subjects[0])
            found = self.rng.sample(own, len(own)) + self._filler(share - self._tokens(own), self._size(share))
            turns.append(Turn(query, tuple(found), place))
            if place in herrings:
                correction = self._correction(step, len(turns)) if old else None
                claims += [correction] if correction else []
                turns.append(self._herring(share, correction))
            hops.append(self._hop(step, place, claims))
        question = steps[0].subjects[0]
        for step in steps[:-1]:
            question = said(step.relation.described, part=step.part, subject=question)
        question = said(steps[-1].relation.question, part=steps[-1].part, subject=question)
        name = f"dossier-{self.name}"
        return ResearchTask(name, name, question, steps[-1].values[0], tuple(self.documents), tuple(hops), tuple(turns))

    def _hop(self, step: _Step, place: int, claims: Sequence[Claim]) -> Hop:
        relation, subject = step.relation, SUBJECT if place else step.subjects[0]
        asked = [said(text, part=step.part, subject=subject) for text in (relation.question, relation.reworded)]
        topic = said(relation.topic, part=step.part)
        return Hop(asked[0], asked[1], topic, tuple(claims), "" if place else subject)

    def _steps(self) -> tuple[list[_Step], list[Subject]]:
        """Draw the chain: relations that fit together, the material's subjects behind it, and its names."""
        chains = NEAR_MISSES + 1
        kind, current, subjects = "package", self.start, [self.start]
        families, steps = self.names.family(kind, chains), list[_Step]()
        self._put(current, families[0])
        parts = iter(self.rng.sample(self.texts.parts, len(self.texts.parts)))
        for place in range(self.shape.hops):
            relations = self.texts.ends if place == self.shape.hops - 1 else self.texts.relations
            fitting = [relation for relation in relations.values() if relation.from_ == kind]
            relation = self.rng.choice(fitting)
            part = next(parts) if "{part}" in relation.question else ""
            values = self.names.family(relation.to, chains)
            while _share_words(families, values) or _share_words(families[:1], values[1:2]):
                self.rng.shuffle(values)
            steps.append(_Step(relation, part, tuple(families), tuple(values)))
            kind, families = relation.to, values
            if kind == "package":
                current = self._next(current)
                self._put(current, values[0])
            elif kind == "person" and current.author is not None:
                self.new_names[current.author] = values[0]
                self.chain_names.add(current.author)
            subjects.append(current)
        return steps, subjects

    def _next(self, subject: Subject) -> Subject:
        """Return a subject that this one leads to and that the chain has not, else any other, else an empty one."""
        open_links = [link for link in subject.links if link not in self.chain_names]
        if open_links:
            return self.by_name[self.rng.choice(open_links)]
        free = [other for other in self.material.subjects if other.name not in self.chain_names]
        return self.rng.choice(free or [NOTHING])

    def _put(self, subject: Subject, name: str) -> None:
        self.new_names[subject.name] = name
        self.chain_names.add(subject.name)

    def _size(self, share: int) -> int:
        """Return the tokens of a document in a turn of so many."""
        return min(MOST_TOKENS, max(LEAST_TOKENS, share // (FEWEST_DOCUMENTS + NEAR_MISSES)))

    def _stating(self, step: _Step, subject: Subject, old: str | None, size: int) -> tuple[list[int], str]:
        """Add a document for each chain that says what the step is about.

        Return their places, the right one first, and what the right one says.
        """
        values = (old or step.values[0], *step.values[1:])
        statements = [
            step.told(self.rng.choice(step.relation.statements), chain, value) for chain, value in enumerate(values)
        ]
        places = []
        for chain, (name, statement) in enumerate(zip(step.subjects, statements, strict=True)):
            about = next(self.others) if chain else subject
            text = self._text(about, [statement, *self._sides(step, name)], size, own=not chain)
            places.append(self._add(Document(name, text, supporting=not chain)))
        return places, statements[0]

    def _sides(self, step: _Step, subject: str) -> list[str]:
        """Return another thing that is said of a subject."""
        same = self._relations_of(step.relation.from_)
        others = [relation for relation in same if relation is not step.relation and "{part}" not in relation.query]
        return [self._statement(self.rng.choice(others), subject)] if others else []

    def _relations_of(self, kind: str) -> list[Relation]:
        every = (*self.texts.relations.values(), *self.texts.ends.values())
        return [relation for relation in every if relation.from_ == kind]

    def _statement(self, relation: Relation, subject: str) -> str:
        (value,) = self.names.family(relation.to, 1)
        part = self.rng.choice(self.texts.parts)
        return said(self.rng.choice(relation.statements), part=part, subject=subject, value=value)

    def _correction(self, step: _Step, turn: int) -> Claim:
        """Add a document that says another value than before; return what it says."""
        statement = step.told(self.rng.choice(step.relation.statements), 0, step.values[0])
        title = said(self.texts.corrected_title, subject=step.subjects[0])
        text = said(self.texts.correction, statement=statement)
        return Claim(step.values[0], statement, turn, self._add(Document(title, text, supporting=True)))

    def _herring(self, share: int, correction: Claim | None) -> Turn:
        notices = () if correction is None else (correction.document,)
        found = self._filler(share, self._size(share))
        query = said(self.texts.herring, subject=self.documents[found[0]].title)
        return Turn(query, tuple(found), None, notices)

    def _filler(self, tokens: int, size: int) -> list[int]:
        """Add documents about other things until so many tokens are there, and one at least; return their places."""
        places = list[int]()
        while not places or tokens >= LEAST_FILLER_TOKENS:
            subject = next(self.others)
            (title,) = self.names.family("package", 1)
            statement = self._statement(self.rng.choice(self._relations_of("package")), title)
            document = Document(title, self._text(subject, [statement], min(size, tokens)))
            places.append(self._add(document))
            tokens -= document.tokens
        return places

    def _text(self, subject: Subject, statements: Sequence[str], size: int, *, own: bool = False) -> str:
        """Return a text of about so many tokens, a sentence a line: prose about a subject, and statements among it."""
        sentences = list[str]()
        free = size * BYTES_PER_TOKEN - sum(len(statement) for statement in statements)
        for sentence in self._prose(subject, own=own):
            if free < len(sentence):
                break
            sentences.append(sentence)
            free -= len(sentence) + 1
        for statement in statements:
            sentences.insert(self.rng.randrange(len(sentences) + 1), statement)
        return "\n".join(sentences)

    def _prose(self, subject: Subject, *, own: bool) -> Iterator[str]:
        """Yield sentences about a subject, those not used yet first, then about others.

        None names a thing of the chain, except for the subject where the text is its ``own``.
        """
        forbidden = self.chain_names - ({subject.name} if own else set())
        about = subject
        for _ in range(2 * len(self.material.subjects)):
            start, count = self.passages.get(about.name, 0), len(about.passages)
            for i in range(count):
                passage = about.passages[(start + i) % count]
                self.passages[about.name] = (start + i + 1) % count
                marks = marks_in(passage)
                if not marks & forbidden:
                    yield renamed(passage, self._named(marks))
            about = next(self.others)

    def _named(self, marks: frozenset[int]) -> Mapping[int, str]:
        for mark in sorted(marks - self.new_names.keys()):
            kind = "package" if mark in self.by_name else "person"
            (self.new_names[mark],) = self.names.family(kind, 1)
        return self.new_names

    def _add(self, document: Document) -> int:
        self.documents.append(document)
        return len(self.documents) - 1

    def _tokens(self, places: Sequence[int]) -> int:
        return sum(self.documents[place].tokens for place in places)


def _share_words(subjects: Sequence[str], values: Sequence[str]) -> bool:
    """Tell whether a value has a word of its subject's name: then a reader cannot tell where the value begins."""
    return any(set(subject.split()) & set(value.split()) for subject, value in zip(subjects, values, strict=True))

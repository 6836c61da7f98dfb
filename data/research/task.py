"""A research task: a chain of questions, each about the answer before, and the documents that its searches bring."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..chunks import BYTES_PER_TOKEN, chunks
from ..task import Check, Fact
from ..values import Values

SUBJECT = "{subject}"
"""Where the answer of the hop before goes in a question or a query."""
UNKNOWN = "it"
"""What a question is about where the hop before has no answer."""

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_WORD = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Document(Values):
    """A document of a dossier."""

    title: str
    text: str
    supporting: bool = False
    """Whether an answer of the chain stands in it."""

    @property
    def pieces(self) -> list[str]:
        """The document as memory observes it: pieces of at most 200 tokens."""
        return chunks(f"# {self.title}\n{self.text}")

    @property
    def tokens(self) -> int:
        """Its size in tokens of 4 bytes."""
        return -(-len(self.text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Claim(Values):
    """An answer as a document states it."""

    value: str
    text: str
    """The sentence that states it."""
    turn: int
    """The turn that brings the document, 0-based."""
    document: int
    """The place of the document in its task."""


@dataclass(frozen=True, slots=True)
class Hop(Values):
    """A question whose answer the next hop is about."""

    question: str
    """With ``SUBJECT`` where the answer of the hop before goes."""
    reworded: str
    """The same in other words."""
    topic: str
    claims: tuple[Claim, ...]
    """At least one; a later one overwrites those before it."""
    subject: str = ""
    """What the first hop is about; empty where nobody has noted it, and in later hops."""

    @property
    def turn(self) -> int:
        """The turn that searches for the answer."""
        return self.claims[0].turn


@dataclass(frozen=True, slots=True)
class Turn(Values):
    """A search, and what it brings back; after the turn the documents are gone."""

    query: str
    """With ``SUBJECT`` where the answer of the hop before goes."""
    documents: tuple[int, ...]
    """The places of the documents that come back where that answer is right."""
    hop: int | None = None
    """The hop that it searches for; None is a red herring, whose query depends on no answer."""
    notices: tuple[int, ...] = ()
    """The places of documents that come before them whatever is searched for, such as corrections."""


@dataclass(frozen=True)
class ResearchTask(Values):
    """One chain of questions over a dossier of documents; a turn is a stage."""

    id: str
    group: str
    """The dossier."""
    question: str
    """The whole chain as one question."""
    answer: str
    documents: tuple[Document, ...]
    """All documents; those that no turn names come back from wrong searches alone."""
    hops: tuple[Hop, ...]
    turns: tuple[Turn, ...]

    @property
    def stages(self) -> int:
        """How many turns it has."""
        return len(self.turns)

    @property
    def tokens(self) -> int:
        """The size of all that is read where every answer is right, in tokens of 4 bytes."""
        return sum(document.tokens for turn in range(self.stages) for document in self.read_in(turn))

    def read_in(self, turn: int) -> list[Document]:
        """Return the documents of a turn, in their order, where the answer before is right."""
        places = (*self.turns[turn].notices, *self.turns[turn].documents)
        return [self.documents[place] for place in places]

    def claim_at(self, hop: int, turn: int) -> int:
        """Return the place of a hop's claim that holds at the end of a turn."""
        return sum(claim.turn <= turn for claim in self.hops[hop].claims) - 1

    def subject_of(self, hop: int) -> str:
        """Return what a hop is about: after the first, the right answer of the hop before as its own turn begins."""
        if hop == 0:
            return self.hops[0].subject
        before = self.hops[hop - 1]
        return before.claims[max(0, self.claim_at(hop - 1, self.hops[hop].turn - 1))].value

    def value_of(self, check: Check) -> str:
        """Return the right answer of a check."""
        hop = int(check.question)
        return self.hops[hop].claims[self.claim_at(hop, check.stage)].value

    @cached_property
    def facts(self) -> Mapping[str, Fact]:
        """The answers, each from the turn that brings it until the one that corrects it."""
        return {fact.id: fact for hop in range(len(self.hops)) for fact in self._facts_of(hop)}

    def _facts_of(self, place: int) -> Sequence[Fact]:
        hop = self.hops[place]
        until = [*(claim.turn for claim in hop.claims[1:]), None]
        return [
            Fact(
                id=_fact_id(place, number),
                key=f"hop {place}",
                topic=hop.topic,
                text=claim.text,
                since=claim.turn,
                until=end,
                sources=tuple(self._sources(claim)),
            )
            for number, (claim, end) in enumerate(zip(hop.claims, until, strict=True))
        ]

    def is_stated(self, fact: Fact, text: str) -> bool:
        """Tell whether a line of a text has a fact's answer, and what it is about where the fact's text has that."""
        hop, number = map(int, fact.id.split("."))
        value, subject = self.hops[hop].claims[number].value, self.subject_of(hop)
        named = [value, *([subject] if subject and states(fact.text, subject) else [])]
        return any(all(states(line, name) for name in named) for line in text.splitlines())

    def _sources(self, claim: Claim) -> list[str]:
        pieces = self.documents[claim.document].pieces
        told = [piece for piece in pieces if claim.text in piece]
        return told or [piece for piece in pieces if claim.value in piece] or pieces

    @cached_property
    def checks(self) -> Mapping[str, Check]:
        """At each turn's end the hop that was searched for last; after the last turn, all of them."""
        asked = [(stage, hop) for stage in range(self.stages) for hop in self._asked_at(stage)]
        checks = [
            Check(
                id=f"{stage}.{hop}",
                question=str(hop),
                stage=stage,
                needs=(_fact_id(hop, self.claim_at(hop, stage)),),
                chance=0.0,
                text=about(self.hops[hop].question, self.subject_of(hop)),
            )
            for stage, hop in asked
        ]
        return {check.id: check for check in checks}

    def _asked_at(self, stage: int) -> Sequence[int]:
        known = [place for place, hop in enumerate(self.hops) if hop.turn <= stage]
        return known if stage == self.stages - 1 else known[-1:]


def about(text: str, subject: str | None) -> str:
    """Return a question or a query about a subject; None is an unknown one."""
    return text.replace(SUBJECT, UNKNOWN if subject is None else subject)


def same_value(given: str | None, value: str) -> bool:
    """Tell whether an answer is a value, apart from case, punctuation and articles."""
    return given is not None and _plain(given) == _plain(value)


def states(text: str, value: str) -> bool:
    """Tell whether a value stands in a text as whole words, apart from case, punctuation and articles."""
    return f" {_plain(value)} " in f" {_plain(text)} "


def _plain(text: str) -> str:
    words = _NO_WORD.sub(" ", _ARTICLE.sub(" ", text.casefold())).split()
    return " ".join(words) or text.strip().casefold()


def _fact_id(hop: int, claim: int) -> str:
    return f"{hop}.{claim}"

"""Questions on the facts of a source tree: which can be asked, how they read, and why others cannot."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal

from ..task import Fact
from .facts import CodeFact, Kind
from .literals import holds_literal, same_literal, type_name
from .tree import SourceTree

_TEXTS: Mapping[tuple[Kind, ...], str] = {
    ("default",): "What is the default of the parameter `{0.name}` of `{0.scope}` in {0.file}?",
    ("constant",): "What is the value of the constant `{0.name}` in {0.file}?",
    ("base",): "Which class does `{0.scope}` in {0.file} inherit from?",
    ("raise",): "Which exception does `{0.scope}` in {0.file} raise?",
    ("return",): "What does `{0.scope}` in {0.file} return?",
    ("raise", "base"): "Which class does the exception that `{0.scope}` in {0.file} raises inherit from?",
    ("base", "default"): (
        "The class `{0.scope}` in {0.file} extends another class. "
        "What is the default of the parameter `{1.name}` of that other class's `__init__`?"
    ),
}
_CODE = {
    "default": "{0.name}={0.value}",
    "constant": "{0.name} = {0.value}",
    "base": "class {0.name}({0.value})",
    "raise": "raise {0.value}",
    "return": "return {0.value}",
}

Rejection = Literal["guessable", "unsolvable", "confusable", "leaky"]
"""Why a question is not asked: its answer is blank or too common; what tells its facts does not give it; a distractor
does; the question does."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Facts that a question needs together: each but the last names what the next is about."""

    facts: tuple[CodeFact, ...]
    distractors: tuple[CodeFact, ...]
    """Facts of the last one's kind and name that stand elsewhere and have another value; other files' first."""

    @property
    def key(self) -> str:
        """What it asks for, distinct within the tree."""
        return " -> ".join(fact.key for fact in self.facts)

    @property
    def answer(self) -> str:
        """The value of the last fact."""
        return self.facts[-1].value

    @property
    def question(self) -> str:
        """How the question reads."""
        return question_on(*self.facts)


def statement(fact: CodeFact) -> str:
    """Return a fact as it would stand in an excerpt of its own."""
    inside = {"constant": "", "base": fact.scope.rpartition(".")[0]}.get(fact.kind, fact.scope)
    return f"# {fact.file}" + (f", in {inside}" if inside else "") + "\n" + _CODE[fact.kind].format(fact)


def states(text: str, fact: Fact, value: str) -> bool:
    """Tell whether a text states a fact of a tree: what it is about, and a line with the name and the value."""
    file, kind, *names = fact.key.split(":")
    about = [PurePosixPath(file).stem, *".".join(names).split(".")]
    mark = kind if kind in {"raise", "return"} else names[-1].rpartition(".")[2]
    told = any(holds_literal(line, value) and re.search(rf"\b{re.escape(mark)}\b", line) for line in text.splitlines())
    return told and all(re.search(rf"\b{re.escape(name)}\b", text) for name in about if not name.startswith("__"))


def question_on(*facts: CodeFact) -> str:
    """Return the question that needs these facts together."""
    return _TEXTS[tuple(fact.kind for fact in facts)].format(*facts)


@lru_cache(maxsize=4)
def clusters_of(tree: SourceTree) -> tuple[dict[str, list[Cluster]], Counter[Rejection]]:
    """Return the clusters that can be asked for, by group, and how many cannot, by reason."""
    accepted: dict[str, list[Cluster]] = {}
    rejected: Counter[Rejection] = Counter()
    for cluster in _each_cluster(tree):
        reason = rejection(tree, cluster)
        if reason is None:
            accepted.setdefault(tree.group_of(cluster.facts[0].file), []).append(cluster)
        else:
            rejected[reason] += 1
    return accepted, rejected


def rejection(tree: SourceTree, cluster: Cluster) -> Rejection | None:
    """Return why a cluster cannot be asked for; None where it can.

    No model is needed: the excerpts that tell its facts must give the answer, the distractors alone must not, nor the
    question alone, and the answer must be rare among the facts of its kind.
    """
    if (reason := poor_answer(tree, cluster, cluster.answer)) is not None:
        return reason
    if not all(_is_told(tree, fact) for fact in cluster.facts):
        return "unsolvable"
    return "confusable" if any(holds_literal(statement(fact), cluster.answer) for fact in cluster.distractors) else None


def poor_answer(tree: SourceTree, cluster: Cluster, answer: str) -> Rejection | None:
    """Return why a value is no good answer to a cluster's question, wherever it is told; None where it is."""
    blank = type_name(answer) in {"bool", "NoneType"} or not answer.strip("bBrRuU'\" ")
    if blank or tree.is_common(cluster.facts[-1].kind, answer):
        return "guessable"
    return "leaky" if holds_literal(cluster.question, answer) else None


def _is_told(tree: SourceTree, fact: CodeFact) -> bool:
    """Tell whether a single excerpt gives a fact: its value, and what it is about."""
    excerpt = tree.excerpt_of(fact)
    if excerpt is None or not holds_literal(excerpt.text, fact.value):
        return False
    return all(re.search(rf"\b{name}\b", excerpt.text) for name in (fact.name, *fact.scope.split(".")))


def _each_cluster(tree: SourceTree) -> Iterator[Cluster]:
    for file in tree.files.values():
        bases = {fact.scope: fact for fact in file.facts if fact.kind == "base"}
        defaults: dict[str, list[CodeFact]] = {}
        for fact in file.facts:
            yield _cluster(tree, (fact,))
            owner, _, method = fact.scope.partition(".")
            if fact.kind == "default" and method == "__init__":
                defaults.setdefault(owner, []).append(fact)
        for fact in file.facts:
            if fact.kind == "raise" and fact.value in bases:
                yield _cluster(tree, (fact, bases[fact.value]))
            elif fact.kind == "base":
                yield from (_cluster(tree, (fact, default)) for default in defaults.get(fact.value, ()))


def _cluster(tree: SourceTree, facts: tuple[CodeFact, ...]) -> Cluster:
    last = facts[-1]
    elsewhere = [fact for fact in tree.alike(last) if fact.key != last.key and not same_literal(fact.value, last.value)]
    return Cluster(facts, tuple(sorted(elsewhere, key=lambda fact: fact.file == last.file)))

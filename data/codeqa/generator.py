"""Make tasks from a source tree: seeded, no language model."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..chunks import chunks
from ..task import Check, Fact, TaskError
from .facts import CodeFact
from .literals import holds_literal, same_literal, type_name
from .questions import Cluster, clusters_of, poor_answer, question_on, statement
from .task import CodeTask, problems, tokens_of
from .tree import Excerpt, SourceTree

CONTEXT_LINES = 2
"""Of a diff, around the line that changes."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The proportions of a task."""

    tokens: int = 10_000
    """Size of all that is read; less where the tree has no more."""
    stages: int = 3
    questions: int = 6
    linked: int = 2
    """Questions that need two facts, at most."""
    distractors: int = 2
    """Of a question, at most."""
    edits: int = 2
    """Facts that a later stage overwrites, at most."""
    rest: float = 0.4
    """Share of a stage at its end that tells nothing that is asked for, so that what was read last does not help."""


@dataclass(frozen=True)
class CodeGenerator:
    """Makes the tasks of a tree, a group's questions on its own files; task ``i`` is the same however many are made."""

    tree: SourceTree
    seed: int
    shape: Shape = Shape()

    @cached_property
    def groups(self) -> dict[str, list[Cluster]]:
        """The groups with enough to ask for, in an order of the seed. Raises TaskError where there are none."""
        accepted, rejected = clusters_of(self.tree)
        names = [
            name for name, clusters in accepted.items() if len(_apart(self.tree, clusters)) >= self.shape.questions
        ]
        if not names:
            reasons = ", ".join(f"{count} {reason}" for reason, count in rejected.most_common())
            raise TaskError(
                f"{self.tree.name}: no package or module has {self.shape.questions} questions that can be asked "
                f"({sum(map(len, accepted.values()))} in all; left out: {reasons or 'none'}); name a larger source tree"
            )
        random.Random(f"groups:{self.seed}").shuffle(names)
        return {name: accepted[name] for name in names}

    def group(self, index: int) -> str:
        """Return the group of a task."""
        return list(self.groups)[index % len(self.groups)]

    def task(self, index: int) -> CodeTask:
        """Make a task. Raises TaskError when it fails its own checks."""
        return _Making(self.tree, self.shape, self.groups, self.seed, index).task(self.group(index))


@dataclass(frozen=True, slots=True)
class _Version:
    """A fact as it stands from a stage on."""

    fact: CodeFact
    since: int
    sources: tuple[str, ...]
    edited: bool = False

    @property
    def id(self) -> str:
        return f"{self.fact.key}@{self.since}" if self.edited else self.fact.key


@dataclass
class _Asked:
    """A question of a task, with the versions of the facts that it needs."""

    id: str
    cluster: Cluster
    stage: int
    distractors: Sequence[CodeFact]
    versions: list[list[_Version]]
    """For each of its facts, in the order of stages."""

    def values(self) -> list[str]:
        """Return all that its answer has been, and its distractors' values."""
        return [version.fact.value for version in self.versions[-1]] + [fact.value for fact in self.distractors]


@dataclass
class _Making:
    """A task in the making."""

    tree: SourceTree
    shape: Shape
    groups: dict[str, list[Cluster]]
    seed: int
    index: int
    shown: set[tuple[str, int]] = field(default_factory=set)
    """Excerpts that were read, or that will be."""

    def task(self, group: str) -> CodeTask:
        self.random = random.Random(f"code:{self.seed}:{self.index}")
        asked = self._questions(self.groups[group])
        front: list[list[str]] = [[] for _ in range(self.shape.stages)]
        for question in asked:
            front[question.stage] += [text for versions in question.versions for text in versions[0].sources]
        for question in asked:
            excerpts = [excerpt for fact in question.distractors if (excerpt := self.tree.excerpt_of(fact))]
            front[question.stage] += [excerpt.text for excerpt in excerpts if self._is_new(excerpt)]
        for stage in range(1, self.shape.stages):
            front[stage] += self._edits(asked, stage)
        filler = self._filler()
        observations = [self._stage(texts, filler) for texts in front]
        task = self._assembled(group, asked, observations)
        if (problem := next(problems(task), None)) is not None:
            raise TaskError(f"{task.id}: {problem}")
        return task

    def _questions(self, clusters: Sequence[Cluster]) -> list[_Asked]:
        """Draw what is asked: first what can be edited, then what needs several facts, then what has distractors."""
        drawn = sorted(self.random.sample(clusters, len(clusters)), key=lambda cluster: not cluster.distractors)
        single = [cluster for cluster in drawn if len(cluster.facts) == 1]
        literal = _apart(self.tree, [cluster for cluster in single if type_name(cluster.answer) != "name"])
        linked = _apart(self.tree, [cluster for cluster in drawn if len(cluster.facts) > 1])
        first = [*literal[: self.shape.edits], *linked[: self.shape.linked]]
        chosen = _apart(self.tree, [*first, *single])[: self.shape.questions]
        return [self._question(place, cluster) for place, cluster in enumerate(chosen)]

    def _question(self, place: int, cluster: Cluster) -> _Asked:
        stage, others = place % self.shape.stages, cluster.distractors
        elsewhere = [fact for fact in others if fact.file != cluster.facts[-1].file] or list(others)
        by_value = {fact.value: fact for fact in self.random.sample(elsewhere, len(elsewhere))}
        distractors = list(by_value.values())[: self.shape.distractors]
        excerpts = [self.tree.excerpt_of(fact) for fact in cluster.facts]
        self.shown |= {(excerpt.file, excerpt.place) for excerpt in excerpts if excerpt}
        versions = [
            [_Version(fact, stage, (excerpt.text,))]
            for fact, excerpt in zip(cluster.facts, excerpts, strict=True)
            if excerpt
        ]
        return _Asked(f"q{place}", cluster, stage, distractors, versions)

    def _is_new(self, excerpt: Excerpt) -> bool:
        """Tell whether an excerpt is not read yet, and note it."""
        key = (excerpt.file, excerpt.place)
        new = key not in self.shown
        self.shown.add(key)
        return new

    def _edits(self, asked: Sequence[_Asked], stage: int) -> Iterator[str]:
        """Yield the diffs of a stage, and note what they overwrite."""
        count = len(range(stage - 1, self.shape.edits, self.shape.stages - 1))
        unedited = [question for question in asked if question.stage < stage and len(question.versions[-1]) == 1]
        for question in self.random.sample(unedited, len(unedited)):
            if count and (changed := self._changed(question)) is not None:
                texts = tuple(chunks(self._diff(question.versions[-1][-1].fact, changed)))
                if any(holds_literal(text, changed.value) for text in texts):
                    question.versions[-1].append(_Version(changed, stage, texts, edited=True))
                    count -= 1
                    yield from texts

    def _changed(self, question: _Asked) -> CodeFact | None:
        """Return the last fact of a question with a value of the same type that can be asked for just as well."""
        fact, used = question.versions[-1][-1].fact, question.values()
        for value in self.random.sample(sorted(self.tree.values[fact.kind]), len(self.tree.values[fact.kind])):
            alike = type_name(value) == type_name(fact.value) != "name"
            new = alike and not any(same_literal(value, each) or same_literal(each, value) for each in used)
            if new and poor_answer(self.tree, question.cluster, value) is None:
                return replace(fact, value=value)
        return None

    def _diff(self, old: CodeFact, new: CodeFact) -> str:
        """Return a unified diff of the line that a value stands in."""
        before = self.tree.files[old.file].lines
        line = before[old.line - 1].encode()
        after = line[: old.columns[0]] + new.value.encode() + line[old.columns[1] :]
        changed = [*before[: old.line - 1], after.decode(), *before[old.line :]]
        _, _, at, *lines = difflib.unified_diff(before, changed, n=CONTEXT_LINES, lineterm="")
        return "\n".join([f"--- a/{old.file}", f"+++ b/{old.file}", f"{at} {old.scope}", *lines])

    def _filler(self) -> Iterator[str]:
        """Yield the tree file by file, without the excerpts that are read for a question."""
        for path in self.random.sample(sorted(self.tree.files), len(self.tree.files)):
            for excerpt in self.tree.files[path].excerpts:
                if self._is_new(excerpt):
                    yield excerpt.text

    def _stage(self, front: list[str], filler: Iterator[str]) -> list[str]:
        """Return what is read in a stage: what is asked for among filler, then filler alone."""
        whole, size = self.shape.tokens / self.shape.stages, sum(map(tokens_of, front))
        before, rest = list[str](), list[str]()
        tail = self.shape.rest * whole
        while size < whole - tail and (text := next(filler, None)) is not None:
            before.append(text)
            size += tokens_of(text)
        while tail > 0 and (text := next(filler, None)) is not None:
            rest.append(text)
            tail -= tokens_of(text)
        return [*self._among(front, before), *rest]

    def _among(self, texts: list[str], filler: list[str]) -> list[str]:
        """Return texts in a new order, spread over filler that keeps its own."""
        shuffled, left = self.random.sample(texts, len(texts)), iter(filler)
        order = self.random.sample([True] * len(texts) + [False] * len(filler), len(texts) + len(filler))
        mine = iter(shuffled)
        return [next(mine if is_mine else left) for is_mine in order]

    def _assembled(self, group: str, asked: Sequence[_Asked], observations: list[list[str]]) -> CodeTask:
        facts, questions, values = dict[str, Fact](), dict[str, str](), dict[str, str]()
        for version, until in (each for question in asked for each in _spans(question)):
            text = statement(version.fact)
            facts[version.id] = Fact(
                version.id, version.fact.key, version.fact.kind, text, version.since, until, version.sources
            )
            questions[version.id] = question_on(version.fact)
            values[version.id] = version.fact.value
        checks = [self._check(question, stage) for stage in range(self.shape.stages) for question in asked]
        edited = [v.id for question in asked for versions in question.versions for v in versions if v.edited]
        return CodeTask(
            id=f"{self.tree.name}-{self.seed}-{self.index:04d}",
            group=group,
            observations=tuple(map(tuple, observations)),
            facts=facts,
            checks={check.id: check for check in checks if check is not None},
            questions=questions,
            values=values,
            distractors={question.id: tuple(fact.value for fact in question.distractors) for question in asked},
            external=tuple(edited),
            critical=tuple(facts),
            literal=True,
            tokens=sum(tokens_of(text) for batch in observations for text in batch),
        )

    def _check(self, question: _Asked, stage: int) -> Check | None:
        """Return the check of a question after a stage; None where its facts are not known yet."""
        if stage < question.stage:
            return None
        held = [[version for version in versions if version.since <= stage][-1] for versions in question.versions]
        last = held[-1].fact
        share = self.tree.share(last.kind, last.value)
        needs = tuple(version.id for version in held)
        return Check(f"{stage}.{question.id}", question.id, stage, needs, share, question.cluster.question)


def _spans(question: _Asked) -> Iterator[tuple[_Version, int | None]]:
    """Yield each version of a question's facts with the stage that overwrites it."""
    for versions in question.versions:
        for version, after in zip(versions, [*versions[1:], None], strict=True):
            yield version, after.since if after else None


def _apart(tree: SourceTree, clusters: Sequence[Cluster]) -> list[Cluster]:
    """Return those clusters of which no two have the same answer or need the same excerpt, the first of each."""
    used: set[Excerpt | str | None] = set()
    kept = []
    for cluster in clusters:
        parts = {cluster.answer, *(tree.excerpt_of(fact) for fact in cluster.facts)}
        if not used & parts:
            used |= parts
            kept.append(cluster)
    return kept

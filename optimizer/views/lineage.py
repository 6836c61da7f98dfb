"""A search's trials as a reader follows them: from parent to child, each with what it changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...env.statistics import Estimate, estimate
from ...policies.prompts import Templates
from ..study import Trial
from .changes import KnobChange, PromptChange, compare_knobs, compare_prompts


@dataclass(frozen=True, slots=True)
class Node:
    """A trial with its place among the others."""

    trial: Trial
    parent: Trial | None
    children: tuple[int, ...]
    """Numbers of the trials that were made from it."""
    knobs: tuple[KnobChange, ...] = ()
    """What differs from its parent; so with ``prompts``."""
    prompts: tuple[PromptChange, ...] = ()

    @property
    def raced(self) -> Estimate:
        """Its score on the train groups that it met to the end."""
        return estimate(list(self.trial.train.values()))

    @property
    def looked(self) -> Estimate:
        """Its score on the validation groups."""
        return estimate(list(self.trial.validation.values()))


@dataclass(frozen=True, slots=True)
class Lineage:
    """Every trial of a search, by number."""

    nodes: tuple[Node, ...]
    by_number: dict[int, Node] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_number", {node.trial.number: node for node in self.nodes})

    @classmethod
    def of(cls, trials: Sequence[Trial], templates: Templates) -> Lineage:
        """Compare each trial with its parent."""
        by_number = {trial.number: trial for trial in trials}
        children = defaultdict[int, list[int]](list)
        for trial in trials:
            if trial.parent is not None:
                children[trial.parent].append(trial.number)
        parents = [None if trial.parent is None else by_number.get(trial.parent) for trial in trials]
        return cls(
            tuple(
                _compared(trial, parent, tuple(children[trial.number]), templates)
                for trial, parent in zip(trials, parents, strict=True)
            )
        )

    @property
    def generations(self) -> dict[int, list[Node]]:
        """The trials by generation, in order."""
        generations = defaultdict[int, list[Node]](list)
        for node in self.nodes:
            generations[node.trial.generation].append(node)
        return dict(sorted(generations.items()))

    def line_to(self, trial: Trial) -> list[Node]:
        """Return a trial and all that it comes from, the first of them first."""
        return [self.by_number[number] for number in ancestors(trial, [node.trial for node in self.nodes])][::-1]


def ancestors(trial: Trial | None, trials: Sequence[Trial]) -> Iterator[int]:
    """Yield a trial's number and those of the trials that it comes from."""
    by_number = {t.number: t for t in trials}
    while trial is not None:
        yield trial.number
        trial = None if trial.parent is None or trial.parent >= trial.number else by_number.get(trial.parent)


def _compared(trial: Trial, parent: Trial | None, children: tuple[int, ...], templates: Templates) -> Node:
    if trial.policy is None or parent is None or parent.policy is None:
        return Node(trial, parent, children)
    knobs = compare_knobs(parent.policy, trial.policy)
    prompts = compare_prompts(parent.policy, trial.policy, templates, owner=f"trial {parent.number}'s")
    return Node(
        trial,
        parent,
        children,
        knobs=tuple(change for change in knobs if change.changed),
        prompts=tuple(change for change in prompts if change.changed),
    )

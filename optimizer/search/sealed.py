"""The sealed test: the finalist, the seed and the baselines on groups that the search never saw, once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...data.task import Task
from ...env import Episode, Evaluation, Evaluator, Summary, Track
from ...env.episode import write_episodes
from ...env.failed_checks import FailedCheck, failed_checks, write_calls, write_failed_checks
from ...env.statistics import Estimate, paired_difference
from ...env.track import most_calls
from ...policies.files import WINDOW
from ...policies.lm import BudgetExhausted
from ...policies.policy import MemoryPolicy
from ...policies.space import BUILTIN

SEED, EVOLVED = "seed", "evolved"
RECORDED_GROUPS = 6
"""Groups of the sealed test whose calls are recorded."""


@dataclass(frozen=True, slots=True)
class SealedTest:
    """The result, which the study keeps."""

    rows: Mapping[str, Summary] = field(default_factory=dict)
    """By the policy's name."""
    problem: str = ""
    """Why policies or groups are missing; empty when all were tested."""
    done: bool = False
    """Whether every policy was tested on every group, so that the test is never opened again."""

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        rows = {name: row.as_json() for name, row in self.rows.items()}
        return {"rows": rows, "problem": self.problem, "done": self.done}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SealedTest:
        """Read what ``as_json`` gave."""
        rows = {name: Summary.from_json(row) for name, row in values["rows"].items()}
        return cls(rows, values["problem"], values["done"])

    @property
    def closed(self) -> dict[str, Summary]:
        """The rows that lack no group."""
        return {name: row for name, row in self.rows.items() if not row.lost}

    def of(self, policies: Mapping[str, MemoryPolicy]) -> SealedTest:
        """Return it without the rows that are another policy's than the one that now has the name."""
        others = [name for name, row in self.rows.items() if name in policies and row.key != policies[name].key]
        return replace(self, rows={name: row for name, row in self.rows.items() if name not in others})

    @property
    def difference(self) -> Estimate:
        """Evolved minus seed, as ``difference_from`` gives it."""
        return self.difference_from(SEED)

    @property
    def best_baseline(self) -> str | None:
        """The baseline with the highest memory score, oracles left out; None when none has one."""
        fair = {name: row for name, row in self.rows.items() if name not in {SEED, EVOLVED} and not row.oracle}
        scores = {name: row.memory_score.mean for name, row in fair.items() if not math.isnan(row.memory_score.mean)}
        return max(scores, key=scores.__getitem__) if scores else None

    @property
    def most_evident_baseline(self) -> str | None:
        """The baseline with the highest evidence recall, oracles left out; None when none has one."""
        fair = {name: row for name, row in self.rows.items() if name not in {SEED, EVOLVED} and not row.oracle}
        shown = {name: row.evidence.mean for name, row in fair.items() if not math.isnan(row.evidence.mean)}
        return max(shown, key=shown.__getitem__) if shown else None

    def evidence_beyond(self, other: str) -> Estimate:
        """Evolved minus another policy in evidence recall, paired by group; NaN where not known."""
        rows = [self.rows.get(name) or Summary(policy=name) for name in (EVOLVED, other)]
        return paired_difference(*(row.evidence_by_group for row in rows))

    def difference_from(self, other: str, *, reworded: bool = False) -> Estimate:
        """Evolved minus another policy in memory score, paired by group; NaN where not known."""
        rows = [self.rows.get(name) or Summary(policy=name) for name in (EVOLVED, other)]
        return paired_difference(*(row.reworded_by_group if reworded else row.by_group for row in rows))


def most_test_calls(
    tasks: Sequence[Task],
    policies: Sequence[MemoryPolicy],
    track: Track,
    *,
    finalist_writes: int,
    memories: Sequence[str] = (BUILTIN,),
    reworded: bool = True,
) -> int:
    """Return the most calls that the sealed test can take; a look asks nothing in other words.

    The finalist is not known yet: it is taken to write facts every ``finalist_writes`` messages without a buffer, with
    whichever of ``memories`` takes most.
    """
    facts = {"write": {"mode": "facts"}, "update_every": finalist_writes, "buffer_size": 0, "store": "external"}
    named = [{} if name == BUILTIN else {"backend": name} for name in memories]
    finalists = [MemoryPolicy.model_validate({**facts, "top_k": 1, **memory}) for memory in named]
    dearest = max(finalists, key=lambda policy: most_calls(track, tasks, [policy], reworded=reworded))
    return most_calls(track, tasks, {*policies, dearest}, reworded=reworded) + sum(
        track.bound_calls(task) for task in tasks
    )


async def open_test(
    policies: Mapping[str, MemoryPolicy],
    tasks: Sequence[Task],
    evaluator: Evaluator,
    *,
    before: SealedTest,
    done: Callable[[Episode], None],
    keep: Callable[[SealedTest, Sequence[str], Evaluation], None],
) -> SealedTest:
    """Evaluate every policy on the test tasks, those left out that ``before`` has; equal policies are run once.

    ``done`` hears of every episode, ``keep`` of every evaluation, with all that its policy is called, and of the result
    so far. When the budget ends the test, the policies done so far are kept and ``problem`` says why the others are
    missing. A row that lacks groups whose episodes were lost stays open: they are played again when the test goes on.
    """
    noun, before = evaluator.track.noun, before.of(policies)
    # equal policies never differ by chance
    known = {policies[name]: row for name, row in before.closed.items() if name in policies}
    rows = {name: replace(known[policy], policy=name) for name, policy in policies.items() if policy in known}
    # the comparisons asked for come first, should the budget end
    first = {name: place for place, name in enumerate((EVOLVED, SEED, WINDOW))}
    open_names = sorted(policies.keys() - rows.keys(), key=lambda name: (first.get(name, len(first)), name))
    problem = ""
    try:
        for policy in dict.fromkeys(policies[name] for name in open_names):
            evaluation = await evaluator.evaluate(policy, tasks, done=done)
            names = [name for name in open_names if policies[name] == policy]
            rows |= {name: Summary.of(evaluation, name=name) for name in names}
            keep(SealedTest({**before.rows, **rows}), names, evaluation)
            del evaluation  # its episodes would lie beside those of the next policy
    except BudgetExhausted as end:
        missing = ", ".join(name for name in policies if name not in rows)
        problem = f"{missing} could not be tested: {end} (raise it with --set search.budget...)"
    every = {**before.rows, **rows}
    rows = {name: every[name] for name in policies if name in every}
    lost = [
        f"{name}: {noun} {group} was lost: {reason}" for name, row in rows.items() for group, reason in row.lost.items()
    ]
    problem = "; ".join(filter(None, [problem, *lost]))
    return SealedTest(rows, problem, done=not problem)


def write_tested(folder: Path, evaluation: Evaluation, tasks: Sequence[Task], track: Track) -> None:
    """Write a policy's episodes, its failed checks, and the recorded calls behind these."""
    groups, followed = recorded_of(tasks), list[FailedCheck]()

    def failures() -> Iterator[FailedCheck]:
        for failure in failed_checks(tasks, evaluation.episodes, track):
            followed.extend([failure] if failure.group in groups else [])
            yield failure

    write_episodes(folder, evaluation.episodes)
    write_failed_checks(folder, failures())
    write_calls(folder, followed, evaluation.episodes)


def recorded_of(tasks: Sequence[Task]) -> frozenset[str]:
    """Return the groups of the sealed test whose calls are recorded: the first ones, as traces show few failures."""
    return frozenset(list(dict.fromkeys(task.group for task in tasks))[:RECORDED_GROUPS])

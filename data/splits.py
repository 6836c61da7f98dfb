"""Splits by group, never by task or check."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from .task import Group, Task, grouped


@dataclass(frozen=True, slots=True)
class Splits:
    """Disjoint groups: the search proposes on ``train``, accepts on ``validation``, and opens ``test`` once."""

    train: tuple[Group, ...]
    validation: tuple[Group, ...]
    test: tuple[Group, ...]


def split_by_group(
    tasks: Sequence[Task],
    *,
    train: int,
    validation: int,
    test: int,
    seed: int,
    noun: str = "group",
    sealed: Sequence[Task] | None = None,
) -> Splits:
    """Deal groups into three disjoint splits of the given sizes; those of the test come from ``sealed`` where given.

    The result depends on the groups' ids and ``seed`` alone, not on their order. ``noun`` is what errors call a group.
    Raises ValueError when there are fewer groups than the splits ask for, a task's id occurs twice, or a group is both
    in ``tasks`` and in ``sealed``.
    """
    every = [*tasks, *(sealed or ())]
    if sealed is not None:
        both = sorted({task.group for task in tasks} & {task.group for task in sealed})
        if both:
            raise ValueError(
                f"{noun} {both[0]} is in `data` and in `test_data`; the sealed test may know no {noun} of the search's"
            )
    twice = sorted(name for name, times in Counter(task.id for task in every).items() if times > 1)
    if twice:
        raise ValueError(f"{noun}s {', '.join(twice)} occur more than once; a split by {noun} needs distinct ids")
    if sealed is None:
        dealt = _dealt(tasks, {"train": train, "validation": validation, "test": test}, seed=seed, noun=noun)
        return Splits(**dealt)
    searched = _dealt(tasks, {"train": train, "validation": validation}, seed=seed, noun=noun)
    return Splits(**searched, **_dealt(sealed, {"test": test}, seed=seed, noun=noun, source="`test_data`"))


def _dealt(
    tasks: Sequence[Task], sizes: Mapping[str, int], *, seed: int, noun: str, source: str = "the data"
) -> dict[str, tuple[Group, ...]]:
    groups, wanted = grouped(tasks), sum(sizes.values())
    if wanted > len(groups):
        each = ", ".join(f"{size} {name}" for name, size in sizes.items())
        raise ValueError(
            f"the splits ask for {wanted} {noun}s ({each}), "
            f"but {source} has {len(groups)}; lower `splits` or load more {noun}s"
        )
    shuffled = sorted(groups, key=lambda group: group.id)
    random.Random(f"splits:{seed}").shuffle(shuffled)
    left = iter(shuffled)
    return {name: tuple(islice(left, size)) for name, size in sizes.items()}

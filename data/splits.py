"""Splits by group, never by task or check."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .task import Group, Task, grouped


@dataclass(frozen=True, slots=True)
class Splits:
    """Disjoint groups: the search proposes on ``train``, accepts on ``validation``, and opens ``test`` once."""

    train: tuple[Group, ...]
    validation: tuple[Group, ...]
    test: tuple[Group, ...]


def split_by_group(
    tasks: Sequence[Task], *, train: int, validation: int, test: int, seed: int, noun: str = "group"
) -> Splits:
    """Deal groups into three disjoint splits of the given sizes.

    The result depends on the groups' ids and ``seed`` alone, not on their order. ``noun`` is what errors call a group.
    Raises ValueError when there are fewer groups than the splits ask for, or a task's id occurs twice.
    """
    twice = sorted(name for name, times in Counter(task.id for task in tasks).items() if times > 1)
    if twice:
        raise ValueError(f"{noun}s {', '.join(twice)} occur more than once; a split by {noun} needs distinct ids")
    groups, wanted = grouped(tasks), train + validation + test
    if wanted > len(groups):
        raise ValueError(
            f"the splits ask for {wanted} {noun}s ({train} train, {validation} validation, {test} test), "
            f"but the data has {len(groups)}; lower `splits` or load more {noun}s"
        )
    dealt = sorted(groups, key=lambda group: group.id)
    random.Random(f"splits:{seed}").shuffle(dealt)
    return Splits(
        train=tuple(dealt[:train]),
        validation=tuple(dealt[train : train + validation]),
        test=tuple(dealt[train + validation : wanted]),
    )

"""Splits by user, never by question."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .dialogue.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Splits:
    """Disjoint users: the search proposes on ``train``, accepts on ``validation``, and opens ``test`` once."""

    train: tuple[Scenario, ...]
    validation: tuple[Scenario, ...]
    test: tuple[Scenario, ...]


def split_by_user(scenarios: Sequence[Scenario], *, train: int, validation: int, test: int, seed: int) -> Splits:
    """Deal users into three disjoint splits of the given sizes.

    The result depends on the users' ids and ``seed`` alone, not on their order.
    Raises ValueError when there are fewer users than the splits ask for, or an id occurs twice.
    """
    ids = [scenario.id for scenario in scenarios]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise ValueError(f"users {', '.join(twice)} occur more than once; a split by user needs distinct ids")
    wanted = train + validation + test
    if wanted > len(scenarios):
        raise ValueError(
            f"the splits ask for {wanted} users ({train} train, {validation} validation, {test} test), "
            f"but the data has {len(scenarios)}; lower `splits` or load more users"
        )
    dealt = sorted(scenarios, key=lambda scenario: scenario.id)
    random.Random(f"splits:{seed}").shuffle(dealt)
    return Splits(
        train=tuple(dealt[:train]),
        validation=tuple(dealt[train : train + validation]),
        test=tuple(dealt[train + validation : wanted]),
    )

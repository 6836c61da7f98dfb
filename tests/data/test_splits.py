"""How groups are dealt.

Invariants:

1. No group is in two splits, each split has its size, and the tasks of a group stay together.
2. The deal depends on the groups' ids and the seed, not on the order of the data.
3. A smaller test split is the beginning of a larger one: opening more groups never moves one into training.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemotune.data import Scenario, Splits, Task, split_by_group
from mnemotune.data.task import tasks_of
from tasks import HandMade

SIZES = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))


@pytest.fixture
def users(row: dict[str, Any]) -> list[Scenario]:
    ann = Scenario.parse(row)
    return [ann.model_copy(update={"id": f"user-{i:02d}"}) for i in range(18)]


def ids(splits: Splits) -> list[list[str]]:
    return [[group.id for group in split] for split in (splits.train, splits.validation, splits.test)]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=SIZES, seed=st.integers())
def test_the_splits_are_disjoint_and_have_their_sizes_invariant_1(
    users: list[Scenario], sizes: tuple[int, int, int], seed: int
) -> None:
    train, validation, test = sizes
    dealt = ids(split_by_group(users, train=train, validation=validation, test=test, seed=seed))
    together = [user for split in dealt for user in split]
    assert [len(split) for split in dealt] == [train, validation, test]
    assert len(set(together)) == len(together)
    assert set(together) <= {user.id for user in users}


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(), shuffled=st.randoms(use_true_random=False))
def test_the_deal_does_not_depend_on_the_order_of_the_data_invariant_2(
    users: list[Scenario], seed: int, shuffled: random.Random
) -> None:
    other = list(users)
    shuffled.shuffle(other)
    sizes = {"train": 5, "validation": 4, "test": 6, "seed": seed}
    assert split_by_group(other, **sizes) == split_by_group(users, **sizes)


def test_the_same_seed_deals_the_same_and_another_seed_differently(users: list[Scenario]) -> None:
    deals = [ids(split_by_group(users, train=6, validation=6, test=6, seed=seed)) for seed in (1, 1, 2)]
    assert deals[0] == deals[1] != deals[2]
    assert deals[0] != [sorted(split) for split in deals[0]]


def test_a_larger_test_split_takes_no_user_out_of_training_invariant_3(users: list[Scenario]) -> None:
    small = ids(split_by_group(users, train=4, validation=4, test=2, seed=3))
    large = ids(split_by_group(users, train=4, validation=4, test=9, seed=3))
    assert large[:2] == small[:2]
    assert large[2][:2] == small[2]


def test_all_users_may_be_dealt_but_not_one_more(users: list[Scenario]) -> None:
    whole = ids(split_by_group(users, train=6, validation=6, test=6, seed=0))
    assert sorted(user for split in whole for user in split) == [user.id for user in users]
    with pytest.raises(
        ValueError, match=r"ask for 19 users \(6 train, 6 validation, 7 test\), but the data has 18; lower"
    ):
        split_by_group(users, train=6, validation=6, test=7, seed=0, noun="user")


def test_a_user_that_occurs_twice_is_refused_by_name(users: list[Scenario]) -> None:
    with pytest.raises(ValueError, match="users user-03 occur more than once"):
        split_by_group([*users, users[3]], train=1, validation=1, test=1, seed=0, noun="user")


def test_dealing_leaves_the_data_and_the_global_random_numbers_alone(users: list[Scenario]) -> None:
    before, state = list(users), random.getstate()
    split_by_group(users, train=6, validation=6, test=6, seed=0)
    assert users == before
    assert random.getstate() == state


def test_splits_cannot_be_changed(users: list[Scenario]) -> None:
    splits = split_by_group(users, train=1, validation=1, test=1, seed=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        splits.train = ()  # type: ignore[misc]


def test_the_test_split_may_come_from_other_data_than_the_rest(users: list[Scenario]) -> None:
    sizes = {"train": 6, "validation": 6, "test": 3, "seed": 0}
    splits = split_by_group(users[:12], **sizes, sealed=users[12:])
    train, validation, test = ids(splits)
    assert sorted([*train, *validation]) == [user.id for user in users[:12]]
    assert set(test) < {user.id for user in users[12:]}
    assert split_by_group(users[:12], **sizes, sealed=users[:11:-1]) == splits
    with pytest.raises(ValueError, match=r"ask for 7 users \(7 test\), but `test_data` has 6"):
        split_by_group(users[:12], train=6, validation=6, test=7, seed=0, noun="user", sealed=users[12:])


def test_a_user_of_the_search_is_refused_in_the_test_s_own_data(users: list[Scenario]) -> None:
    with pytest.raises(ValueError, match="user user-09 is in `data` and in `test_data`"):
        split_by_group(users[:10], train=1, validation=1, test=1, seed=0, noun="user", sealed=users[9:])


# Groups of several tasks


@given(
    members=st.lists(st.integers(1, 4), min_size=3, max_size=9),
    seed=st.integers(),
    shuffled=st.randoms(use_true_random=False),
)
def test_tasks_of_one_group_stay_together_in_their_order_invariants_1_2(
    members: list[int], seed: int, shuffled: random.Random
) -> None:
    tasks: list[Task] = [
        HandMade(f"task-{g}-{n}", group=f"shop-{g}") for g, count in enumerate(members) for n in range(count)
    ]
    shuffled.shuffle(tasks)
    sizes = {"train": 1, "validation": 1, "test": len(members) - 2, "seed": seed}
    splits = split_by_group(tasks, **sizes)
    groups = [*splits.train, *splits.validation, *splits.test]
    assert sorted(group.id for group in groups) == [f"shop-{g}" for g in range(len(members))]
    for group in groups:
        assert list(group.tasks) == [task for task in tasks if task.group == group.id]
    assert len(tasks_of(groups)) == len(tasks)


def test_splits_are_counted_in_groups_and_not_in_tasks() -> None:
    tasks = [HandMade(f"task-{i}", group=f"shop-{i % 3}") for i in range(9)]
    assert [len(tasks_of(split_by_group(tasks, train=1, validation=1, test=1, seed=0).train)), len(tasks)] == [3, 9]
    with pytest.raises(ValueError, match=r"ask for 4 shops .*, but the data has 3; lower `splits` or load more shops"):
        split_by_group(tasks, train=2, validation=1, test=1, seed=0, noun="shop")


def test_a_task_that_occurs_twice_is_refused_even_in_two_groups() -> None:
    tasks = [HandMade("task-1", group="shop-1"), HandMade("task-2", group="shop-2"), HandMade("task-1", group="shop-2")]
    with pytest.raises(ValueError, match="task-1 occur more than once"):
        split_by_group(tasks, train=1, validation=1, test=0, seed=0)

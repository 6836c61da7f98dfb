"""What follows from a life without asking anybody."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.dialogue.scenario import UserProfile
from mnemotune.env.dialogue.compat import NONE
from mnemotune.env.dialogue.generation.checks import Draft, PeriodChange
from mnemotune.env.dialogue.generation.life import (
    Life,
    lived_variants,
    session_times,
    shuffled,
    update_counts,
    variants_to_answer,
)
from mnemotune.env.dialogue.generation.plan import GenerationPlan

VALUES = ("low", "mid", "high")
INFOS = ("pet", "flat", "job", "mood")
PROFILE = UserProfile(formatted_str="name: Ann")

updates = st.lists(
    st.dictionaries(st.sampled_from(INFOS), st.sampled_from(VALUES), min_size=1), min_size=0, max_size=12
)
seeds = st.integers(0, 5)


def live(changes: list[dict[str, str]], *, user: str = "ann") -> Life:
    schema = dict.fromkeys(INFOS, VALUES)
    drafts = [Draft("A?", {"pet": VALUES, "flat": VALUES}), Draft("B?", {"job": VALUES, "mood": VALUES})]
    return Life(user, PROFILE, drafts, schema, dict.fromkeys(INFOS, "low"), [PeriodChange("", one) for one in changes])


@given(updates, seeds, st.integers(2, 9))
def test_every_state_lived_has_an_answer_and_fillers_were_never_lived(
    changes: list[dict[str, str]], seed: int, fewest: int
) -> None:
    life, plan = live(changes), GenerationPlan(seed=seed, min_variants=fewest)
    for q, draft in enumerate(life.drafts):
        variants, in_life = variants_to_answer(life, q, plan), lived_variants(life, q)
        states = [tuple(state[info] for info in draft.infos) for state in life.states]
        assert in_life == list(dict.fromkeys(states)), "in the order in which they came"
        assert variants[: len(in_life)] == in_life
        assert len(set(variants)) == len(variants) == max(fewest, len(in_life))
        assert set(variants) <= set(product(VALUES, VALUES))
        assert variants == variants_to_answer(life, q, plan)


def test_fillers_differ_between_seeds_and_users() -> None:
    drawn = {
        tuple(variants_to_answer(live([], user=user), 0, GenerationPlan(seed=seed)))
        for user in ("ann", "ben")
        for seed in range(5)
    }
    assert len(drawn) > 5


@given(st.integers(2, 12), seeds)
def test_choices_are_shuffled_the_same_way_each_time_and_not_at_all_by_name(count: int, seed: int) -> None:
    order = shuffled(count, seed=seed, user="ann", q=0, compat=NONE)
    assert sorted(order) == list(range(count))
    assert order == shuffled(count, seed=seed, user="ann", q=0, compat=NONE)
    assert shuffled(count, seed=seed, user="ann", q=0, compat={"unshuffled_choices"}) == list(range(count))


def test_any_choice_comes_first_as_often() -> None:
    firsts = Counter(shuffled(4, seed=seed, user="ann", q=0, compat=NONE)[0] for seed in range(2000))
    assert all(400 < firsts[choice] < 600 for choice in range(4))


@given(st.integers(0, 40), st.dates(date(1990, 1, 1), date(2090, 1, 1)), seeds, st.integers(0, 9))
def test_sessions_are_on_the_last_evenings_of_a_period(count: int, end: date, seed: int, period: int) -> None:
    times = session_times(count, end, seed=seed, user="ann", period=period)
    read = [datetime.fromisoformat(time) for time in times]
    assert [time.date() for time in read] == [end - timedelta(days=d) for d in range(count - 1, -1, -1)]
    assert all("19:00:00" <= time[11:] <= "22:00:00" for time in times)


@given(updates)
def test_counts_grow_by_what_changes_and_by_name_are_the_final_ones(changes: list[dict[str, str]]) -> None:
    life = live(changes)
    counts = [update_counts(life, p) for p in range(len(changes) + 1)]
    assert counts[0] == dict.fromkeys(INFOS, 0)
    for before, after, one in zip(counts, counts[1:], changes, strict=False):
        assert {info for info in INFOS if after[info] > before[info]} == one.keys()
    assert update_counts(life) == counts[-1]

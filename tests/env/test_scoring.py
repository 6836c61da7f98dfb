"""What the scores of any track say, worked by hand.

Invariants:

1. Accuracy and the shares of write, read and utilisation sum to 1 wherever anything is scored, else all are NaN.
2. A stage's scores depend on nothing that comes after it, and not on the order of checks or of a group's tasks.
3. A check that is unscored leaves no trace in any share or bound.
4. In stage 0 nothing can be lost in reading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mnemotune.data.task import checks_at
from mnemotune.env.episode import Bounds, Episode, Mark, StageRecord
from mnemotune.env.scoring import (
    FAILURE_KINDS,
    LEAST_HEADROOM,
    Diagnosis,
    GroupScore,
    StageScore,
    by_stage,
    failure_weights,
    marked,
    score_group,
    value_of,
)
from tasks import HandMade, quiz

NAN = math.nan

Marks = Mapping[str, tuple[float, Mapping[str, bool | None]]]
"""By check: how it was answered, and what was recalled of what it needs."""
Played = tuple[HandMade, Episode, Bounds]


def play(task: HandMade, marks: Marks, *, ends: Sequence[Mapping[str, bool]] = ()) -> Episode:
    """Make an episode with these marks; ``ends`` is what was known at the end of each stage besides."""
    recalled = [*ends, *[{}] * (task.stages - len(ends))]
    stages = [
        StageRecord(marks=tuple(Mark(check.id, "", *marks[check.id]) for check in checks_at(task, s)), recalled=known)
        for s, known in enumerate(recalled)
    ]
    return Episode(task.id, "key", tuple(stages))


def between(task: HandMade, floor: Mapping[str, float] | float, ceiling: Mapping[str, float] | float) -> Bounds:
    """Make bounds, by check or the same for all."""

    def marks(scores: Mapping[str, float] | float) -> dict[str, Mark]:
        return {c: Mark(c, "", scores if isinstance(scores, float) else scores[c]) for c in task.checks}

    return Bounds(marks(floor), marks(ceiling))


def shares(diagnosis: Diagnosis) -> tuple[float, float, float, float]:
    return diagnosis.accuracy, diagnosis.write, diagnosis.read, diagnosis.utilisation


def stage_score(accuracy: float, floor: float, ceiling: float, *, least_headroom: float | None = 0.05) -> StageScore:
    diagnosis = Diagnosis(accuracy, 1 - accuracy, 0.0, 0.0, 10)
    return StageScore(floor, ceiling, diagnosis, unparsable=0, least_headroom=least_headroom)


# The memory score


@pytest.mark.parametrize(
    ("accuracy", "floor", "ceiling", "score"),
    [
        (0.25, 0.25, 0.9, 0.0),
        (0.9, 0.25, 0.9, 1.0),
        (0.5, 0.25, 0.75, 0.5),
        (0.0, 0.25, 0.75, -0.5),
        (1.0, 0.25, 0.75, 1.5),
        (0.367, 0.231, 0.917, 0.19825),
    ],
)
def test_the_memory_score_runs_from_the_floor_to_the_ceiling(
    accuracy: float, floor: float, ceiling: float, score: float
) -> None:
    for least in (LEAST_HEADROOM, None):
        found = stage_score(accuracy, floor, ceiling, least_headroom=least)
        assert found.memory_score == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("least", [LEAST_HEADROOM, None])
@pytest.mark.parametrize(
    ("floor", "ceiling"), [(0.25, 0.25), (0.1 + 0.2, 0.3), (0.3, 0.1 + 0.2), (NAN, 0.5), (0.5, NAN)]
)
def test_without_headroom_there_is_no_memory_score(floor: float, ceiling: float, least: float | None) -> None:
    assert math.isnan(stage_score(0.5, floor, ceiling, least_headroom=least).memory_score)


@pytest.mark.parametrize(
    ("floor", "ceiling", "is_scored"),
    [(0.25, 0.29, False), (0.25, 0.30, True), (0.95, 1.0, True), (0.1 + 0.2, 0.35, True), (0.5, 0.2, False)],
)
def test_a_headroom_below_a_twentieth_is_unscored_unless_nothing_is_guarded(
    floor: float, ceiling: float, is_scored: bool
) -> None:
    found = stage_score(0.4, floor, ceiling)
    assert found.is_scored == is_scored == (not math.isnan(found.memory_score))
    unguarded = stage_score(0.4, floor, ceiling, least_headroom=None)
    assert unguarded.memory_score == (0.4 - floor) / (ceiling - floor)


def test_unguarded_a_ceiling_below_the_floor_turns_the_ratio_round() -> None:
    """As AMemGym's does; where it happens over all, a search refuses to begin."""
    assert stage_score(0.0, 0.25, 0.0, least_headroom=None).memory_score == 1.0
    assert stage_score(0.5, 0.25, 0.0, least_headroom=None).memory_score == -1.0


def test_a_groups_score_is_the_mean_of_ratios() -> None:
    """AMemGym's: (0.5 + 0) / 2, and not the ratio of the means, which is 0.25 / 1.125."""
    group = GroupScore("ann", (stage_score(0.5, 0.25, 0.75), stage_score(0.25, 0.25, 1.0)))
    assert group.memory_score == pytest.approx(0.25)
    assert group.accuracy == pytest.approx(0.375)


def test_an_unscored_stage_is_left_out_and_counted_and_unguarded_makes_the_group_unknown() -> None:
    """Of three stages the second has no headroom; nothing was asked in the third, which is nobody's fault."""
    stages = (stage_score(0.5, 0.25, 0.75), stage_score(0.9, 0.25, 0.25), stage_score(NAN, NAN, NAN))
    group = GroupScore("ann", stages)
    assert (group.memory_score, group.without_headroom) == (0.5, (1,))
    assert group.accuracy == pytest.approx(0.7)
    assert math.isnan(GroupScore("ann", stages, guarded=False).memory_score)
    assert GroupScore("ann", stages[:1], guarded=False).memory_score == 0.5


# Groups


def three_stages(name: str, *, group: str = "shop") -> HandMade:
    """Make a task of three stages, at each of which the same thing is asked for."""
    return quiz(name, group=group, stages=3, tells={"k": 0}, asks={f"x@{s}": (s, ("k",)) for s in range(3)})


def test_accuracy_and_bounds_by_hand() -> None:
    """Five checks: 3 right of 5, the floor 1/4, and 4 of the 5 right with the facts given."""
    task = quiz("a", tells={"k": 0}, asks=dict.fromkeys("abcde", (0, ("k",))))
    marks: Marks = {name: (float(name in "abc"), {"k": True}) for name in "abcde"}
    bounds = between(task, 0.25, {name: float(name != "e") for name in "abcde"})
    group = score_group("shop", [(task, play(task, marks), bounds)])
    (stage,) = group.stages
    assert (stage.accuracy, stage.floor, stage.ceiling) == pytest.approx((0.6, 0.25, 0.8))
    assert stage.memory_score == pytest.approx((0.6 - 0.25) / (0.8 - 0.25))
    assert (stage.diagnosis.checks, stage.unparsable) == (5, 0)
    assert (group.group, group.memory_score, group.accuracy) == ("shop", stage.memory_score, stage.accuracy)


def test_checks_of_a_groups_tasks_at_one_stage_count_alike_whichever_task_asks_them() -> None:
    """At stage 0 four checks of two tasks, .25 + 1 + 1 + .75: the mean is 3/4, and not the mean of tasks' means, .625.

    Only the longer task has a stage 1.
    """
    short = quiz("a", tells={"k": 0}, asks={"x": (0, ("k",))})
    long = quiz("b", stages=2, tells={"k": 0}, asks={**dict.fromkeys("pqr", (0, ("k",))), "p@1": (1, ("k",))})
    known = {"k": True}
    played: list[Played] = [
        (short, play(short, {"x": (0.25, known)}), between(short, 0.0, 0.5)),
        (
            long,
            play(long, {"p": (1.0, known), "q": (1.0, known), "r": (0.75, known), "p@1": (0.0, {"k": False})}),
            between(long, 0.4, 1.0),
        ),
    ]
    group = score_group("shop", played)
    first, second = group.stages
    assert shares(first.diagnosis) == (0.75, 0.0, 0.0, 0.25)
    assert (first.floor, first.ceiling, first.diagnosis.checks) == pytest.approx((0.3, 0.875, 4))
    assert first.memory_score == pytest.approx((0.75 - 0.3) / (0.875 - 0.3))
    assert shares(second.diagnosis) == (0.0, 0.0, 1.0, 0.0)
    assert (second.floor, second.ceiling, second.diagnosis.checks) == (0.4, 1.0, 1)
    assert score_group("shop", played[::-1]) == group


def test_facts_of_one_name_in_two_tasks_of_a_group_are_two_facts() -> None:
    """What the first task never recorded, the second one did: half of what is lost is write, half is read."""
    a, b = three_stages("a"), three_stages("b")
    lost: Marks = {f"x@{s}": (0.0, {"k": False}) for s in range(3)}
    first = {**lost, "x@0": (0.0, {"k": True})}
    bounds = between(a, 0.0, 1.0)
    group = score_group("shop", [(a, play(a, lost), bounds), (b, play(b, first), bounds)])
    assert [shares(stage.diagnosis)[1:] for stage in group.stages] == [(0.5, 0, 0.5), (0.5, 0.5, 0), (0.5, 0.5, 0)]


def test_only_recorded_stages_are_scored() -> None:
    task = three_stages("a")
    episode = play(task, {f"x@{s}": (1.0, {"k": True}) for s in range(3)})
    begun = Episode("a", "key", episode.stages[:2])
    bounds = between(task, 0.0, 1.0)
    assert len(score_group("shop", [(task, begun, bounds)]).stages) == 2
    assert score_group("shop", [(task, begun, bounds), (task, episode, bounds)]).stages[2].diagnosis.checks == 1


def test_a_stage_without_scored_checks_is_unscored_and_not_zero() -> None:
    task = quiz("a", stages=2, tells={"k": 0}, asks={"x": (1, ("k",))})
    group = score_group("shop", [(task, play(task, {"x": (NAN, {"k": False})}), between(task, 0.25, 1.0))])
    assert len(group.stages) == 2
    for stage in group.stages:
        numbers = (stage.floor, stage.ceiling, stage.memory_score, *shares(stage.diagnosis))
        assert all(math.isnan(number) for number in numbers)
        assert stage.diagnosis.checks == 0
    assert math.isnan(group.memory_score)
    assert math.isnan(group.accuracy)
    assert group.without_headroom == ()


def test_a_reply_that_cannot_be_read_is_counted() -> None:
    task = quiz("a", tells={}, asks={"x": (0, ()), "y": (0, ())})
    marks = (Mark("x", "dunno", 0.0, readable=False), Mark("y", "1", 1.0))
    (stage,) = score_group(
        "shop", [(task, Episode("a", "k", (StageRecord(marks=marks),)), between(task, 0.0, 1.0))]
    ).stages
    assert (stage.unparsable, stage.accuracy) == (1, 0.5)


def test_means_by_stage_are_over_the_groups_that_have_it() -> None:
    scores = [
        GroupScore("ann", (stage_score(0.5, 0.25, 0.75), stage_score(0.7, 0.25, 1.0))),
        GroupScore("ben", (stage_score(0.2, 0.2, 0.6),)),
    ]
    assert by_stage(scores, "accuracy") == pytest.approx([0.35, 0.7])
    assert by_stage(scores, "memory_score") == pytest.approx([0.25, 0.6])
    assert by_stage([], "write") == []


def test_a_stages_figures_have_names() -> None:
    stage = StageScore(0.25, 0.75, Diagnosis(0.5, 0.3, 0.15, 0.05, 20), unparsable=0)
    names = ("accuracy", "floor", "ceiling", "memory_score", *FAILURE_KINDS)
    assert [value_of(stage, name) for name in names] == [0.5, 0.25, 0.75, 0.5, 0.3, 0.15, 0.05]


# Where memory failed


def test_what_is_partly_right_loses_only_the_rest() -> None:
    """Scores .25 and .5: of the loss of .75 a third was never recorded; the loss of .5 is a matter of utilisation."""
    task = quiz(
        "a",
        stages=2,
        tells=dict.fromkeys("klm", 0),
        asks={"x@0": (0, tuple("klm")), "x": (1, tuple("klm")), "y": (1, ())},
    )
    then, now = {"k": False, "l": True, "m": True}, dict.fromkeys("klm", False)
    marks: Marks = {"x@0": (1.0, then), "x": (0.25, now), "y": (0.5, {})}
    group = score_group("shop", [(task, play(task, marks), between(task, 0.0, 1.0))])
    assert shares(group.stages[0].diagnosis) == (1.0, 0.0, 0.0, 0.0)
    assert shares(group.stages[1].diagnosis) == pytest.approx((0.375, 0.125, 0.25, 0.25))


LATER = quiz("a", stages=3, tells={"k": 0, "l": 1}, asks={"x": (2, ("k", "l")), "y@0": (0, ("k",)), "z@1": (1, ("l",))})


@pytest.mark.parametrize(
    ("ends", "weights"),
    [
        ([{"k": True}, {"l": True}], (0, 1, 0)),
        ([{"k": False}, {"l": True}], (0.5, 0.5, 0)),
        ([{"k": False}, {"l": False}], (1, 0, 0)),
        ([{"k": False}, {"k": True, "l": True}], (0.5, 0.5, 0)),
        ([{}, {"l": True}], (NAN, NAN, NAN)),
        ([], (NAN, NAN, NAN)),
    ],
    ids=[
        "both",
        "one",
        "none",
        "what came between does not count",
        "unknown where nobody asked",
        "nobody asked at all",
    ],
)
def test_where_a_question_was_not_put_yet_what_was_known_at_the_end_of_the_telling_stage_decides(
    ends: list[dict[str, bool]], weights: tuple[float, float, float]
) -> None:
    """Other questions were put about the same facts when they were told; they do not count."""
    marks: Marks = {
        "x": (0.0, {"k": False, "l": False}),
        "y@0": (1.0, {"k": True}),
        "z@1": (0.0, {"l": False}),
    }
    episode = play(LATER, marks, ends=ends)
    ((check, mark),) = marked(LATER, episode, 2)
    assert failure_weights(check, mark, LATER, episode.stages) == pytest.approx(weights, nan_ok=True)


@pytest.mark.parametrize(
    ("then", "end", "weights"),
    [(True, False, (0, 1, 0)), (False, True, (1, 0, 0)), (None, True, (0, 1, 0)), (None, False, (1, 0, 0))],
)
def test_the_same_question_counts_before_the_end_of_the_stage_unless_it_was_not_asked(
    then: bool | None, end: bool, weights: tuple[float, float, float]
) -> None:
    task = quiz("a", stages=2, tells={"k": 0}, asks={"x@0": (0, ("k",)), "x@1": (1, ("k",))})
    episode = play(task, {"x@0": (0.0, {"k": then}), "x@1": (0.0, {"k": False})}, ends=[{"k": end}])
    ((check, mark),) = marked(task, episode, 1)
    assert failure_weights(check, mark, task, episode.stages) == weights


@pytest.mark.parametrize("recalled", [{}, {"k": None, "l": True}, {"k": False}])
def test_a_fact_that_was_never_asked_for_counts_neither_as_known_nor_as_unknown(
    recalled: Mapping[str, bool | None],
) -> None:
    episode = play(LATER, {"y@0": (1.0, {}), "z@1": (1.0, {}), "x": (0.0, recalled)}, ends=[{"k": True}, {"l": True}])
    ((check, mark),) = marked(LATER, episode, 2)
    assert all(map(math.isnan, failure_weights(check, mark, LATER, episode.stages)))


def test_where_nobody_asked_what_is_recalled_there_are_no_shares() -> None:
    task = three_stages("a")
    marks: Marks = {"x@0": (0.0, {"k": None}), "x@1": (1.0, {"k": True}), "x@2": (1.0, {})}
    group = score_group("shop", [(task, play(task, marks), between(task, 0.0, 1.0))])
    assert [stage.accuracy for stage in group.stages] == [0.0, 1.0, 1.0]
    assert [math.isnan(stage.diagnosis.write) for stage in group.stages] == [True, False, True]


# Any episode


Game = tuple[HandMade, Marks, Bounds, list[dict[str, bool]]]
"""A task, how it was played between which bounds, and what was known at the end of each stage."""


@st.composite
def games(draw: st.DrawFn) -> Game:
    """Make a task of two questions with two facts each, some of them told anew, and how it was played."""
    stages = draw(st.integers(1, 4))
    tells = {f"{key}@{s}": s for key in "klmn" for s in range(stages) if s == 0 or draw(st.booleans())}

    def newest(key: str, stage: int) -> str:
        return f"{key}@{max(s for fact, s in tells.items() if fact[0] == key and s <= stage)}"

    asks = {
        f"{name}@{s}": (s, tuple(newest(key, s) for key in keys))
        for s in range(stages)
        for name, keys in (("x", "kl"), ("y", "mn"))
        if draw(st.integers(0, 3))
    }
    task = quiz("a", stages=stages, tells=tells, asks=asks)
    scores = st.sampled_from([0.0, 0.25, 0.5, 1.0, NAN])
    marks = {c.id: (draw(scores), {f: draw(st.booleans()) for f in c.needs}) for c in task.checks.values()}
    bounds = between(
        task,
        {c: draw(st.sampled_from([0.0, 0.25])) for c in asks},
        {c: draw(st.sampled_from([0.0, 0.5, 1.0])) for c in asks},
    )
    ends = [{fact: draw(st.booleans()) for fact, since in tells.items() if since == s} for s in range(stages)]
    return task, marks, bounds, ends


def scored(game: Game) -> GroupScore:
    task, marks, bounds, ends = game
    return score_group("shop", [(task, play(task, marks, ends=ends), bounds)])


def alike(a: StageScore, b: StageScore) -> bool:
    flat = [(x.floor, x.ceiling, x.unparsable, *astuple(x.diagnosis)) for x in (a, b)]
    return flat[0] == pytest.approx(flat[1], nan_ok=True)


@given(game=games())
def test_accuracy_and_shares_sum_to_1_invariant_1(game: Game) -> None:
    task, marks, _, _ = game
    for s, stage in enumerate(scored(game).stages):
        known = [marks[check.id][0] for check in checks_at(task, s) if not math.isnan(marks[check.id][0])]
        parts = shares(stage.diagnosis)
        assert stage.diagnosis.checks == len(known)
        if known:
            assert sum(parts) == pytest.approx(1)
            assert all(0 <= part <= 1 for part in parts)
            assert parts[0] == pytest.approx(sum(known) / len(known))
        else:
            assert all(math.isnan(part) for part in parts)


@given(game=games())
def test_in_stage_0_nothing_is_lost_in_reading_invariant_4(game: Game) -> None:
    first = scored(game).stages[0].diagnosis
    assert first.checks == 0 or first.read == 0


@given(game=games())
def test_a_stage_knows_nothing_of_later_ones_invariant_2(game: Game) -> None:
    task, marks, bounds, ends = game
    assume(task.stages > 1)
    shorter = HandMade(
        task.id,
        task.group,
        task.stages - 1,
        task.facts,
        {i: c for i, c in task.checks.items() if c.stage < task.stages - 1},
    )
    cut = scored((shorter, marks, bounds, ends[:-1]))
    assert all(alike(a, b) for a, b in zip(scored(game).stages[:-1], cut.stages, strict=True))


@given(game=games())
def test_the_order_of_checks_does_not_matter_invariant_2(game: Game) -> None:
    task, marks, bounds, ends = game
    turned = HandMade(task.id, task.group, task.stages, task.facts, dict(reversed(task.checks.items())))
    other = scored((turned, marks, bounds, ends))
    assert all(alike(a, b) for a, b in zip(scored(game).stages, other.stages, strict=True))


@given(game=games(), known=st.booleans())
def test_an_unscored_check_leaves_no_trace_invariant_3(game: Game, known: bool) -> None:
    """Question y is unscored: whatever was recalled there, the scores are as if it were not asked."""
    task, marks, bounds, ends = game
    unscored = {
        c: (NAN, dict.fromkeys(recalled, known)) if c.startswith("y") else (score, recalled)
        for c, (score, recalled) in marks.items()
    }
    only_x = HandMade(
        task.id, task.group, task.stages, task.facts, {i: c for i, c in task.checks.items() if i.startswith("x")}
    )
    a, b = scored((task, unscored, bounds, ends)), scored((only_x, marks, bounds, ends))
    assert all(alike(x, y) for x, y in zip(a.stages, b.stages, strict=True))

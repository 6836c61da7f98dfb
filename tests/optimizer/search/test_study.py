"""The study: an append-only log that says the same again when it is opened again.

Invariants, for any trials:
1. A trial read back from Optuna's storage is the trial that was written, NaN scores and missing policies included.
2. Trials are numbered 0, 1, 2, ... in the order in which they were written; nothing else can be written.
3. What was written never changes.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime
from typing import Any

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.storages import InMemoryStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState

from mnemotune.env import Summary
from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.proposers.numbers import NumberSampler, apply_point, distributions
from mnemotune.optimizer.study import Evidence, Study, Trial
from mnemotune.policies.lm import CALL_ROLES, Ledger
from mnemotune.policies.lm.ledger import Spend
from mnemotune.policies.policy import default_prompts

MakeStorage = Callable[[], str]
NAN = math.nan

texts = st.text(max_size=30)
scores = st.dictionaries(
    texts, st.floats(-3, 1) | st.just(NAN) | st.sampled_from([0.1 + 0.2, 1 / 3, -0.0, 5e-324]), max_size=4
)
counts = st.integers(0, 2**40)
ledgers = st.dictionaries(
    st.sampled_from(CALL_ROLES),
    st.builds(Spend, counts, counts, counts, counts, st.none() | st.floats(0, 1e6)),
    max_size=3,
).map(Ledger)


@st.composite
def placed(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a policy with its numbers, or none at all, or one that stands outside the space."""
    kind = draw(st.sampled_from(["none", "inside", "outside"]))
    if kind == "none":
        return {"policy": None}
    space = SearchConfig().space
    point = NumberSampler(space, [], seed=draw(st.integers(0, 2**31 - 1))).jump()
    reply = f"{draw(texts)}{{memories}}{draw(texts)}"
    prompts = default_prompts(point["mode"], point.get("store"))
    policy = apply_point(point, space, prompts | ({"reply": reply} if prompts else {}))
    if kind == "outside":
        return {"policy": policy}
    return {"policy": policy, "params": point, "distributions": distributions(point, space)}


@st.composite
def trials(draw: st.DrawFn, *, number: int = 0) -> Trial:
    share = st.just(math.nan) | st.floats(0, 1).map(lambda value: round(value, 6))
    return Trial(
        number=number,
        generation=draw(st.integers(0, 1000)),
        parent=draw(st.none() | st.integers(0, 1000)),
        change=draw(texts),
        decided_at=draw(st.sampled_from(["seed", "check", "screen", "race", "validate"])),
        accepted=draw(st.booleans()),
        reason=draw(texts),
        train=draw(scores),
        validation=draw(scores),
        summary=draw(
            st.none()
            | st.builds(Summary, policy=texts, accuracy=share, failures=st.dictionaries(texts, texts, max_size=2))
        ),
        evidence=tuple(
            draw(st.lists(st.builds(Evidence, st.sampled_from(["write", "read", "utilisation"]), texts), max_size=3))
        ),
        ledger=draw(ledgers),
        **draw(placed()),
    )


@given(trial=trials())
def test_a_trial_survives_the_way_to_optuna_and_back_invariant_1(kit: Any, trial: Trial) -> None:
    frozen = trial.as_optuna()
    frozen.number = trial.number
    assert kit.told(Trial.from_optuna(frozen)) == kit.told(trial)


@settings(max_examples=12, deadline=None)
@given(data=st.data(), count=st.integers(1, 4))
def test_a_study_opened_again_holds_exactly_what_was_written_invariant_1_and_3(
    kit: Any, make_storage: MakeStorage, data: st.DataObject, count: int
) -> None:
    storage = make_storage()
    written = [data.draw(trials(number=number)) for number in range(count)]
    study = Study(storage, name="evolution")
    for trial in written:
        study.append(trial)
    again = Study(storage, name="evolution")
    expected = [kit.told(trial) for trial in written]
    assert [kit.told(trial) for trial in study.trials] == expected
    assert [kit.told(trial) for trial in again.trials] == expected


def test_every_field_of_a_trial_is_kept(kit: Any) -> None:
    """Guards the round trip against a field that is added and not kept."""
    told = kit.told(kit.trial())["trial"]
    assert all(f"{field.name}=" in told for field in fields(Trial) if field.repr)


def test_a_study_says_when_a_trial_began_and_when_it_was_written_down(kit: Any, storage: str) -> None:
    moments = [datetime(2026, 3, 2, 9, minute, tzinfo=UTC) for minute in (0, 5)]
    study = Study(storage, name="evolution", clock=lambda: moments[1])
    study.append(kit.trial(0, began=moments[0]))
    study.append(kit.trial(1))
    for trials in (study.trials, Study(storage, name="evolution").trials):
        assert [(trial.began, trial.ended) for trial in trials] == [tuple(moments), (None, moments[1])]
    for frozen in optuna.load_study(study_name="evolution", storage=storage).trials:
        assert frozen.datetime_complete.astimezone(UTC) == moments[1], "Optuna's own pages tell the same"


@pytest.mark.parametrize("number", [-1, 0, 2, 7])
def test_only_the_next_number_can_be_appended_invariant_2(kit: Any, make_storage: MakeStorage, number: int) -> None:
    storage = make_storage()
    study = Study(storage, name="evolution")
    study.append(kit.trial(0))
    with pytest.raises(ValueError, match=f"trial {number} cannot be appended after 1 trials"):
        study.append(kit.trial(number, reason="out of order"))
    assert [trial.number for trial in study.trials] == [0]
    assert [trial.number for trial in Study(storage, name="evolution").trials] == [0]


def test_a_trial_that_another_process_wrote_is_not_written_over_or_doubled_invariant_2(
    kit: Any, make_storage: MakeStorage
) -> None:
    storage = make_storage()
    one, other = Study(storage, name="evolution"), Study(storage, name="evolution")
    one.append(kit.trial(0))
    with pytest.raises(ValueError, match="another process has written"):
        other.append(kit.trial(0))
    assert len(Study(storage, name="evolution").trials) == 1


def test_no_second_copy_of_what_was_written_is_kept(kit: Any, make_storage: MakeStorage) -> None:
    """A long search writes thousands of trials."""

    def alive() -> int:
        gc.collect()
        return sum(isinstance(each, FrozenTrial) for each in gc.get_objects())

    study, before = Study(make_storage(), name="evolution"), alive()
    for number in range(3):
        study.append(kit.trial(number))
    assert len(study.trials) == 3
    assert alive() == before


def test_trials_are_not_read_again_when_another_is_written(
    kit: Any, make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each trial of a long search would take longer and more memory than the one before."""
    study = Study(make_storage(), name="evolution")
    study.append(kit.trial(0))
    for storage in (RDBStorage, InMemoryStorage):
        monkeypatch.setattr(storage, "get_all_trials", lambda *_, **__: pytest.fail("all trials are read"))
    study.append(kit.trial(1))
    assert len(study.trials) == 2


def test_what_was_written_cannot_be_changed_through_the_study_invariant_3(kit: Any, make_storage: MakeStorage) -> None:
    study = Study(make_storage(), name="evolution")
    study.append(kit.trial(0))
    assert isinstance(study.trials, tuple)
    with pytest.raises(FrozenInstanceError):
        study.trials[0].reason = "another"


def test_two_studies_in_one_storage_do_not_see_each_other(kit: Any, make_storage: MakeStorage) -> None:
    storage = make_storage()
    Study(storage, name="evolution").append(kit.trial(0))
    other = Study(storage, name="other")
    assert other.trials == ()
    other.append(kit.trial(0, reason="of the other"))
    assert [trial.reason for trial in Study(storage, name="evolution").trials] == ["where the search starts"]


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({"decided_at": "seed"}, TrialState.COMPLETE),
        ({"decided_at": "validate"}, TrialState.COMPLETE),
        ({"decided_at": "race"}, TrialState.COMPLETE),
        ({"decided_at": "race", "summary": None}, TrialState.PRUNED),
        ({"decided_at": "race", "train": {"a": NAN}}, TrialState.PRUNED),
        ({"decided_at": "seed", "train": {"a": NAN, "b": NAN}}, TrialState.PRUNED),
        ({"decided_at": "check", "train": {}, "summary": None}, TrialState.FAIL),
        ({"decided_at": "check", "train": {}, "summary": None, "policy": None}, TrialState.FAIL),
        ({"decided_at": "screen", "train": {}, "summary": None}, TrialState.FAIL),
    ],
)
def test_optuna_learns_from_finished_races_only(
    kit: Any, make_storage: MakeStorage, values: dict[str, Any], state: TrialState
) -> None:
    storage = make_storage()
    study = Study(storage, name="evolution")
    study.append(kit.trial(0, **values))
    (frozen,) = optuna.load_study(study_name="evolution", storage=storage).get_trials()
    assert frozen.state == state
    assert (frozen.value is not None) == (state == TrialState.COMPLETE)
    assert study.trials[0].finished_race == (values["decided_at"] in {"seed", "validate"} or "summary" not in values)


def test_optuna_sees_the_score_and_each_known_users_score_at_its_place(kit: Any) -> None:
    frozen = kit.trial(0, train={"a": 0.5, "b": NAN, "c": 0.0}).as_optuna()
    assert frozen.value == 0.25
    assert frozen.intermediate_values == {0: 0.5, 2: 0.0}


def test_the_score_is_the_mean_over_users_with_a_score(kit: Any) -> None:
    assert kit.trial(0, train={"a": 0.5, "b": NAN, "c": -0.25}).score == 0.125
    assert math.isnan(kit.trial(0, train={"a": NAN}).score)
    assert math.isnan(kit.trial(0, train={}).score)


def test_a_candidate_that_waits_for_a_look_led_and_is_not_dropped(kit: Any) -> None:
    assert kit.trial(accepted=True, ahead=True).verdict == "accepted"
    assert kit.trial(1, accepted=False, ahead=True, led=False).verdict == "led"
    assert kit.trial(1, accepted=False, ahead=False).verdict == "dropped"
    assert kit.trial(1, accepted=False, led=True).verdict == "led", "older studies do not say who was ahead"


def test_the_best_trial_is_the_one_accepted_last(kit: Any, make_storage: MakeStorage) -> None:
    study = Study(make_storage(), name="evolution")
    expected = []
    for number, accepted in enumerate([True, False, True, False, False, True, False]):
        train = {"train0": 1.0 - number / 10}
        study.append(kit.trial(number, accepted=accepted, train=train))
        expected.append(number if accepted else expected[-1])
        assert study.best.number == expected[-1]
    assert expected == [0, 0, 2, 2, 2, 5, 5]


def test_raced_are_the_trials_with_a_score_for_the_whole_train_split(kit: Any, make_storage: MakeStorage) -> None:
    study = Study(make_storage(), name="evolution")
    for number, values in enumerate(
        [
            {"decided_at": "seed"},
            {"decided_at": "check", "train": {}, "summary": None},
            {"decided_at": "screen", "train": {}, "summary": None},
            {"decided_at": "race", "summary": None},
            {"decided_at": "race"},
            {"decided_at": "race", "train": {"train0": NAN}},
            {"decided_at": "validate"},
        ]
    ):
        study.append(kit.trial(number, **values))
    assert [t.number for t in study.trials if t.finished_race and not math.isnan(t.score)] == [0, 4, 6]


@settings(max_examples=12, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=8,
    )
)
def test_a_noted_value_comes_back_as_it_was(make_storage: MakeStorage, value: Any) -> None:
    storage = make_storage()
    study = Study(storage, name="evolution")
    study.note("other", "before")
    study.note("thing", value)
    assert study.noted("thing") == value
    again = Study(storage, name="evolution")
    assert again.noted("thing") == value
    assert again.noted("other") == "before"
    assert again.trials == ()


def test_a_note_can_be_written_anew_and_what_was_never_noted_is_none(make_storage: MakeStorage) -> None:
    study = Study(make_storage(), name="evolution")
    assert study.noted("thing") is None
    study.note("thing", 1)
    study.note("thing", 2)
    assert study.noted("thing") == 2


def test_notes_are_not_trials_and_do_not_stop_one_from_being_written(kit: Any, make_storage: MakeStorage) -> None:
    study = Study(make_storage(), name="evolution")
    study.note("thing", 1)
    study.append(kit.trial(0))
    assert len(study.trials) == 1
    assert study.noted("thing") == 1


def test_the_identity_stays_with_the_study_and_tells_it_apart(make_storage: MakeStorage) -> None:
    storage, other = make_storage(), make_storage()
    study = Study(storage, name="evolution")
    identity = study.identity
    assert identity
    assert study.identity == identity
    assert Study(storage, name="evolution").identity == identity
    assert Study(other, name="evolution").identity != identity

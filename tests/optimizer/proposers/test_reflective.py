"""The reflective proposer: it edits the prompts and numbers that a parent's failures belong to."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.env import Summary
from mnemotune.optimizer.study import Evidence

STAGES = ("write", "read", "utilisation")


def of_stage(bench: Any, *stages: str) -> tuple[Evidence, ...]:
    return tuple(failure for failure in bench.trial().evidence if failure.kind in stages)


@pytest.mark.parametrize(
    ("stage", "slots", "numbers"),
    [
        ("write", {"write"}, {"update_every", "roles"}),
        ("read", {"write", "merge", "reply"}, {"buffer_size", "top_k", "order", "diversity", "recency"}),
        ("utilisation", {"reply"}, set()),
    ],
)
def test_what_the_failures_belong_to_is_shown_with_them(
    bench: Any, stage: str, slots: set[str], numbers: set[str]
) -> None:
    pupil = bench.kit.pupil(edits=lambda text: f"{text}\nThink.")
    trials = [bench.trial(policy=bench.facts(), evidence=of_stage(bench, stage))]
    found = bench.propose("reflective", trials, model=pupil)
    assert bench.kit.shown(pupil, "current_prompts").keys() == slots
    assert bench.kit.shown(pupil, "current_numbers").keys() == numbers
    assert all(f"Stage: {stage}" in failure for failure in bench.kit.shown(pupil, "failures"))
    before, after = (policy.prompts.model_dump() for policy in (bench.facts(), found.policy))
    assert {name for name in before if before[name] != after[name]} == slots
    assert found.change.endswith(": More care helps.")
    assert all(f"{slot} prompt" in found.change for slot in slots)


def test_nothing_of_what_was_asked_is_kept(bench: Any) -> None:
    """A long search asks thousands of times."""
    import dspy
    from dspy.clients.base_lm import GLOBAL_HISTORY

    before = len(GLOBAL_HISTORY), len(dspy.settings.trace or ())
    trials = [bench.trial(policy=bench.facts(), evidence=of_stage(bench, "write"))]
    bench.propose("reflective", trials, model=bench.kit.pupil())
    assert (len(GLOBAL_HISTORY), len(dspy.settings.trace or ())) == before


@pytest.mark.parametrize(
    ("search", "slots", "numbers"),
    [
        ({"prompts": False}, set(), {"update_every", "roles"}),
        ({"numbers": False}, {"write"}, set()),
        ({"slots": ("merge", "reply")}, set(), {"update_every", "roles"}),
    ],
)
def test_what_may_not_change_is_not_asked_about(
    bench: Any, search: dict[str, Any], slots: set[str], numbers: set[str]
) -> None:
    pupil = bench.kit.pupil()
    trials = [bench.trial(policy=bench.facts(), evidence=of_stage(bench, "write"))]
    bench.propose("reflective", trials, model=pupil, **search)
    assert bench.kit.shown(pupil, "current_prompts").keys() == slots
    assert bench.kit.shown(pupil, "current_numbers").keys() == numbers


def test_the_numbers_of_a_parent_outside_the_space_are_left_alone(bench: Any) -> None:
    pupil, trials = bench.kit.pupil(), [bench.trial(policy=bench.facts(top_k=500))]
    found = bench.propose("reflective", trials, model=pupil)
    assert bench.kit.shown(pupil, "current_numbers") == {}
    assert found.policy.top_k == 500


def test_numbers_go_where_a_policy_keeps_them_and_are_told(bench: Any) -> None:
    changes = {"update_every": 6, "buffer_size": 9, "roles": "user", "top_k": 7, "order": "relevance"}
    pupil = bench.kit.says(bench.kit.reply({}, "Shorter lists.", **changes))
    made = {}
    for stage, names in (("write", "update_every 6, roles user"), ("read", "buffer_size 9, top_k 7, order relevance")):
        trials = [bench.trial(policy=bench.facts(), evidence=of_stage(bench, stage))]
        made[stage] = bench.propose("reflective", trials, model=pupil)
        assert made[stage].change == f"{names}: Shorter lists."
    write, read = (found.policy for found in made.values())
    assert write == bench.facts().model_copy(update={"update_every": 6, "write": write.write})
    assert (write.write.mode, write.write.roles) == ("facts", "user")
    assert read == bench.facts().model_copy(update={"buffer_size": 9, "top_k": 7, "read": read.read})
    assert read.read.order == "relevance"


@pytest.mark.parametrize(
    ("top_k", "problem"),
    [(0, "top_k: "), ("many", "top_k: "), (1, "numbers: outside search.space"), (61, "numbers: outside search.space")],
)
def test_a_number_out_of_bounds_is_refused_with_the_reason(bench: Any, top_k: int | str, problem: str) -> None:
    pupil = bench.kit.says(bench.kit.reply({}, top_k=top_k))
    trials = [bench.trial(policy=bench.facts(), evidence=of_stage(bench, "read"))]
    found = bench.propose("reflective", trials, model=pupil)
    assert found.policy is None
    assert found.change == f"top_k {top_k}: More care helps."
    assert found.problem.startswith(problem)


def test_there_must_be_failures_that_something_belongs_to(bench: Any) -> None:
    native = [bench.trial(policy=bench.kit.policy(mode="none"))]
    assert not bench.ready("reflective", native), "it has no prompt, and writes nothing"
    assert bench.ready("reflective", [bench.trial(evidence=of_stage(bench, "utilisation"))])
    facts = [bench.trial(policy=bench.facts(), evidence=of_stage(bench, "write"))]
    assert bench.ready("reflective", facts)
    assert bench.ready("reflective", facts, slots=("reply",)), "numbers are left"
    assert not bench.ready("reflective", facts, slots=("reply",), numbers=False)
    assert not bench.ready("reflective", [bench.trial(evidence=())])


def test_a_parent_without_failures_gives_way_to_one_that_has_some(bench: Any) -> None:
    trials = [bench.trial(evidence=()), bench.trial(1, policy=bench.facts(), train={"train0": -1.0, "train1": -1.0})]
    assert {bench.propose("reflective", trials, seed=seed).parent for seed in range(10)} == {1}


def test_stages_that_fail_more_are_worked_on_more(bench: Any) -> None:
    summary = Summary(policy="", accuracy=0.1, shares={"write": 0.8, "read": 0.0, "utilisation": 0.2})
    pupil = bench.kit.pupil()
    for seed in range(80):
        bench.propose("reflective", [bench.trial(policy=bench.facts(), summary=summary)], model=pupil, seed=seed)
    stages = [
        frozenset(stage for stage in STAGES if f"Stage: {stage}" in request.messages[-1].content)
        for request in pupil.requests
    ]
    assert stages.count(frozenset({"write"})) / 80 == pytest.approx(0.64, abs=0.12)
    assert stages.count(frozenset({"write", "utilisation"})) / 80 == pytest.approx(0.32, abs=0.12)
    assert not any("read" in drawn for drawn in stages)


def test_where_no_share_is_known_every_stage_with_failures_is_worked_on(bench: Any) -> None:
    summary = Summary(policy="", accuracy=0.1, shares=dict.fromkeys(STAGES, math.nan))
    pupil = bench.kit.pupil()
    for seed in range(20):
        bench.propose("reflective", [bench.trial(policy=bench.facts(), summary=summary)], model=pupil, seed=seed)
    shown = "".join(request.messages[-1].content for request in pupil.requests)
    assert all(f"Stage: {stage}" in shown for stage in STAGES)


def test_no_more_failures_are_shown_than_the_config_allows(bench: Any) -> None:
    pupil = bench.kit.pupil()
    bench.propose("reflective", [bench.trial(policy=bench.facts())], model=pupil, failures_shown=2)
    assert len(set(bench.kit.shown(pupil, "failures"))) == 2


@settings(deadline=None, max_examples=40)
@given(
    numbers=st.dictionaries(
        st.sampled_from(["update_every", "buffer_size", "roles", "top_k", "order", "mode"]),
        st.integers(-99, 99) | st.sampled_from(["user", "both", "time", "relevance", "7", "7.5"]),
    ),
    seed=st.integers(0, 9),
)
def test_no_number_whatsoever_makes_a_policy_outside_the_space(
    bench: Any, numbers: dict[str, int | str], seed: int
) -> None:
    model = bench.kit.says(bench.kit.reply({}, **numbers))
    found = bench.propose("reflective", [bench.trial(policy=bench.facts())], model=model, seed=seed)
    assert (found.policy is None) == bool(found.problem)
    if found.policy is not None:
        bench.kit.point(found.policy)


def test_without_routing_failures_of_all_stages_are_shown_untold_with_all_that_may_change(bench: Any) -> None:
    pupil = bench.kit.pupil()
    trials = [bench.trial(policy=bench.facts(), evidence=of_stage(bench, "utilisation"))]
    bench.propose("reflective", trials, model=pupil, routing=False)
    assert bench.kit.shown(pupil, "current_prompts").keys() == {"write", "merge", "reply"}
    numbers = {"update_every", "roles", "buffer_size", "top_k", "order", "diversity", "recency"}
    assert bench.kit.shown(pupil, "current_numbers").keys() == numbers
    told = bench.kit.shown(pupil, "failures")
    assert told
    assert not any("Stage: " in failure for failure in told)


def test_without_routing_any_failure_will_do_as_long_as_something_may_change(bench: Any) -> None:
    trials = [bench.trial(policy=bench.facts(), evidence=of_stage(bench, "utilisation"))]
    write_only = {"slots": ("write",), "numbers": False}
    assert not bench.ready("reflective", trials, **write_only)
    assert bench.ready("reflective", trials, routing=False, **write_only)

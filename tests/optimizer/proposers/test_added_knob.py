"""A knob is added by one row and the code that acts on it: here another package adds one, and everything knows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemotune.optimizer.config import ConfigError, load_config
from mnemotune.optimizer.proposers.numbers import apply_point
from mnemotune.optimizer.study import Trial
from mnemotune.optimizer.views.tracking.figures import policy_params
from mnemotune.policies import MemoryPolicy, PolicyError, dump_policy, load_policy
from mnemotune.policies.files import parse_policy
from mnemotune.policies.space import REGISTERED, Space, at_bounds, every_knob, markdown_table

DOCS = Path(__file__).parents[3] / "docs" / "space.md"


@pytest.fixture
def half_life() -> Iterator[None]:
    """Register the knob that the docs add as an example."""
    (program,) = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(program, {})  # noqa: S102 - our own docs
    yield
    REGISTERED.unregister("half_life")


def weight(policy: MemoryPolicy, age: int) -> float:
    """The code that acts on the knob."""
    half_life = policy.knob("half_life")
    assert isinstance(half_life, int)
    return float(0.5 ** (age / half_life))


def facts(bench: Any, half_life: int | None = None) -> Any:
    return bench.facts(knobs={} if half_life is None else {"half_life": half_life})


def proposed(bench: Any, name: str, trials: list[Trial], *, seeds: int = 12, **search: Any) -> list[MemoryPolicy]:
    policies = [bench.propose(name, trials, seed=seed, **search).policy for seed in range(seeds)]
    assert None not in policies
    return [policy for policy in policies if policy.write.mode != "none"]


@pytest.mark.parametrize("name", ["tpe", "gp", "random", "spread"])
def test_every_sampler_draws_it_within_its_limits(half_life: None, bench: Any, name: str) -> None:
    trials = [bench.trial(policy=facts(bench, 20))]
    for space, low, high in (({}, 1, 50), ({"half_life": [30, 40]}, 30, 40)):
        ages = {policy.knob("half_life") for policy in proposed(bench, name, trials, space=space)}
        assert len(ages) > 1
        assert all(low <= age <= high for age in ages if isinstance(age, int))


def test_it_is_crossed_by_itself(half_life: None, bench: Any) -> None:
    other = {"train": {"train0": 0.1, "train1": 0.9}}
    trials = [
        bench.trial(policy=facts(bench), train={"train0": 0.9, "train1": 0.1}),
        bench.trial(1, policy=facts(bench, 20), **other),
    ]
    found = [bench.propose("merge", trials, seed=seed) for seed in range(4)]
    assert all(one.change.endswith("from which it has: half_life") for one in found)
    assert {(one.parent, one.policy.knob("half_life")) for one in found} == {(0, 20), (1, 10)}


def test_a_language_model_is_told_of_it_and_may_change_it(half_life: None, bench: Any) -> None:
    model = bench.kit.says(bench.kit.reply({}, "Forget later.", half_life=30))
    read = tuple(failure for failure in bench.trial().evidence if failure.kind == "read")
    found = bench.propose("reflective", [bench.trial(policy=facts(bench), evidence=read)], model=model)
    assert bench.kit.shown(model, "current_numbers")["half_life"] == (
        "10 (1 to 50): talks after which a memory counts half"
    )
    assert found.policy == facts(bench, 30)
    assert found.change == "half_life 30: Forget later."


def test_views_and_docs_show_it(half_life: None, bench: Any) -> None:
    assert policy_params(facts(bench))["knobs.half_life"] == 10
    assert policy_params(facts(bench, 20))["knobs.half_life"] == 20
    assert facts(bench, 20).label == "facts+external(2,4,30,20)"
    (row,) = [line for line in markdown_table(every_knob()).splitlines() if "half_life" in line]
    assert row == (
        "| `half_life` | `knobs.half_life` | 1 to 50 | talks | when something is written | read | "
        "talks after which a memory counts half |"
    )
    assert at_bounds(facts(bench, 50), Space()) == {"half_life": 50}


def test_configs_narrow_it(half_life: None) -> None:
    search = load_config("quickstart.yaml", overrides=["search.space.half_life=[2, 4]"]).search
    assert search.space.limits["half_life"] == (2, 4)
    with pytest.raises(ConfigError, match=r"search\.space\.half_life\.0"):
        load_config("quickstart.yaml", overrides=["search.space.half_life=[0, 4]"])


def test_policies_keep_it_and_those_without_it_stay_what_they_were(half_life: None, bench: Any) -> None:
    policy, plain = facts(bench, 20), facts(bench)
    assert parse_policy(dump_policy(policy), where="mine") == policy
    assert MemoryPolicy.model_validate(policy.model_dump()) == policy
    assert policy.key != plain.key == facts(bench, 10).key
    assert "knobs" not in dump_policy(plain)
    assert (weight(policy, 20), weight(plain, 20)) == (0.5, 0.25)
    space = Space()
    for one in (policy, plain):
        point = space.point_of(one)
        assert point is not None
        assert apply_point(point, space, one.prompts.model_dump(exclude_none=True)) == one


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{write: {mode: none}, knobs: {half_life: 3}}", r"has no effect with write\.mode: none"),
        ("{write: {mode: none}, knobs: {colour: 3}}", r"knobs\.colour: no such knob; install or register what brings"),
        ("{write: {mode: none}, knobs: {half_life: 0}}", r"knobs\.half_life: 0 is not allowed"),
        ("{write: {mode: none}, knobs: {half_life: soon}}", r"knobs\.half_life: 'soon' is not allowed"),
        ("{write: {mode: none}, knobs: {half_life: [1]}}", r"knobs\.half_life"),
    ],
)
def test_a_policy_that_says_it_wrongly_is_refused(half_life: None, text: str, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        parse_policy(text, where="mine")


def test_without_its_package_nothing_is_left_of_it(bench: Any) -> None:
    assert "half_life" not in Space().limits
    assert "half_life" not in markdown_table(every_knob())
    with pytest.raises(ValueError, match=r"knobs\.half_life: no such knob"):
        facts(bench, 20)
    assert load_policy("awe").knobs.values == {}

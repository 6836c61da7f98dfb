"""Which policy the report recommends where tokens count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mnemotune.env import Summary
from mnemotune.env.cost import TurnCost
from mnemotune.optimizer.objectives import OBJECTIVES
from mnemotune.optimizer.search.front import placed
from mnemotune.optimizer.search.sealed import SealedTest
from mnemotune.optimizer.views.report import recommended


def sealed(*, evolved: float) -> SealedTest:
    """Return a sealed test in which seed and window have 0.1 with everybody."""
    scores = {"evolved": evolved, "seed": 0.1, "window": 0.1}
    return SealedTest(
        {name: Summary(policy=name, by_group={"ann": x, "bob": x + 0.01, "cat": x}) for name, x in scores.items()},
        done=True,
    )


def told(kit: Any, *trials: tuple[float, float], test: SealedTest | None = None) -> str:
    """Return what is recommended of trials, each a score and the tokens of a turn; the second one is the best."""
    made = [
        kit.trial(
            place,
            policy=kit.policy(place),
            train={"ann": score, "bob": score + 0.01},
            summary=Summary(policy="", per_turn=TurnCost(1.0, cost, 0.0)),
        )
        for place, (score, cost) in enumerate(trials)
    ]
    test = sealed(evolved=0.5) if test is None else test
    return recommended(placed(made), made[1], made[0], aim=OBJECTIVES.get("score"), noun="user", test=test)


def test_a_policy_that_keeps_the_gain_for_less_is_recommended_with_the_difference(kit: Any) -> None:
    text = told(kit, (0.1, 500), (0.5, 5000), (0.48, 900))
    assert "Where tokens count, take trial 2: 0.485 at 900 tokens a turn. Else take trial 1" in text
    assert "Their difference in memory score is -0.020 [-0.020, -0.020], paired." in text
    assert "No sealed test has seen trial 2." in text


def test_where_none_keeps_the_gain_the_evolved_policy_is_recommended(kit: Any) -> None:
    text = told(kit, (0.1, 500), (0.5, 5000), (0.2, 900))
    assert text.startswith("Recommended: trial 1, the evolved policy (0.505 on train users at 5,000 tokens a turn).")


def test_nothing_is_recommended_where_the_seed_policy_is_the_best(kit: Any) -> None:
    seed = kit.trial(summary=Summary(policy="", per_turn=TurnCost(1.0, 500.0, 0.0)))
    assert recommended(placed([seed]), seed, seed, aim=OBJECTIVES.get("score"), noun="user", test=SealedTest()) == ""


def test_nothing_is_recommended_where_costs_are_not_known(kit: Any) -> None:
    best, test = kit.trial(1, policy=kit.policy(1)), sealed(evolved=0.5)
    assert recommended([], best, kit.trial(), aim=OBJECTIVES.get("score"), noun="user", test=test) == ""


def test_nothing_is_recommended_that_the_sealed_test_does_not_show_to_be_better(kit: Any) -> None:
    text = told(kit, (0.1, 500), (0.5, 5000), (0.48, 900), test=sealed(evolved=0.1))
    assert text == (
        "No policy is recommended: the sealed test does not show that the evolved one is better than the seed policy"
        " and the window."
    )


def test_nothing_is_recommended_before_the_sealed_test_is_over(kit: Any) -> None:
    whole = sealed(evolved=0.5)
    begun = replace(whole, rows={"evolved": whole.rows["evolved"], "seed": whole.rows["seed"]}, done=False)
    for test, rivals in ((SealedTest(), "the seed policy and the window"), (begun, "the window")):
        text = told(kit, (0.1, 500), (0.5, 5000), test=test)
        assert text.endswith(f"has not shown yet that the evolved one is better than {rivals}.")


def test_where_evidence_is_compared_it_is_what_recommends(kit: Any) -> None:
    evidence = {"evolved": 0.9, "seed": 0.2, "window": 0.2}
    rows = {
        name: replace(row, evidence_by_group={"ann": evidence[name], "bob": evidence[name] + 0.01})
        for name, row in sealed(evolved=0.1).rows.items()
    }
    best, seed = kit.trial(1, policy=kit.policy(1)), kit.trial()
    given = {"noun": "user", "test": SealedTest(rows, done=True)}
    assert recommended([], best, seed, aim=OBJECTIVES.get("score"), **given).startswith("No policy is recommended")
    assert recommended([], best, seed, aim=OBJECTIVES.get("evidence-alone"), **given) == ""

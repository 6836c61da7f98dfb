"""What a turn of a talk costs where nobody asks questions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.cost import TurnCost, turn_cost
from mnemotune.policies.lm import CALL_ROLES, Ledger, Spend
from mnemotune.policies.lm.ledger import merged

LEDGER = Ledger(
    {
        "reply": Spend(10, 3, 5000, 600, 0.0),
        "write": Spend(5, 0, 1000, 100, None),
        "user": Spend(9, 0, 9999, 99, 0.0),
        "answer": Spend(40, 0, 99_999, 99, 0.0),
        "probe": Spend(40, 0, 99_999, 99, 0.0),
        "upper_bound": Spend(40, 0, 99_999, 99, 0.0),
    }
)
spends = st.builds(Spend, st.integers(1, 1000), st.just(0), st.integers(0, 10**6), st.integers(0, 10**5))


def test_a_turn_costs_its_reply_and_its_writes_and_nobodys_questions() -> None:
    cost = turn_cost(LEDGER)
    assert cost == TurnCost(calls=1.5, input_tokens=600.0, output_tokens=70.0)
    assert cost.tokens == 670.0


def test_a_policy_that_rewrites_its_prompts_pays_for_it() -> None:
    more = merged([LEDGER])
    more.by_role["propose"] = Spend(10, 0, 20_000, 1000, 0.0)
    assert turn_cost(more) == TurnCost(calls=2.5, input_tokens=2600.0, output_tokens=170.0)


def test_where_nobody_replied_nothing_is_known() -> None:
    assert turn_cost(Ledger({"write": Spend(5), "answer": Spend(5)})) is None


@given(by_role=st.dictionaries(st.sampled_from(CALL_ROLES), spends))
def test_a_turn_takes_at_least_one_call_and_survives_json(by_role: dict[str, Spend]) -> None:
    cost = turn_cost(Ledger(by_role))  # type: ignore[arg-type]
    assert (cost is None) == ("reply" not in by_role)
    if cost is not None:
        assert cost.calls >= 1
        told = cost.as_json()
        assert TurnCost(**told).as_json() == told


def test_where_nobody_talks_a_turn_is_an_answer() -> None:
    ledger = Ledger({"write": Spend(5, 0, 500, 50), "answer": Spend(10, 0, 1000, 100), "probe": Spend(9, 0, 900, 9)})
    assert turn_cost(ledger, "answer") == TurnCost(calls=1.5, input_tokens=150.0, output_tokens=15.0)

"""A task in the making: what a step has told, and what replaces it."""

from __future__ import annotations

import pytest

from mnemotune.data.task import TaskError
from mnemotune.data.tools.plot import Plot
from mnemotune.data.tools.row import Row, UserScenario
from mnemotune.data.tools.task import ToolsTask
from mnemotune.data.tools.workshop.database import domain_of

ROW = Row(id="x", user_scenario=UserScenario(instructions="Say little."))


def plot() -> Plot:
    return Plot("x", domain_of(0, 0).open())


def finished(plot: Plot) -> ToolsTask:
    return plot.finish(group="x", domain="workshop:0:0", row=ROW)


def test_two_values_of_one_key_in_one_step_are_refused() -> None:
    made = plot()
    said = made.say("My codes are AB12 and CD34.")
    made.learn(said, "AB12", "code", "What is the code?")
    with pytest.raises(TaskError, match=r"x: stage 0: code: is 'AB12' and 'CD34'; give them two keys"):
        made.learn(said, "CD34", "code", "What is the code?")


def test_a_value_that_is_learned_twice_is_one_fact() -> None:
    made = plot()
    said = made.say("My code is AB12.")
    first, again = (made.learn(said, "AB12", "code", "What is the code?") for _ in range(2))
    assert first == again


def test_two_values_of_one_step_with_two_keys_are_two_facts_of_one_line() -> None:
    made = plot()
    said = made.say("My codes are AB12 and CD34.")
    known = {name: made.learn(said, name, f"code {name[:1]}", f"What is code {name[:1]}?") for name in ("AB12", "CD34")}
    made.reply("{first}, {second}.", first=known["AB12"], second=known["CD34"])
    task = finished(made)
    assert len(task.facts) == 2
    assert len({check.text for check in task.checks.values()}) == 2


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_fact_ends_where_the_next_step_tells_its_key_in_whatever_order_they_are_learned(
    order: tuple[int, ...],
) -> None:
    made = plot()
    said = []
    for number in range(3):
        if number:
            made.next_stage()
        said.append(made.say(f"My code is AB{number}0."))
    known = {number: made.learn(said[number], f"AB{number}0", "code", "What is the code?") for number in order}
    made.reply("{a}, {b}, {c}.", a=known[0], b=known[1], c=known[2])
    facts = {fact.since: fact.until for fact in finished(made).facts.values()}
    assert facts == {0: 1, 1: 2, 2: None}


def test_a_value_that_is_told_again_still_holds() -> None:
    made = plot()
    said = [made.say("My code is AB12."), made.say("As I said, AB12.")]
    for told in said:
        known = made.learn(told, "AB12", "code", "What is the code?")
        made.reply("{code}.", code=known)
    assert [fact.until for fact in finished(made).facts.values()] == [None, None]

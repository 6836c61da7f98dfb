"""The workshop: its tasks, its tools, and that both are always the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.task import TaskError
from mnemotune.data.task_files import write_tasks
from mnemotune.data.tools.load import load_tools, open_world
from mnemotune.data.tools.row import EnvAssertion
from mnemotune.data.tools.task import tools_task
from mnemotune.data.tools.workshop.database import domain_of
from mnemotune.data.tools.world import ToolError, database_hash

TASKS = [tools_task(task) for task in load_tools("workshop")]


def test_there_are_30_customers_and_60_tasks_or_more_in_both_shapes() -> None:
    assert len({task.group for task in TASKS}) >= 30
    assert len({task.id for task in TASKS}) == len(TASKS) >= 60
    assert set(Counter(task.id.rpartition("-")[2] for task in TASKS)) == {"inside", "across"}


def test_a_plan_has_3_to_6_calls_of_8_to_12_tools() -> None:
    tools = domain_of(0, 0).tools
    assert 8 <= len(tools) <= 12
    assert {tool.writes for tool in tools.values()} == {True, False}
    for task in TASKS:
        calls = [step.tool for step in task.steps if step.kind == "call" and step.requestor == "assistant"]
        assert 3 <= len(calls) <= 6
        assert set(calls) <= tools.keys()


def test_every_value_that_is_asked_for_stands_in_what_tells_it() -> None:
    for task in TASKS:
        for check in task.checks.values():
            (fact,) = (task.facts[name] for name in check.needs)
            assert str(task.right(check)) in fact.text
            assert fact.text in fact.sources[0]
            assert str(task.right(check)) not in check.text


def test_across_calls_an_earlier_call_told_what_is_needed_and_a_value_is_overwritten() -> None:
    for task in TASKS:
        if task.id.endswith("across"):
            assert any(task.facts[check.needs[0]].since < check.stage - 1 for check in task.checks.values())
            assert any(fact.until is not None for fact in task.facts.values())


def test_the_same_source_gives_the_same_tasks_and_another_seed_others() -> None:
    first, second, other = (
        [tools_task(task) for task in load_tools(source)]
        for source in ("generated:2@7", "generated:2@7", "generated:2@8")
    )
    assert first == second
    assert [task.steps for task in first] != [task.steps for task in other]


def test_more_customers_leave_the_first_as_they_are() -> None:
    assert [task.id for task in load_tools("generated:12@7")][:6] == [task.id for task in load_tools("generated:3@7")]


@pytest.mark.parametrize("source", ["nothing", "generated:0", "generated:x", "generated:99999999"])
def test_an_unknown_source_is_explained(source: str) -> None:
    with pytest.raises(TaskError, match=f"{source}: write workshop"):
        load_tools(source)


def test_tasks_that_were_written_to_a_file_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    write_tasks(file, TASKS[:3], track="tools")
    assert [tools_task(task) for task in load_tools(str(file))] == TASKS[:3]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": 1}', "row 0: was not written by"),
        ('{"mnemotune": "codeqa", "task": {}}', "row 0: is a task of the track 'codeqa', not of tools"),
        ('{"mnemotune": "tools", "task": {}}', "row 0: id: "),
        ("{", "is not JSON: line 1"),
    ],
)
def test_a_file_of_other_things_is_refused(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(line, encoding="utf-8")
    with pytest.raises(TaskError, match=f"tasks.jsonl.*{problem}"):
        load_tools(str(file))


def test_a_task_of_an_unknown_domain_cannot_be_played() -> None:
    with pytest.raises(TaskError, match="domain: there is no moon:1:2; it is workshop:SEED:BRANCH"):
        open_world(replace(TASKS[0], domain="moon:1:2"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
)


@given(st.dictionaries(st.text(), JSON, min_size=2))
def test_the_hash_of_a_database_does_not_depend_on_the_order_of_keys(database: dict[str, object]) -> None:
    assert database_hash(database) == database_hash(dict(reversed(database.items())))


def test_the_hash_of_a_database_tells_values_apart() -> None:
    assert database_hash({"a": [1, 2]}) != database_hash({"a": [2, 1]})


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("get_order", {"order_id": "X-1"}, "orders: there is no 'X-1'"),
        ("get_order", {}, "get_order lacks order_id"),
        ("get_order", {"order_id": "X-1", "more": 1}, "get_order has no more"),
        ("sell_shop", {}, "there is no tool sell_shop"),
        ("find_parts", {"model_code": "X-1"}, "no part fits 'X-1'"),
        ("move_repair", {"booking_id": "X-1", "slot_id": "X-1"}, "bookings: there is no 'X-1'"),
    ],
)
def test_a_wrong_call_says_why_and_changes_nothing(name: str, arguments: dict[str, str], message: str) -> None:
    world = open_world(TASKS[0])
    before = world.hashes
    result = world.call(name, arguments)
    assert (result.error, result.value, world.hashes) == (True, message, before)


def test_worlds_are_apart() -> None:
    first, second = open_world(TASKS[0]), open_world(TASKS[0])
    assert first.hashes == second.hashes
    customer = next(iter(domain_of(0, 0).user_database["messages"]))
    assert not first.call("open_message", {"customer_id": customer}, "user").error
    assert first.hashes[0] == second.hashes[0]
    assert first.hashes[1] != second.hashes[1]


def test_the_agent_has_no_tool_of_the_customer_s() -> None:
    assert open_world(TASKS[0]).call("open_message", {"customer_id": "C-1"}).value == "there is no tool open_message"


def test_a_closed_order_is_not_redirected_and_an_open_one_not_returned() -> None:
    world, database = open_world(TASKS[0]), domain_of(0, 0).database
    by_status = {order["status"]: order for order in database["orders"].values()}
    delivered, opened = by_status["delivered"], by_status["open"]
    wrong = world.call("redirect_order", {"order_id": delivered["order_id"], "street": "1 Here"})
    assert wrong.value == f"orders: {delivered['order_id']!r} is delivered, not open"
    item = {"order_id": opened["order_id"], "item_id": opened["items"][0]["item_id"], "reason": "none"}
    assert world.call("return_part", item).value == f"orders: {opened['order_id']!r} is open, not delivered"


def test_an_unknown_assertion_is_named() -> None:
    with pytest.raises(ToolError, match="there is no assertion sun_shines"):
        open_world(TASKS[0]).holds(EnvAssertion(env_type="assistant", func_name="sun_shines", arguments={}))


def test_a_taken_slot_is_refused() -> None:
    world, database = open_world(TASKS[0]), domain_of(0, 0).database
    taken = next(slot["slot_id"] for slot in database["slots"].values() if not slot["free"])
    booking = next(iter(database["bookings"]))
    assert world.call("move_repair", {"booking_id": booking, "slot_id": taken}).value == f"slots: {taken!r} is taken"

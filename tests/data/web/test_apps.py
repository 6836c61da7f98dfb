"""The apps that ship, in a real Chromium: plans can be followed, and what is shown is what facts say.

Of each kind of story one task is played; all 72 under the marker ``slow``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from mnemotune.data.web.generator import APPS
from mnemotune.data.web.load import load_web
from mnemotune.data.web.server import app_names
from mnemotune.data.web.task import Step, WebTask, web_task
from mnemotune.data.web.verifier import state_hash, verify, verify_at
from web_driver import Driver, browsing, launched

in_one_loop = pytest.mark.asyncio(loop_scope="module")
"""The browser is started once."""
WINDOW = 2000
"""Characters of the newest observations that fit 500 tokens."""
DESKS = {task.id: web_task(task) for task in load_web("desks")}
ONE_OF_EACH = [f"{app}-0-0-{kind}" for app, parts in APPS.items() for kind in parts.stories]
ROUTES = {
    "depot": ["", "arrivals", "arrivals/2", "parcels", "notices", "tariff", "shelves", "rounds", "dispatch", "sheet"],
    "hall": ["", "calendar", "calendar/9", "bookings", "groups", "messages", "prices", "board", "desk", "invoices"],
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Any]:
    async with launched() as browser:
        yield browser


def test_every_app_that_ships_has_stories() -> None:
    assert sorted(APPS) == app_names() == sorted(ROUTES)


@pytest.mark.parametrize("name", ONE_OF_EACH)
@in_one_loop
async def test_a_plan_is_followed_and_the_task_is_done(browser: Any, name: str) -> None:
    await _play(browser, DESKS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DESKS if name not in ONE_OF_EACH])
@in_one_loop
async def test_every_plan_is_followed_and_the_task_is_done(browser: Any, name: str) -> None:
    await _play(browser, DESKS[name])


async def _play(browser: Any, task: WebTask) -> None:
    """Follow a plan with the right answers, reset, then follow it with a wrong one."""
    async with browsing(browser, task.app) as driver:
        await driver.begin(task.state)
        assert not verify_at(task, driver.server.url)[0]
        shown = await driver.follow(task)
        assert verify_at(task, driver.server.url) == (True, "everything was changed as it was wanted, and nothing else")
        _check_facts(task, shown)
        driver.server.reset()
        assert state_hash(driver.server.state) == state_hash(task.state)

        check, wrong = _wrong_answer(task, shown)
        await driver.follow(task, {check: wrong})
        assert not verify_at(task, driver.server.url)[0], f"{check} is {wrong}"


def _check_facts(task: WebTask, shown: list[list[str]]) -> None:
    """Check that each fact is shown in its stage and not before, and out of the window when it is asked for."""
    stages = [0, *(step.stage for step in task.steps)]
    for fact in task.facts.values():
        first = next(stage for stage, lines in zip(stages, shown, strict=True) if fact.text in lines)
        assert first == fact.since, fact
    for place, step in enumerate(task.steps):
        for slot in step.slots:
            (fact,) = (task.facts[need] for need in task.checks[slot.check].needs)
            last = max(n for n, lines in enumerate(shown[: place + 1]) if fact.text in lines)
            pages = zip(shown[last:place], shown[last + 1 : place + 1], strict=True)
            assert sum(_news(before, after) for before, after in pages) > WINDOW, (slot, fact)


def _news(before: list[str], after: list[str]) -> int:
    """Return how many characters a page has in lines that were not there before."""
    return sum((len(line) + 1) * count for line, count in (Counter(after) - Counter(before)).items())


def _wrong_answer(task: WebTask, shown: list[list[str]]) -> tuple[str, str]:
    """Return a check, and the value of another row of the page that shows its fact."""
    for step in reversed(task.steps):
        for slot in step.slots if step.action in ("type", "select") else ():
            (fact,) = (task.facts[need] for need in task.checks[slot.check].needs)
            right = step.right[slot.name]
            page = next(lines for lines in shown if fact.text in lines)
            values = [line.rstrip('".').split()[-1] for line in page if line.startswith("row ") and line != fact.text]
            others = [value for value in values if value != right and _shape(value) == _shape(right)]
            if others:
                return slot.check, others[0]
    raise AssertionError(f"{task.id}: no page has a second value like the right one")


def _shape(value: str) -> str:
    """Return what kind of number a value is."""
    return re.sub(r"[0-9]+", "0", value)


@pytest.mark.parametrize("app", app_names())
@in_one_loop
async def test_every_page_of_an_app_has_a_heading_and_nothing_fails(browser: Any, app: str) -> None:
    problems: list[str] = []
    async with browsing(browser, app) as driver:
        driver.page.on("pageerror", lambda error: problems.append(str(error)))
        driver.page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        driver.page.on("requestfailed", lambda request: problems.append(request.url))
        await driver.begin(DESKS[f"{app}-0-0-{next(iter(APPS[app].stories))}"].state)
        headings = []
        for route in ROUTES[app]:
            await driver.do(Step(0, "goto", "", f"#/{route}"), {})
            headings.append(await driver.page.locator("h1").inner_text())
            assert await driver.page.title() == f"{headings[-1]} - {driver.server.state['name']}"
        assert len(set(headings)) >= len(ROUTES[app]) - 1
        assert [problem for problem in problems if "/api/events" not in problem] == []


async def _open(driver: Driver, app: str, route: str) -> dict[str, Any]:
    state: dict[str, Any] = dict(DESKS[f"{app}-0-0-{next(iter(APPS[app].stories))}"].state)
    await driver.begin(state)
    await driver.do(Step(0, "goto", "", f"#/{route}"), {})
    return state


@in_one_loop
async def test_what_cannot_be_done_is_said_and_changes_nothing(browser: Any) -> None:
    async with browsing(browser, "depot") as driver:
        state = await _open(driver, "depot", "parcels")
        await driver.do(Step(0, "type", 'textbox "Parcel number"', "X-1"), {})
        await driver.do(Step(0, "click", 'button "Find parcel"'), {})
        assert "There is no parcel X-1." in driver.outlines[-1]
        await driver.do(Step(0, "goto", "", "#/dispatch"), {})
        await driver.do(Step(0, "click", 'button "Dispatch parcel"'), {})
        assert "Fill in: Parcel number, District, Vehicle, Seal." in driver.outlines[-1]
        assert driver.server.state == state


@in_one_loop
async def test_what_was_typed_is_shown_as_text_and_never_as_markup(browser: Any) -> None:
    async with browsing(browser, "depot") as driver:
        await _open(driver, "depot", "sheet")
        await driver.do(Step(0, "select", 'combobox "Entry"', "Trip"), {})
        await driver.do(Step(0, "type", 'textbox "Number"', "<img src=x onerror=alert(1)>"), {})
        await driver.do(Step(0, "click", 'button "Add entry"'), {})
        assert 'row "Trip <img src=x onerror=alert(1)>"' in driver.outlines[-1]
        assert await driver.page.locator("img").count() == 0


@in_one_loop
async def test_a_reset_shows_the_first_page_with_the_first_state_again(browser: Any) -> None:
    async with browsing(browser, "hall") as driver:
        state = await _open(driver, "hall", "messages")
        first = driver.outlines[0]
        await driver.do(Step(0, "click", 'button "Fetch new messages"'), {})
        assert "New messages: 3." in driver.outlines[-1]
        assert not verify("[]", state, driver.server.state)[0]
        driver.server.reset()
        await driver.page.get_by_role("heading", name="Office").wait_for()
        assert await driver.page.locator("body").aria_snapshot() == first
        assert verify("[]", state, driver.server.state)[0]


@in_one_loop
async def test_a_newer_message_takes_the_place_of_the_older_one(browser: Any) -> None:
    async with browsing(browser, "depot") as driver:
        state = await _open(driver, "depot", "notices")
        new = state["incoming"][0]
        (old,) = [one for one in state["messages"] if one["about"] == new["about"]]
        assert old["text"] in driver.outlines[-1]
        await driver.do(Step(0, "click", 'button "Fetch new notices"'), {})
        assert new["text"] in driver.outlines[-1]
        assert old["text"] not in driver.outlines[-1]

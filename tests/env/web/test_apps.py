"""The apps that ship: 1. a task is false before its plan and true after it, and begins with the same state each time;
2. memory observes what facts say, word for word, and other things before it is asked for; 3. whoever has lost one value
is not rewarded; 4. pages say what cannot be done.

Of each kind of story one task is played, and some more under the marker ``slow``; all 72 with ``--all``.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from browsing import needs_browser, seen, state_of
from mnemotune.data.web.generator import APPS
from mnemotune.data.web.load import load_web
from mnemotune.data.web.server import app_names
from mnemotune.data.web.task import WebTask, web_task
from mnemotune.data.web.verifier import state_hash
from mnemotune.env.outside import Outside
from mnemotune.env.web.browser import Chromium
from mnemotune.env.web.desk import WebDesk
from mnemotune.env.web.servers import Servers

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]
WINDOW = 2000
"""Characters of the newest observations that fit 500 tokens."""
DESKS = {task.id: web_task(task) for task in load_web("desks")}
KINDS = [f"{app}-0-0-{kind}" for app, parts in APPS.items() for kind in parts.stories]
COUNTER, BOOKING = DESKS["depot-0-0-counter"], DESKS["hall-0-0-booking"]
ROUTES = {
    "depot": ["", "arrivals", "arrivals/2", "parcels", "notices", "tariff", "shelves", "rounds", "dispatch", "sheet"],
    "hall": ["", "calendar", "calendar/9", "bookings", "groups", "messages", "prices", "board", "desk", "invoices"],
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def outside() -> AsyncIterator[Outside]:
    """One browser for all."""
    outside = Outside()
    yield outside
    await outside.aclose()


async def followed(task: WebTask, outside: Outside, *, lost: str = "") -> tuple[float | None, list[str]]:
    """Return the reward of a plan, and what memory observes in each step.

    Who follows it knows what was observed, but for the value that the check ``lost`` asks for.
    """
    desk, heard = WebDesk(task, outside), list[str]()
    try:
        for step in task.steps:
            known, answers = "\n".join(heard), dict[str, str]()
            for slot in step.slots:
                (fact,) = (task.facts[need] for need in task.checks[slot.check].needs)
                answers[slot.check] = step.right[slot.name] if fact.text in known else ""
                if slot.check == lost:
                    answers[lost] = another(step.right[slot.name], fact.text, known)
            heard.append("\n".join([message.content for _, message in await desk.do(step, answers)]))
        return await desk.reward(), heard
    finally:
        await desk.aclose()


def another(right: str, fact: str, known: str) -> str:
    """Return a value that stands where the right one could, as in another row of the same table."""
    word = re.escape(fact.rstrip(".").split()[-2])
    shape = re.sub("[0-9]+", "[0-9]+", re.escape(right))
    return next((value for value in re.findall(rf"{word} ({shape})\b", known) if value != right), right[::-1])


async def check_plan(task: WebTask, outside: Outside) -> None:
    servers = await outside.shared("web servers", Servers.start)
    for is_followed in (False, True):
        async with servers.lease(task) as server:
            assert state_hash(await state_of(server)) == state_hash(task.state)
            assert not (await server.verdict(task))[0]
        if not is_followed:
            reward, heard = await followed(task, outside)
            assert reward == 1
    for fact in task.facts.values():
        assert fact.since == next(step.stage for step, text in zip(task.steps, heard, strict=True) if fact.text in text)
    for place, step in enumerate(task.steps):
        for slot in step.slots:
            (fact,) = (task.facts[need] for need in task.checks[slot.check].needs)
            last = max(number for number, text in enumerate(heard[:place]) if fact.text in text)
            assert sum(map(len, heard[last + 1 : place])) > WINDOW, (slot, fact)


@pytest.mark.parametrize("name", KINDS)
async def test_a_plan_does_its_task_and_shows_what_its_facts_say(outside: Outside, name: str) -> None:
    await check_plan(DESKS[name], outside)


@pytest.mark.slow
@pytest.mark.exhaustive("name")
@pytest.mark.parametrize("name", [name for name in DESKS if name not in KINDS])
async def test_every_plan_does_its_task_and_shows_what_its_facts_say(outside: Outside, name: str) -> None:
    await check_plan(DESKS[name], outside)


@pytest.mark.parametrize("name", KINDS)
async def test_who_has_lost_the_first_value_is_not_rewarded(outside: Outside, name: str) -> None:
    assert (await followed(DESKS[name], outside, lost=next(iter(DESKS[name].checks))))[0] == 0


@pytest.mark.slow
@pytest.mark.exhaustive("name", "lost")
@pytest.mark.parametrize(("name", "lost"), [(name, check) for name in KINDS for check in [*DESKS[name].checks][1:]])
async def test_who_has_lost_any_value_is_not_rewarded(outside: Outside, name: str, lost: str) -> None:
    assert (await followed(DESKS[name], outside, lost=lost))[0] == 0


@pytest.mark.parametrize("app", ROUTES)
async def test_every_page_of_an_app_has_a_heading_and_nothing_fails(outside: Outside, app: str) -> None:
    assert sorted(ROUTES) == sorted(APPS) == app_names()
    problems, headings = list[str](), list[str]()
    task = next(task for task in DESKS.values() if task.app == app)
    servers = await outside.shared("web servers", Servers.start)
    chromium = await outside.shared("web browser", Chromium.start)
    async with servers.lease(task) as server, chromium.page(server.url) as page:
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.on("requestfailed", lambda request: problems.append(request.url))
        for route in ROUTES[app]:
            await page.goto(f"{server.url}/#/{route}")
            await page.evaluate("mnemotuneQuiet()")
            headings.append(await page.locator("h1").inner_text())
            assert await page.title() == f"{headings[-1]} - {task.state['name']}"
    assert len(set(headings)) >= len(ROUTES[app]) - 1
    assert [problem for problem in problems if "/api/events" not in problem] == []


async def test_a_page_that_is_open_shows_the_first_one_once_its_server_begins_anew(outside: Outside) -> None:
    servers = await outside.shared("web servers", Servers.start)
    chromium = await outside.shared("web browser", Chromium.start)
    async with servers.lease(BOOKING) as server, chromium.page(server.url) as page:
        await page.goto(f"{server.url}/#/messages")
        await page.get_by_role("button", name="Fetch new messages").click()
        await page.get_by_text("New messages: 3.").wait_for()
        await server.begin(BOOKING)
        await page.get_by_role("heading", name="Office").wait_for()
        await page.goto(f"{server.url}/#/messages")
        assert await page.get_by_text("New messages: 3.").count() == 0


async def test_what_cannot_be_done_is_said() -> None:
    *_, missing, _, empty, done = await seen(
        COUNTER,
        'goto: "#/parcels"',
        'type textbox "Parcel number": "X-1"',
        'click button "Find parcel"',
        'goto: "#/dispatch"',
        'click button "Dispatch parcel"',
        'click link "Desk"',
    )
    assert "status: There is no parcel X-1." in missing.lines
    assert "status: Fill in: Parcel number, District, Vehicle, Seal." in empty.lines
    assert "Dispatched today: 0" in done.lines


async def test_what_was_typed_is_shown_as_text_and_never_as_markup() -> None:
    *_, outline = await seen(
        COUNTER,
        'goto: "#/sheet"',
        'select combobox "Entry": "Trip"',
        'type textbox "Number": "<img src=x alt=y>"',
        'click button "Add entry"',
    )
    assert "Entry: Trip | Number: <img src=x alt=y>" in outline.lines


async def test_a_newer_message_takes_the_place_of_the_older_one() -> None:
    before, after = await seen(COUNTER, 'goto: "#/notices"', 'click button "Fetch new notices"')
    new = COUNTER.state["incoming"][0]
    (old,) = (notice for notice in COUNTER.state["messages"] if notice["about"] == new["about"])
    lines = [f"From: {notice['from']} | Notice: {notice['text']}" for notice in (old, new)]
    assert [[line in page.lines for line in lines] for page in (before, after)] == [[True, False], [False, True]]

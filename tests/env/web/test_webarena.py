"""The tasks of a checkout of WebArena-Infinity, through our servers and in our browser.

``MNEMOTUNE_WEBARENA=CHECKOUT pytest -m slow -s tests/env/web/test_webarena.py``; its solvers need node.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from browsing import needs_browser, put, state_of
from mnemotune.data.web.task import WebTask
from mnemotune.env.outside import Outside
from mnemotune.env.web.action import Action
from mnemotune.env.web.outline import Outline
from mnemotune.env.web.page import Verdict, WebPage
from mnemotune.env.web.servers import Servers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
CHECKOUT = os.environ.get("MNEMOTUNE_WEBARENA")
SIDE_BY_SIDE = 3
KINDS = {"real": "real-tasks.json", "function": "function-tasks.json"}
AS_SHIPPED = {("xero-invoicing", "function"): ["task_26"]}
"""What the checkout's own solvers do not solve there either."""

Solver = Callable[[dict[str, Any]], None]


def apps() -> list[Path]:
    if not CHECKOUT:
        pytest.skip("set MNEMOTUNE_WEBARENA to a checkout of web-arena-x/webarena-infinity", allow_module_level=True)
    return sorted(place.parent for place in (Path(CHECKOUT) / "apps").glob("*/server.py"))


def tasks(app: Path, kind: str) -> Iterator[WebTask]:
    for row in json.loads((app / KINDS[kind]).read_text()):
        name = f"{app.name}-{kind}-{row['id']}"
        yield WebTask(name, app.name, 1, str(app), row["instruction"], {}, row["verify"], (), {}, {})


def sanity(app: Path, kind: str) -> ModuleType | None:
    """Return the checkout's module that solves the tasks; None where it has none."""
    for name in (f"sanity_check_{kind}", *(["sanity_check"] if kind == "real" else [])):
        if (app / f"{name}.py").is_file():
            spec = importlib.util.spec_from_file_location(f"{app.name}_{name}", app / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None


def solvers(module: ModuleType) -> Mapping[str, Solver]:
    named = (getattr(module, name, None) for name in ("SOLVERS", "SOLVE_MAP"))
    return next(found for found in named if found is not None)


def seed(module: ModuleType) -> dict[str, Any]:
    names = ("generate_seed_state", "get_seed_state", "load_seed_state")
    return next(getattr(module, name) for name in names if hasattr(module, name))()  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("app", apps(), ids=lambda app: app.name)
async def test_what_the_checkout_s_own_solvers_do_our_servers_keep_and_its_verifiers_accept(
    app: Path, kind: str
) -> None:
    module = sanity(app, kind)
    if module is None:
        pytest.skip(f"{app.name} ships no solvers of {kind} tasks")
    initial, known, servers = seed(module), solvers(module), Servers()
    failed, turn = dict[str, str](), asyncio.Semaphore(SIDE_BY_SIDE)

    async def solve(task: WebTask) -> None:
        async with turn, servers.lease(task) as server:
            if await state_of(server) is None:
                await put(server, initial)
            state = await state_of(server)
            assert state == initial, "a server begins with another state"
            name = task.id.rpartition("-")[2]
            try:
                known[name](state)
            except (ValueError, LookupError, TypeError) as error:  # the solver's own mistake
                failed[name] = repr(error)
                return
            await put(server, state)
            solved, why = await server.verdict(task)
            if not solved:
                failed[name] = why

    every = [*tasks(app, kind)]
    try:
        async with asyncio.TaskGroup() as group:
            for task in every:
                group.create_task(solve(task))
    finally:
        await servers.aclose()
    print(f"\n{app.name} {kind}: {len(every) - len(failed)} of {len(every)}", failed or "")  # noqa: T201
    assert sorted(failed) == AS_SHIPPED.get((app.name, kind), [])


@needs_browser
@pytest.mark.parametrize("app", apps(), ids=lambda app: app.name)
async def test_an_app_of_a_checkout_opens_in_our_browser_and_shows_the_same_each_time(app: Path) -> None:
    task = next(tasks(app, "function"))
    outside, shown = Outside(), list[list[Outline]]()
    try:
        for _ in range(2):
            page = await WebPage.open(outside, task)
            outlines = [Outline.read(await page.act(Action.read(line).as_json)) for line in ("goto", "click [3]")]
            verdict = Verdict.read(await page.act(Action("done").as_json))
            await page.aclose()
            shown.append(outlines)
            assert verdict.reward == 0
    finally:
        await outside.aclose()
    assert shown[0] == shown[1]
    assert shown[0][0].lines
    print(f"\n{app.name}: {len(shown[0][0].text)} characters, {len(shown[0][0].pieces(None))} pieces")  # noqa: T201

"""Drive a web app by role and name, as a plan says it, in a real Chromium."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from mnemotune.data.web.server import AppServer
from mnemotune.data.web.task import Step, WebTask

HOW = "no Chromium: apt-get install chromium, or MNEMOTUNE_CHROMIUM=PATH; and pip install playwright"
TARGET = re.compile(r'(\w+) "(.*)"')
ROW = re.compile(r"- (?:'row \"|row \")(.*?)\"'?:?$")
INSIDE = re.compile(r"- '?(?:cell|rowheader|columnheader|rowgroup|list|listitem|/url)\b")
"""What says again what its row has said, or nothing."""
MOST_MS = 3000


def chromium() -> str | None:
    """Return where Chromium is."""
    given = os.environ.get("MNEMOTUNE_CHROMIUM")
    return given or next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)


class Driver:
    """A page of an app, and what its outlines have shown."""

    def __init__(self, page: Any, server: AppServer) -> None:
        self.page, self.server = page, server
        self.outlines: list[str] = []

    async def begin(self, state: Mapping[str, Any]) -> None:
        """Show an app with this state."""
        self.server.begin(state)
        self.outlines.clear()
        await self.page.goto("about:blank")
        await self.page.goto(f"{self.server.url}/")
        await self._look()

    async def do(self, step: Step, answers: Mapping[str, str | None]) -> None:
        """Do a step, wait until the state is saved, and look at the page. Raises playwright's Error."""
        action, target, value = step.filled(answers)
        if action in ("done", "fail"):
            return
        element = self.element(target) if target else None
        if action == "goto":
            await self.page.goto(f"{self.server.url}/{value}")
        elif action == "back":
            await self.page.go_back()
        elif action == "scroll":
            await self.page.mouse.wheel(0, 500 if value == "down" else -500)
        elif element is None:
            await self.page.keyboard.press(value)
        elif action == "click":
            await element.click(timeout=MOST_MS)
        elif action == "type":
            await element.fill(value, timeout=MOST_MS)
        elif action == "select":
            await element.select_option(label=value, timeout=MOST_MS)
        elif action == "key":
            await element.press(value, timeout=MOST_MS)
        await self._look()

    def element(self, target: str) -> Any:
        """Return the one element of a role and a name."""
        found = TARGET.fullmatch(target)
        assert found is not None, target
        return self.page.get_by_role(found[1], name=found[2], exact=True)

    async def follow(self, task: WebTask, wrong: Mapping[str, str] = MappingProxyType({})) -> list[list[str]]:
        """Follow a plan with the right answers, but for those ``wrong`` ones; return what was shown after each step.

        The page on which it begins comes first.
        """
        await self.begin(task.state)
        shown = [lines_of(self.outlines[-1])]
        for step in task.steps:
            await self.do(step, {slot.check: step.right[slot.name] for slot in step.slots} | dict(wrong))
            shown.append(lines_of(self.outlines[-1]))
        return shown

    async def _look(self) -> None:
        await self.page.evaluate("new Promise((done) => setTimeout(done))")
        await self.page.wait_for_function("document.body.getAttribute('aria-busy') === 'false'")
        self.outlines.append(await self.page.locator("body").aria_snapshot())


@asynccontextmanager
async def launched() -> AsyncIterator[Any]:
    """Start a Chromium; skip the test where there is none."""
    api = pytest.importorskip("playwright.async_api", reason=HOW)
    if (where := chromium()) is None:
        pytest.skip(HOW)
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=where, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def browsing(browser: Any, app: str | Path) -> AsyncIterator[Driver]:
    """Serve an app and open a page for it."""
    with AppServer(app) as server:
        context = await browser.new_context()
        try:
            yield Driver(await context.new_page(), server)
        finally:
            await context.close()


def lines_of(outline: str) -> list[str]:
    """Return an outline's lines without what stands in its rows, each row as facts have it."""
    lines = [line.strip() for line in outline.splitlines()]
    return [f'row "{row[1]}"' if (row := ROW.match(line)) else line for line in lines if not INSIDE.match(line)]

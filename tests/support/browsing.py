"""A browser for tests, small apps, and models that read well or not at all."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mnemotune.data.web.task import WebTask
from mnemotune.env.outside import Outside, OutsideSilent
from mnemotune.env.web.action import Action
from mnemotune.env.web.browser import ADVICE, find_chromium
from mnemotune.env.web.outline import Outline
from mnemotune.env.web.page import WebPage
from mnemotune.env.web.servers import Server
from mnemotune.policies.lm import Completion, LanguageModel, Request
from mnemotune.policies.lm.ledger import Usage

PICTURES = Path(__file__).parents[2] / "build" / "pictures"


def why_no_browser() -> str:
    """Return what is missing; empty where a browser can be started."""
    if importlib.util.find_spec("playwright") is None:
        return "pip install 'mnemotune[web]'"
    try:
        own = Path.home() / ".cache" / "ms-playwright"
        return "" if find_chromium() or any(own.glob("chromium*")) else ADVICE
    except OutsideSilent as error:
        return str(error)


needs_browser = pytest.mark.skipif(bool(why_no_browser()), reason=f"no browser: {why_no_browser()}")


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser of Playwright's."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


def keep_picture(page: Any, name: str) -> None:
    """Keep a picture of what a page shows, for people to look at after the tests."""
    page.screenshot(path=PICTURES / f"{name}.png")


def app_task(folder: Path, body: str, *, state: Mapping[str, object] | None = None, name: str = "small") -> WebTask:
    """Write an app of one page, and return a task in it that is done once the state has {"done": true}."""
    folder.mkdir(parents=True, exist_ok=True)
    page = f"<!doctype html><html><head><title>Small</title></head><body>{body}</body></html>"
    (folder / "index.html").write_text(page, encoding="utf-8")
    verify = json.dumps([{"at": ["done"], "is": True}])
    begin = {"done": False} if state is None else dict(state)
    return WebTask(name, "group", 1, str(folder), "Do it.", begin, verify, (), {}, {})


async def state_of(server: Server) -> Any:
    """Return the state of an app that is served; None where it has none yet."""
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/api/state") as answer:
        return await answer.json(content_type=None) if answer.ok else None


async def put(server: Server, state: object) -> None:
    """Set the state of an app as a browser does."""
    async with aiohttp.ClientSession() as session, session.put(f"{server.url}/api/state", json=state) as answer:
        assert answer.ok


async def seen(task: WebTask, *lines: str) -> list[Outline]:
    """Return what a page shows after each action, in a browser of its own."""
    outside = Outside()
    try:
        page = await WebPage.open(outside, task)
        try:
            return [Outline.read(await page.act(Action.read(line).as_json)) for line in lines]
        finally:
            await page.aclose()
    finally:
        await outside.aclose()


class AttentiveModel(LanguageModel):
    """Answers each question with the newest fact that it asks for, where that stands in what is shown."""

    name = "attentive"

    def __init__(self, task: WebTask) -> None:
        self.facts: dict[str, list[tuple[str, str]]] = {}
        for check in task.checks.values():
            told = [(task.facts[need].text, task.right(check)) for need in check.needs]
            self.facts[check.text] = told + self.facts.get(check.text, [])

    async def complete(self, request: Request) -> Completion:
        *shown, asked = request.messages
        text = "\n".join(message.content for message in shown)
        facts = next(facts for question, facts in self.facts.items() if question in asked.content)
        value = next((value for fact, value in facts if fact in text), "")
        return Completion(json.dumps({"value": value}), Usage(1, 1))


class StubbornModel(LanguageModel):
    """Answers everything in the same way."""

    name = "stubborn"

    def __init__(self, value: str) -> None:
        self.value = value

    async def complete(self, request: Request) -> Completion:
        return Completion(json.dumps({"value": self.value}), Usage(1, 1))

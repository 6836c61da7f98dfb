"""A page of the browser in which one episode acts."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

from ...data.values import Values
from ...data.web.task import WebTask
from ...policies.text import whole
from ..outside import Outside, OutsideFault, OutsideSilent, Place
from .action import ENDS, Action
from .browser import CHROMIUM, SCREEN, Chromium, driver_error, reason_of
from .outline import Outline, script
from .servers import Server, Servers

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Download, ElementHandle, Page, Response

ACT_S = 60.0
"""Of one action, until the page is quiet again."""
CLOCK_MS = 1_000
"""What the page's clock goes on by in an action; nothing waits so long for real."""
MOST_OPENINGS = 8
"""New documents that one action can lead to, one after another."""

NO_CONTENT = (204, 205)
"""Statuses with which a browser stays where it is."""
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)

# Where to click an element, or what lies over it.
_POINT = """(element) => {
  element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
  const boxes = [...element.getClientRects()].filter(({ width, height }) => width > 1 && height > 1);
  if (!boxes.length) return null;
  const { left, top, width, height } = boxes[0];
  let over = "";
  for (const [x, y] of [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75]]) {
    const at = [left + width * x, top + height * y];
    let hit = document.elementFromPoint(...at);
    while (hit?.shadowRoot?.elementFromPoint(...at) && hit.shadowRoot.elementFromPoint(...at) !== hit)
      hit = hit.shadowRoot.elementFromPoint(...at);
    if (hit && (element.contains(hit) || hit.contains(element) && hit.tagName === "LABEL" ||
        hit.closest("label")?.control === element ||
        element.getRootNode().host === hit || element.shadowRoot?.contains(hit)))
      return at;
    over = hit ? [...(hit.innerText ?? "").replace(/\\s+/g, " ").trim()].slice(0, 60).join("") : over;
  }
  return over;
}"""
_BACK = "async () => navigation.canGoBack && (await navigation.back().committed.catch(() => null), true)"
_OPTIONS = """(element) => [...(element.options ?? [])].map((option) => ({
  text: (option.label || option.text).replace(/\\s+/g, " ").trim(),
  off: option.disabled || option.parentElement.disabled === true,
  chosen: element.multiple && option.selected,
}))"""
_IS_OFF = 'element => element.matches(":disabled") || element.getAttribute("aria-disabled") === "true"'


@dataclass(frozen=True, slots=True)
class Verdict(Values):
    """What a task is worth in the end."""

    reward: float
    """1 where the verifier is content, else 0."""
    why: str

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the verdict that ``recorded`` stands for."""
        return cls(**json.loads(text))

    @property
    def recorded(self) -> str:
        """The verdict as JSON."""
        return whole(json.dumps(asdict(self), ensure_ascii=False))


class WebPage(Place):
    """A page with a session and a server of its own. What it shows depends on nothing but the task and the actions."""

    def __init__(
        self, task: WebTask, server: Server, page: Page, *, turns: asyncio.Semaphore, closing: AsyncExitStack
    ) -> None:
        """Act in a page that is still empty; ``closing`` ends all that it needs."""
        self._task, self._server, self._page = task, server, page
        self._turns, self._closing = turns, closing
        self._is_open = False
        self._notes: list[str] = []
        page.on("dialog", self._refuse)
        page.on("download", self._stays)
        page.on("response", self._answered)

    @classmethod
    async def open(cls, outside: Outside, task: WebTask, *, version: str | None = None) -> WebPage:
        """Open a page for a task, in a browser of this major version. Raises OutsideFault and OutsideSilent."""
        servers = await outside.shared("web servers", Servers.start)
        chromium = await outside.shared("web browser", Chromium.start)
        if version is not None and (now := await chromium.version()) != version:
            raise OutsideSilent(
                f"what was seen so far was seen with version {version} of the browser, and this is {now}: "
                f"set {CHROMIUM} to the former's file, or begin anew in another folder"
            )
        closing = AsyncExitStack()
        try:
            server = await closing.enter_async_context(servers.lease(task))
            page = await closing.enter_async_context(chromium.page(server.url))
        except BaseException as error:
            await closing.aclose()
            if isinstance(error, driver_error()):
                raise OutsideFault(f"{task.id}: {reason_of(error)}") from None
            raise
        return cls(task, server, page, turns=chromium.turns, closing=closing)

    async def act(self, action: str) -> str:
        """Do an action, given as JSON; return the outline as JSON, or the verdict where it is the last."""
        wanted = Action.read(action)
        try:
            async with self._turns, asyncio.timeout(ACT_S):
                if not self._is_open and wanted.name != "goto":
                    await self._goto("")
                    await self._settled()
                self._is_open = True
                if wanted.name in ENDS:
                    return await self._verdict(wanted)
                notes = [*await self._done(wanted)]
                return await self._outlined(notes)
        except TimeoutError:
            raise OutsideFault(f"{self._task.id}: the page is not quiet {ACT_S:g} s after {wanted.line}") from None
        except driver_error() as error:
            raise OutsideFault(f"{self._task.id}: {wanted.line}: {reason_of(error)}") from None

    async def aclose(self) -> None:
        """Close the page, and give the server back."""
        await self._closing.aclose()

    async def _done(self, action: Action) -> Sequence[str]:
        """Do an action; return what did not go as it should."""
        match action.name:
            case "goto":
                return await self._goto(action.value or action.target)
            case "back":
                return await self._back()
            case "scroll":
                way = -1 if action.value == "up" else 1
                await self._page.mouse.move(SCREEN["width"] / 2, SCREEN["height"] / 2)
                await self._page.evaluate(f"scrollBy(0, {way} * innerHeight * .9)")
                return ()
            case "key" if not action.target:
                return await self._pressed(action.value)
            case _:
                return await self._with_element(action)

    async def _goto(self, path: str) -> Sequence[str]:
        where = path if path.startswith(self._server.url) else f"{self._server.url}/{path.lstrip('/')}"
        if _ABSOLUTE.match(path) and not path.startswith(f"{self._server.url}/"):
            return [f"{path} is another server's, and was not opened."]
        try:
            await self._page.goto(where, wait_until="load", timeout=ACT_S * 1000)
        except driver_error() as error:
            if self._page.is_closed():
                raise
            return [f"{path} cannot be opened: {reason_of(error).replace(self._server.url, '')}"]
        return ()

    async def _back(self) -> Sequence[str]:
        try:
            return () if await self._page.evaluate(_BACK) else ["There is no page to go back to."]
        except driver_error():  # it was another document
            return ()

    async def _with_element(self, action: Action) -> Sequence[str]:
        """Do an action that needs an element; say so where there is none, or more than one."""
        if not action.target.strip():
            return [f'{action.name} needs an element, such as [12] or button "Save".']
        number = action.number
        if number is None:
            role, name = action.role_and_name
            places = await self._page.evaluate(script("outline"), {"role": role, "name": name})
            if len(places) != 1:
                many = f"There are {len(places)} elements" if places else "There is no element"
                return [f'{many} {role} "{name}".']
            number = places[0]
        handle = await self._page.evaluate_handle(script("outline"), {"element": number})
        element = handle.as_element()
        if element is None:
            return [f"There is no element [{number}]."]
        if await element.evaluate(_IS_OFF):
            return [f"{action.target} is disabled."]
        if action.name == "type":
            return await self._typed(element, action)
        if action.name == "select":
            return await self._selected(element, action)
        if action.name == "key":
            await element.evaluate("element => element.focus()")
            return await self._pressed(action.value)
        return await self._clicked(element, action)

    async def _clicked(self, element: ElementHandle, action: Action) -> Sequence[str]:
        point = await element.evaluate(_POINT)
        if isinstance(point, str):
            return [f"{action.target} cannot be clicked: {point!r} lies over it."]
        if point is None:  # it has no area, as what only a screen reader shows
            await element.evaluate("element => element.click()")
        else:
            await self._page.mouse.click(*point)
        return ()

    async def _typed(self, element: ElementHandle, action: Action) -> Sequence[str]:
        if await element.evaluate("element => element.readOnly === true"):
            return [f"{action.target} is read-only."]
        over = await element.evaluate(_POINT)
        if isinstance(over, str):
            return [f"Nothing can be typed into {action.target}: {over!r} lies over it."]
        try:
            await element.fill(action.value, force=True)
        except driver_error():
            return [f"{action.value!r} cannot be typed into {action.target}."]
        return ()

    async def _selected(self, element: ElementHandle, action: Action) -> Sequence[str]:
        options = await element.evaluate(_OPTIONS)
        place = next((place for place, option in enumerate(options) if whole(option["text"]) == action.value), None)
        if place is None:
            return [f"{action.target} has no option {action.value!r}."]
        if options[place]["off"]:
            return [f"The option {action.value!r} of {action.target} is disabled."]
        chosen = [other for other, option in enumerate(options) if option["chosen"]]
        await element.select_option(index=[*chosen, place], force=True)
        return ()

    async def _pressed(self, key: str) -> Sequence[str]:
        try:
            await self._page.keyboard.press(key)
        except driver_error():
            return [f"There is no key {key!r}."]
        return ()

    async def _outlined(self, notes: list[str]) -> str:
        """Wait until the page is quiet; return what it shows as JSON."""
        notes += await self._settled()
        await self._alone()
        origin = self._server.url
        seen = await self._page.evaluate(script("outline"), {"origin": origin})
        notes += self._notes
        self._notes.clear()
        return Outline.of(seen, origin=origin, notes=[note.replace(origin, "") for note in notes]).recorded

    async def _settled(self) -> list[str]:
        """Let the page come to rest, with whatever it does a moment later; return what it has refused."""
        before = await self._quiet()
        await self._page.context.clock.run_for(CLOCK_MS)
        return [*before, *await self._quiet()]

    async def _alone(self) -> None:
        """Close what has opened beside the page all the same: when it is seen is chance, so nothing is said of it."""
        for tab in self._page.context.pages:
            if tab is not self._page:
                with suppress(driver_error()):  # it has closed itself
                    await tab.close()

    async def _quiet(self) -> list[str]:
        """Wait until nothing is under way in the page; return what it has refused."""
        for _ in range(MOST_OPENINGS):
            try:
                await self._page.wait_for_load_state("load")
                notes: list[str] = await self._page.evaluate("mnemotuneQuiet()")
                return notes
            except driver_error():  # another document has taken the page's place
                if self._page.is_closed():
                    raise
        raise OutsideFault(f"{self._task.id}: one document after another is opened")

    async def _verdict(self, action: Action) -> str:
        """End the episode; a task that was given up is not looked at."""
        await self._quiet()
        solved, why = await self._server.verdict(self._task) if action.name == "done" else (False, "given up")
        return Verdict(float(solved), why).recorded

    async def _stays(self, download: Download) -> None:
        self._notes.append(f"{download.url} is a download, and was refused.")
        await self._stay()

    async def _answered(self, response: Response) -> None:
        """Go on where a page was asked for, and the server has answered that there is none to show."""
        if response.status in NO_CONTENT and response.request.is_navigation_request():
            await self._stay()

    async def _stay(self) -> None:
        with suppress(driver_error()):  # there is another document, or none any more
            await self._page.evaluate("globalThis.mnemotuneStays?.()")

    async def _refuse(self, dialog: Dialog) -> None:
        self._notes.append(f"A dialog said {' '.join(dialog.message.split())!r} and was refused.")
        await dialog.dismiss()

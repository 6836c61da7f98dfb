"""The browser of a process: a Chromium that is installed, driven by Playwright."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ...policies.lm.embedded.pool import interrupts_held
from ..outside import OutsideSilent
from .outline import script

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Playwright

CHROMIUM = "MNEMOTUNE_CHROMIUM"
"""The variable that names the browser's file."""
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Of the browser's file, the first that is there: one without windows takes two thirds of the processor time."""
ADVICE = (
    "install chromium (`apt-get install chromium-headless-shell`, or `playwright install chromium`), "
    f"or set {CHROMIUM} to its file"
)
BEGIN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""What every page's clock shows at first."""
MOST_ACTING = 4
"""Pages of a process in which something is done at the same time."""
SCREEN: Mapping[str, int] = {"width": 1280, "height": 900}


@cache
def driver_error() -> type[Exception]:
    """Return what Playwright raises, which is imported where a browser is driven alone."""
    from playwright.async_api import Error

    return Error


class Chromium:
    """A browser that all pages of a process share; what has crashed is started anew."""

    def __init__(self, playwright: Playwright, executable: str | None) -> None:
        """Drive the browser of this file, or Playwright's own."""
        self._playwright, self._executable = playwright, executable
        self._browser: Browser | None = None
        self._starting = asyncio.Lock()
        self.turns = asyncio.Semaphore(MOST_ACTING)
        """Whoever acts has one, so that no action waits for many others while its time runs."""

    @classmethod
    async def start(cls) -> Chromium:
        """Start the driver; the browser starts with the first page. Raises OutsideSilent."""
        executable = find_chromium()
        try:
            from playwright.async_api import async_playwright
        except ImportError:
            raise OutsideSilent("the web track drives a browser: pip install 'mnemotune[web]'") from None
        with interrupts_held():  # Ctrl-C is this process's to hear
            return cls(await async_playwright().start(), executable)

    @asynccontextmanager
    async def page(self, origin: str) -> AsyncIterator[Page]:
        """Lend an empty page of a new session that reaches nothing but the server at ``origin``.

        Raises OutsideSilent, and the driver's own errors.
        """
        browser = await self._running()
        context = await browser.new_context(
            viewport={"width": SCREEN["width"], "height": SCREEN["height"]},
            locale="en-GB",
            timezone_id="UTC",
            color_scheme="light",
            reduced_motion="reduce",
            accept_downloads=False,
            service_workers="block",
            permissions=[],
        )
        try:
            await context.clock.install(time=BEGIN - timedelta(seconds=60))
            await context.clock.pause_at(BEGIN)
            await context.add_init_script(script("quiet"))  # over what the clock has put in place
            await context.route(lambda url: not url.startswith(f"{origin}/"), lambda route: route.abort())
            await context.route_web_socket(lambda _: True, lambda socket: socket.close())
            yield await context.new_page()
        finally:
            with suppress(driver_error()):
                await context.close()

    async def version(self) -> str:
        """Return the browser's major version. Raises OutsideSilent."""
        return (await self._running()).version.partition(".")[0]

    async def aclose(self) -> None:
        """End the browser and its driver."""
        with suppress(driver_error(), OSError):
            if self._browser is not None:
                await self._browser.close()
        with suppress(driver_error(), OSError):
            await self._playwright.stop()

    async def _running(self) -> Browser:
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                try:
                    self._browser = await self._playwright.chromium.launch(
                        executable_path=self._executable, args=_arguments(), handle_sigint=False
                    )
                except driver_error() as error:
                    raise OutsideSilent(f"no browser starts: {reason_of(error)}; {ADVICE}") from None
        return self._browser


def find_chromium() -> str | None:
    """Return the browser's file; None leaves it to Playwright. Raises OutsideSilent where the named file is missing."""
    if named := os.environ.get(CHROMIUM):
        if not Path(named).is_file():
            raise OutsideSilent(f"{CHROMIUM}: there is no file {named}; {ADVICE}")
        return named
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def _arguments() -> list[str]:
    arguments = [
        # nothing is resolved, and nothing but the loopback interface is reached, whatever asks for it
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        "--proxy-server=http://127.0.0.1:9",
        "--proxy-bypass-list=127.0.0.1",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--disable-component-update",
        "--font-render-hinting=none",
        "--disable-lcd-text",
    ]
    is_root = getattr(os, "geteuid", lambda: 1)() == 0
    return [*arguments, "--no-sandbox"] if is_root else arguments


def reason_of(error: Exception) -> str:
    """Return the first line of what the driver says."""
    return str(error).strip().split("\n")[0].removeprefix("Page.goto: ")[:300]

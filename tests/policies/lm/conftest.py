"""Real OpenAI-compatible servers on the loopback interface.

One says what a test has written down; the other is the one that mnemotune ships, with the embedded model behind it.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastapi
import pytest

from loopback import PATIENCE_SECONDS, on_loopback
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.openai import OpenAIModel
from mnemotune.policies.lm.outage import Clock
from mnemotune.policies.lm.serving import Served, listening

Connect = Callable[..., OpenAIModel]


@dataclass(frozen=True)
class Asked:
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    status: int
    body: str
    headers: Mapping[str, str]


class ScriptedServer:
    """Gives the scripted answers in their order, then "fine" for ever."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Asked] = []
        self.peak = 0
        """Most requests under way at once."""
        self._under_way = 0
        self._script: deque[Answer] = deque()
        self._poison: dict[str, Answer] = {}
        self._open = threading.Event()
        self._open.set()

    def say(self, text: str | None, *, usage: object = None) -> None:
        """Script a good reply; ``usage`` is left out where it is None."""
        body = {"choices": [{"message": {"role": "assistant", "content": text}}]}
        self.answer(body if usage is None else body | {"usage": usage})

    def answer(
        self,
        body: object,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str = "application/json",
    ) -> None:
        """Script any reply; text is sent as it is, anything else as JSON."""
        text = body if isinstance(body, str) else json.dumps(body)
        self._script.append(Answer(status, text, {"Content-Type": media_type, **(headers or {})}))

    def refuse(self, status: int, message: str = "no", *, times: int = 1, **headers: str) -> None:
        """Script refusals as OpenAI words them; ``retry_after="3"`` is sent as ``Retry-After: 3``."""
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        for _ in range(times):
            self.answer({"error": {"message": message}}, status=status, headers=named)

    def poison(self, text: str, body: object, *, status: int = 200, media_type: str = "application/json") -> None:
        """Answer every request that holds ``text`` so, for ever; the others go by the script."""
        sent = body if isinstance(body, str) else json.dumps(body)
        self._poison[text] = Answer(status, sent, {"Content-Type": media_type})

    def hold(self) -> None:
        """Let requests come in, but answer none until ``release``."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def has_been_asked(self, times: int) -> None:
        """Wait until ``times`` requests have come in."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while len(self.asked) < times:
            assert time.monotonic() < give_up, f"asked {len(self.asked)} times, not {times}"
            await asyncio.sleep(0.002)

    async def handle(self, request: fastapi.Request) -> fastapi.Response:
        body = await request.json()
        self._under_way += 1
        self.peak = max(self.peak, self._under_way)
        self.asked.append(Asked(request.url.path, dict(request.headers), body))
        try:
            while not self._open.is_set():  # noqa: ASYNC110 - it is set in another thread
                await asyncio.sleep(0.002)
        finally:
            self._under_way -= 1
        for text, poisoned in self._poison.items():
            if text in json.dumps(body):
                return fastapi.Response(poisoned.body, poisoned.status, dict(poisoned.headers))
        if not self._script:
            self.say("fine", usage={"prompt_tokens": 10, "completion_tokens": 5})
        answer = self._script.popleft()
        return fastapi.Response(answer.body, answer.status, dict(answer.headers))


class Loopback:
    """One HTTP server for all tests, since starting one takes longer than a test; each test brings its own script."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.script = ScriptedServer(url)

    async def handle(self, request: fastapi.Request) -> fastapi.Response:
        return await self.script.handle(request)


@pytest.fixture(scope="session")
def loopback() -> Iterator[Loopback]:
    with on_loopback(Loopback) as served:
        yield served


@pytest.fixture
def server(loopback: Loopback) -> Iterator[ScriptedServer]:
    loopback.script = ScriptedServer(loopback.url)
    yield loopback.script
    loopback.script.release()


@pytest.fixture(scope="session")
def embedded_url() -> Iterator[str]:
    """The URL of the embedded model behind HTTP, served in a thread of its own so that clients may block."""
    told: queue.SimpleQueue[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = queue.SimpleQueue()

    async def serve() -> None:
        ended = asyncio.Event()
        async with listening(Served(EmbeddedModel(), LexicalEmbedder()), host="127.0.0.1", port=0) as url:
            told.put((url, asyncio.get_running_loop(), ended))
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    url, loop, ended = told.get(timeout=PATIENCE_SECONDS)
    yield url
    loop.call_soon_threadsafe(ended.set)
    thread.join(PATIENCE_SECONDS)


class FakeTime:
    """Time that stands still, remembering how long it was asked to pass."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
        self.chance = 0.0
        self.clock = Clock(sleep=self._sleep, seconds=lambda: 1000.0, now=lambda: self.now, chance=lambda: self.chance)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
async def connect(server: ScriptedServer, fake_time: FakeTime) -> AsyncIterator[Connect]:
    """Make models of the scripted server in a time that stands still."""
    models: list[OpenAIModel] = []

    def make(**options: Any) -> OpenAIModel:
        defaults: dict[str, Any] = {"base_url": server.url, "clock": fake_time.clock}
        models.append(OpenAIModel("m", **defaults | options))
        return models[-1]

    yield make
    for model in models:
        await model.aclose()


@pytest.fixture
def cache(tmp_path: Path) -> Any:
    kept = ResponseCache(tmp_path / "cache.db")
    yield kept
    kept.close()

"""Small made-up lives, a language model that says what a test has written down, and time that passes by itself.

In a made-up life each value is told outright (``pet_0 is mid.``), so that a scripted model can read it back.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import selectors
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import pytest

from lives import life
from mnemotune.data import Scenario, load_scenarios
from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.env import Protocol
from mnemotune.env.dialogue.record import Answer, Probe, record_period
from mnemotune.env.episode import Episode
from mnemotune.policies.lm import CallRole, Completion, Embedder, LanguageModel, Request, Usage
from mnemotune.policies.lm.chain import add_call
from mnemotune.policies.lm.lexical import LexicalEmbedder
from staged import Cast

T = TypeVar("T")

SAMPLE = Path(__file__).parents[2] / ".." / "shared" / "data" / "amemgym_sample.json"
VALUES = ("low", "mid", "high")
USAGE = Usage(7, 3)
_TOLD = re.compile(r"\b(\w+_\d+)(?: is|:) (\w+)")
_GIVEN = re.compile(r'"(\w+_\d+)": "(\w+)"')
_LISTED = re.compile(r'^"(\w+_\d+)": \[', re.MULTILINE)
_CHOICE = re.compile(r"^(\d+): Fit for (.+)$", re.MULTILINE)

Says = str | Callable[[Request], str]
MakeScenario = Callable[..., Scenario]
MakeModel = Callable[..., "ScriptedModel"]
MakeCast = Callable[..., Cast]
Asked = tuple[int | None, int | None, Mapping[str, bool]]
"""A question's gold, the choice made, what the probe got right."""
MakeEpisode = Callable[[Scenario, Sequence[Sequence[Asked]]], Episode]
RunVirtually = Callable[[Coroutine[Any, Any, T]], tuple[T, float]]


def last_line(request: Request) -> str:
    return request.messages[-1].content.splitlines()[-1] if request.messages[-1].content else ""


def _write(request: Request) -> str:
    """Do whatever of the three kinds of write is asked for; the outcome depends on the messages alone."""
    prompt = request.messages[-1].content
    told = [f"{info} is {value}" for info, value in _TOLD.findall(prompt)]
    if '"ADD"' in prompt:
        return json.dumps({"memory": [{"event": "ADD", "text": f"note of {len(prompt)} letters"}]})
    if '"facts"' in prompt:
        return json.dumps({"facts": told or [f"talk of {len(prompt)} letters"]})
    return json.dumps(dict(_TOLD.findall(prompt)) or {"talk": f"{len(prompt)} letters"})


def _improve(request: Request) -> str:
    """Rewrite the types of information; the outcome depends on the messages alone."""
    return json.dumps({"new_types": f"1. Types after {len(request.messages[-1].content)} letters", "changes": ["all"]})


def read_told(request: Request) -> dict[str, str]:
    """Return the newest value of each info that the request's messages tell."""
    return dict(pair for message in request.messages for pair in _TOLD.findall(message.content))


def choose(prompt: str, values: Mapping[str, str]) -> str:
    """Choose the answer that fits the values, the last one where none does."""
    options = _CHOICE.findall(prompt)
    infos = re.findall(r"\w+_\d+", options[0][1])
    wanted = ", ".join(f"{info} at {values.get(info)}" for info in infos)
    return json.dumps({"answer": next((int(number) for number, text in options if text == wanted), len(options))})


def choose_as_told(request: Request) -> str:
    return choose(request.messages[-1].content, read_told(request))


def choose_as_given(request: Request) -> str:
    prompt = request.messages[-1].content
    return choose(prompt, dict(_GIVEN.findall(prompt)))


def probe_as_told(request: Request) -> str:
    told = read_told(request)
    asked = _LISTED.findall(request.messages[-1].content)
    return json.dumps({info: told[info] for info in asked if info in told})


class ScriptedModel(LanguageModel):
    """Says what the test has written down for each role, and remembers what it was asked.

    Unless told otherwise it reads perfectly, and everything it says depends on the request's messages alone.
    """

    name = "scripted"

    def __init__(
        self,
        *,
        delay: Callable[[Request], float] = lambda _: 0.0,
        usage: Usage = USAGE,
        **says: Says,
    ) -> None:
        self.requests: list[Request] = []
        self.ended: list[Request] = []
        self.under_way: list[Request] = []
        self.peak: dict[str, int] = {}
        """Most calls under way at once, by role, and over all roles as ``""``."""
        self.closed = 0
        self._delay = delay
        self._usage = usage
        self._says: dict[str, Says] = {
            "reply": lambda request: f"I see: {last_line(request)}",
            "user": lambda request: f"  And what about {len(request.messages[-1].content)}?\n",
            "write": _write,
            "answer": choose_as_told,
            "probe": probe_as_told,
            "upper_bound": choose_as_given,
            "propose": _improve,
        } | says

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        self.under_way.append(request)
        for role in (request.role, ""):
            now = sum(role in (other.role, "") for other in self.under_way)
            self.peak[role] = max(self.peak.get(role, 0), now)
        try:
            seconds = self._delay(request)
            await asyncio.sleep(seconds)
            add_call(seconds)
            says = self._says[request.role]
            return Completion(says if isinstance(says, str) else says(request), self._usage)
        finally:
            self.under_way.remove(request)
            self.ended.append(request)

    async def aclose(self) -> None:
        self.closed += 1

    def asked(self, role: CallRole) -> list[Request]:
        return [request for request in self.requests if request.role == role]

    def prompts(self, role: CallRole) -> list[str]:
        """Return the last message of each request of a role."""
        return [request.messages[-1].content for request in self.asked(role)]


class SlowEmbedder(LexicalEmbedder):
    """The lexical vectors, but each call lasts."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def embed(self, texts: Sequence[str], **_: Any) -> Any:
        await asyncio.sleep(self._seconds)
        return await super().embed(texts)


class _SkippingSelector(selectors.DefaultSelector):
    """Lets the waiting time pass at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("every task waits for another")
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while all tasks sleep."""

    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now


def _scenario(
    *,
    user: str = "ann",
    sessions: Sequence[int] = (2, 1, 1),
    questions: int = 2,
    kinds: Sequence[str] = ("pet", "flat"),
    changes: Mapping[int, Mapping[str, str]] | None = None,
) -> Scenario:
    """Make a life with ``sessions[p]`` sessions in period p; the first session of a period tells its changes.

    Question q is about ``kind_q`` for each kind; its answers suit all combinations of low and mid, so "high" has no
    answer. All values start low. ``changes`` gives the values that change, by period.
    """
    infos = [f"{kind}_{q}" for q in range(questions) for kind in kinds]
    given = changes or {}
    return life(
        user,
        sessions=sessions,
        news=[(dict.fromkeys(infos, "low") if p == 0 else {}) | dict(given.get(p, {})) for p in range(len(sessions))],
        says=lambda p, s: f"{user} in period {p}, session {s}.",
        values=VALUES,
        qas=[_question(user, q, kinds) for q in range(questions)],
        profile="\nage: 41",
    )


def _question(user: str, q: int, kinds: Sequence[str]) -> dict[str, Any]:
    infos = [f"{kind}_{q}" for kind in kinds]
    variants = list(product(("low", "mid"), repeat=len(kinds)))
    return {
        "query": f"{user} asks question {q}?",
        "required_info": infos,
        "answer_choices": [
            {
                "state": list(variant),
                "answer": "Fit for " + ", ".join(f"{i} at {v}" for i, v in zip(infos, variant, strict=True)),
            }
            for variant in variants
        ],
    }


def _cast(
    model: LanguageModel,
    *,
    user: LanguageModel | None = None,
    embedder: Embedder | None = None,
    protocol: Protocol | None = None,
) -> Cast:
    return Cast(model, user or model, embedder or LexicalEmbedder(), protocol=protocol or Protocol())


def _run_virtually(coroutine: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """Run in virtual time; return the result and the seconds that passed."""

    async def alone() -> tuple[T, float]:
        result = await coroutine
        assert asyncio.all_tasks() == {asyncio.current_task()}, "tasks are left behind"
        return result, asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(alone())


@pytest.fixture(scope="session")
def make_scenario() -> MakeScenario:
    return _scenario


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    return ScriptedModel


@pytest.fixture(scope="session")
def make_cast() -> MakeCast:
    return _cast


@pytest.fixture(scope="session")
def run_virtually() -> RunVirtually[Any]:
    return _run_virtually


@pytest.fixture(scope="session")
def slow_embedder() -> Embedder:
    return SlowEmbedder(0.7)


@pytest.fixture(scope="session")
def random_delays() -> Callable[[int], Callable[[Request], float]]:
    """Make delays that differ from call to call and from seed to seed."""

    def seeded(seed: int) -> Callable[[Request], float]:
        rng = random.Random(f"delays:{seed}")
        return lambda _: rng.choice((0.0, 0.1, 1.0, 10.0)) * rng.random()

    return seeded


@pytest.fixture(scope="session")
def make_episode() -> MakeEpisode:
    """Make an episode from what was asked in each period."""

    def made(scenario: Scenario, periods: Sequence[Sequence[Asked]]) -> Episode:
        records = [
            record_period(
                scenario,
                p,
                answers=[
                    Answer(raw="", choice=choice, gold=gold, score=math.nan if gold is None else float(choice == gold))
                    for gold, choice, _ in asked
                ],
                probes=[Probe(raw="", values=None, right=right) for *_, right in asked],
            )
            for p, asked in enumerate(periods)
        ]
        return Episode(scenario.id, "key", tuple(records))

    return made


@pytest.fixture(scope="session")
def base_life() -> Scenario:
    """One user in the proportions of AMemGym's v1.base: 11 periods, 10 + 10 x 2 sessions, 10 questions."""
    changes = {p: {f"pet_{p % 10}": VALUES[p % 2], f"flat_{(p * 3) % 10}": VALUES[(p + 1) % 2]} for p in range(1, 11)}
    return _scenario(sessions=(10, *(2,) * 10), questions=10, changes=changes)


@pytest.fixture(scope="session")
def generated() -> list[Scenario]:
    return generate_scenarios(users=2, seed=3)


@pytest.fixture(scope="session")
def sample() -> list[Scenario]:
    """One real user of AMemGym's authors, who is no part of the repository."""
    if not SAMPLE.is_file():
        pytest.skip(f"the real sample is not at {SAMPLE}")
    return load_scenarios(SAMPLE)

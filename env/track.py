"""The one seam between a kind of task and everything that searches, scores and reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from ..data.task import Check, Fact, Task
from ..policies.assistant import Assistant
from ..policies.forms import ReplyForm
from ..policies.lm import CallRole, Embedder, LanguageModel
from ..policies.lm.base import RequestsWith
from ..policies.memory import open_memory
from ..policies.memory.packages.calls import MOST_CALLS
from ..policies.policy import MemoryPolicy
from .episode import Bounds, Episode, Mark
from .outside import Outside


@dataclass(frozen=True, slots=True)
class Cast:
    """Who takes part in every episode."""

    assistant: LanguageModel
    user: LanguageModel
    embedder: Embedder
    context_tokens: int | None = None
    """The most that memory puts before the model in one call, in tokens of 4 bytes; None is no limit."""
    readers: Mapping[str, str] = field(default_factory=dict)
    """Who of the assistant's family plays with each group, where it is a family."""
    reworded: bool = False
    """Whether each check is also asked in other words, as in the sealed test."""
    recorded: frozenset[str] = frozenset()
    """The groups whose calls are kept with what they were for, to be looked at."""
    outside: Outside = field(default_factory=Outside)
    """Where tracks act that play in containers or browsers."""
    questions: asyncio.Semaphore | None = None
    """Bounds how many questions wait with all that memory puts before them; None: as many as there are."""
    question_lists: asyncio.Semaphore | None = None
    """Bounds how many lists of questions are under way at once; those of the other lists are not even put into words.
    None: all lists."""

    def of_group(self, group: str) -> Cast:
        """Return those who play with a group."""
        reader = self.readers.get(group)
        return self if reader is None else replace(self, assistant=RequestsWith(self.assistant, reader=reader))

    async def aclose(self) -> None:
        """Release every model's connections, and close what is outside."""
        await self.outside.aclose()
        for model in {id(model): model for model in (self.assistant, self.user)}.values():
            await model.aclose()
        await self.embedder.aclose()

    def assistant_under(self, policy: MemoryPolicy, model: LanguageModel, embedder: Embedder) -> Assistant:
        """Return an assistant that remembers under a policy within the budget; its calls are metered by the caller."""
        memory = open_memory(policy, model, embedder)
        return Assistant(model, memory, context_tokens=self.context_tokens, questions=self.questions)


class Rollout(Protocol):
    """One episode under way, which can stop after any stage and go on later."""

    async def run(self, stages: int | None = None) -> Episode:
        """Go on until this many stages are over, or all where there are fewer; return the episode so far.

        What fails for good ends the episode: its ``failure`` says why, and what was recorded until then is kept.
        Raises BudgetExhausted when the budget ends it, and EndpointDown when no call gets through.
        """

    async def aclose(self) -> None:
        """Release what the episode holds; also when it is left before its end."""


@dataclass(frozen=True, slots=True)
class FactPrompt:
    """A prompt whose right answer shows that a model knows a fact."""

    text: str
    is_right: Callable[[str], bool]
    """Of a reply."""
    form: ReplyForm | None = None
    """Of the reply."""


@dataclass(frozen=True, slots=True)
class Usual:
    """What commands take where neither they nor a config say something else."""

    data: str | None = None
    """A source of tasks; None: it has to be named."""
    context_tokens: int | None = None
    """The budget at which the track's scores are told: the headroom is .3 or more there. None is no limit."""
    held_out: Callable[[str], str | None] = lambda source: None
    """Returns the source of a source's groups in words that are held out for the sealed test; None: there is none."""


class Track(Protocol):
    """A kind of task behind the one memory interface."""

    @property
    def name(self) -> str:
        """What configs and commands call it."""

    @property
    def noun(self) -> str:
        """What messages and tables call a group: a user, a customer, a repository."""

    @property
    def stage_noun(self) -> str:
        """What messages and tables call a stage: a period, a step."""

    @property
    def agent(self) -> str:
        """What tables call who acts, for example ``planned``; empty where the assistant alone is asked."""

    @property
    def turn(self) -> CallRole:
        """The role of the calls that are turns of a deployed assistant: ``reply``, or ``answer`` where nobody talks."""

    @property
    def usual(self) -> Usual:
        """What commands take where nothing else is said."""

    @property
    def least_headroom(self) -> float | None:
        """Ceiling less floor below which a stage is unscored; None scores whatever is not zero, without a guard."""

    @property
    def compat(self) -> AbstractSet[str]:
        """The defects of a reference implementation that are reproduced, by name; mostly none."""

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[Task]:
        """Return the tasks that a source names, those of ``groups`` where given; the same each time.

        Raises TaskError naming the source, the task and the field at fault.
        """

    def begin(
        self,
        task: Task,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        replay: Episode | None = None,
        after: Rollout | None = None,
    ) -> Rollout:
        """Set up an episode; nothing is asked of a model yet.

        Where ``replay`` is given, memory hears what was heard there, instead of acting itself. ``after`` is the episode
        before, where they run one after another. Raises RecordError where ``replay`` is of another task.
        """

    def in_turn(self, policy: MemoryPolicy) -> bool:
        """Tell whether episodes of a policy must run one after another, as each goes on where the last one ended."""

    async def bounds(self, task: Task, cast: Cast) -> Bounds:
        """Find the floor and the ceiling of each check. Raises LanguageModelError when they cannot be had."""

    def settle(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> tuple[Sequence[Episode], Mapping[str, Bounds]]:
        """Return episodes and bounds, by task, after all that depends on several of them together."""

    def most_calls(self, task: Task, policy: MemoryPolicy) -> int:
        """Return the most calls that one episode can take, those for its bounds left out."""

    def bound_calls(self, task: Task) -> int:
        """Return the calls that a task's bounds take."""

    def query(self, task: Task, check: Check) -> str:
        """Return how a check is put to the assistant, before which memory brings back what it can."""

    def reworded(self, task: Task, check: Check) -> str | None:
        """Return how the sealed test also puts a check, which no proposer has seen; None where there is no such way."""

    def tell(self, task: Task, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe a failure, so that a proposer can learn from it: what was asked, what memory had met and held."""

    def fact_prompts(self, task: Task, fact: Fact) -> Iterable[FactPrompt]:
        """Return the prompts that show whether a model knows a fact: in all of them, or else it is not certain.

        They need no memory: what the model is to read comes before each.
        """

    def states(self, task: Task, fact: Fact, text: str) -> bool | None:
        """Tell whether a text states a fact, where its words alone show that; None where a model has to read it."""

    def hints(self, task: Task) -> Mapping[str, str]:
        """Return what an oracle policy is told of the checks to come, by slot of its prompts."""

    def replays(self, folder: Path) -> Mapping[str, Episode]:
        """Read recorded episodes, to be replayed, by task. Raises RecordError when there are none."""

    def extras(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> Mapping[str, Any]:
        """Return further figures of an evaluation as JSON values; mostly none. Arguments are those of ``settle``."""


def most_calls(track: Track, tasks: Iterable[Task], policies: Iterable[MemoryPolicy], *, reworded: bool = False) -> int:
    """Return the most calls that episodes of all policies in all tasks can take, bounds left out."""
    every = list(policies)
    return sum(
        track.most_calls(task, policy) + (reworded_calls(track, task) * (1 + search_calls(policy)) if reworded else 0)
        for task in tasks
        for policy in every
    )


def memory_calls(policy: MemoryPolicy, *, messages: int, searches: int) -> int:
    """Return the most calls that memory makes by itself, where each message may be written alone."""
    if policy.write.mode == "none":
        return 0
    package = MOST_CALLS.get(policy.backend or "")
    a_message = 2 if package is None else package.write + package.message
    return a_message * messages + search_calls(policy) * searches


def search_calls(policy: MemoryPolicy) -> int:
    """Return the most calls that memory makes to bring something back."""
    package = MOST_CALLS.get(policy.backend or "")
    return 0 if package is None or policy.write.mode == "none" else package.search


def reworded_role(turn: CallRole) -> CallRole:
    """Return the role of checks in other words, by a track's ``turn``: an answer, or a probe where that is a turn."""
    return "probe" if turn == "answer" else "answer"


def reworded_calls(track: Track, task: Task) -> int:
    """Return the calls that a task's checks take in other words."""
    return sum(track.reworded(task, check) is not None for check in task.checks.values())

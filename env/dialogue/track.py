"""The dialogue as a track: a period is a stage, a user a group, chance the floor, the upper bound the ceiling."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...data.dialogue.load import held_out, load_folded
from ...data.dialogue.scenario import Scenario
from ...data.folded import FoldedTask
from ...data.task import Check, Fact, Task, TaskError
from ...policies.lm import CallRole
from ...policies.policy import MemoryPolicy
from ...policies.text import stems
from ..episode import Bounds, Episode, Mark
from ..scoring import LEAST_HEADROOM
from ..statistics import nan_mean
from ..track import Cast, FactPrompt, Rollout, Usual
from .bounds import bounds_of, find_bounds
from .compat import SEED, guess_unread, guess_unread_bounds
from .fact_prompts import fact_prompts
from .protocol import Protocol, answer_prompt, schema_hints, upper_bound_calls
from .record import DialogueBounds, period_of
from .rollout import DialogueRollout
from .scoring import METRICS, Level, Metric, levels, mean_level, mean_memory_score
from .transcript import check_talk, read_transcripts

USUAL = Usual(data="base", held_out=held_out)
MEMORIES_SHOWN = 4
"""Lines of memory that the description of a failure has at most."""


@dataclass(frozen=True, slots=True)
class DialogueTrack:
    """An assistant talks to a simulated user and is questioned after each period, after AMemGym (ICLR 2026)."""

    protocol: Protocol = field(default_factory=Protocol)
    name: str = "dialogue"
    noun: str = "user"
    stage_noun: str = "period"
    agent: str = ""
    turn: CallRole = "reply"
    usual: Usual = USUAL

    @property
    def least_headroom(self) -> float | None:
        """AMemGym scores whatever is not zero."""
        return None if "unguarded_score" in self.compat else LEAST_HEADROOM

    @property
    def compat(self) -> AbstractSet[str]:
        """AMemGym's defects that are reproduced."""
        return self.protocol.compat

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[FoldedTask]:
        """Return the users that a source names, as ``load_scenarios`` has it. Raises ScenarioError."""
        return load_folded(source, users=groups)

    def begin(
        self,
        task: Task,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        replay: Episode | None = None,
        after: Rollout | None = None,
    ) -> DialogueRollout:
        """Set up an episode. Raises RecordError where ``replay`` is of another life."""
        scenario = scenario_of(task)
        if replay is not None:
            check_talk(replay, scenario, self.protocol)
        guesses = None
        if self.in_turn(policy):  # AMemGym's next user goes on where its last one left the generator
            guesses = after.guesses if isinstance(after, DialogueRollout) else random.Random(SEED)
        return DialogueRollout(scenario, policy, cast, self.protocol, replay=replay, guesses=guesses)

    def in_turn(self, policy: MemoryPolicy) -> bool:
        """Tell whether guesses decide what an evolving policy learns: then they go on from user to user."""
        return policy.evolution is not None and "guessed_answers" in self.compat

    async def bounds(self, task: Task, cast: Cast) -> DialogueBounds:
        """Ask the assistant's model for every choice of every question with its states given."""
        return await find_bounds(scenario_of(task), cast.assistant, self.protocol)

    def settle(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> tuple[Sequence[Episode], Mapping[str, Bounds]]:
        """Draw AMemGym's guesses, in the order of users."""
        if "guessed_answers" not in self.compat:
            return episodes, bounds
        scenarios = [scenario_of(task) for task in tasks]
        choices = {user: bound.choices for user, bound in bounds.items() if isinstance(bound, DialogueBounds)}
        by_id = {scenario.id: scenario for scenario in scenarios}
        guessed = {
            user: bounds_of(by_id[user], answers, self.protocol.compat)
            for user, answers in guess_unread_bounds(choices, scenarios).items()
        }
        return guess_unread(episodes, scenarios), guessed

    def most_calls(self, task: Task, policy: MemoryPolicy) -> int:
        """Return the most calls that one episode can take, upper bound calls left out."""
        return self.protocol.episode_calls(scenario_of(task), policy)

    def bound_calls(self, task: Task) -> int:
        """Return the calls that a user's upper bound takes."""
        return upper_bound_calls(scenario_of(task))

    def query(self, task: Task, check: Check) -> str:
        """Return how a question is put to the assistant."""
        return self._put(task, check, self.protocol.templates.answer)

    def reworded(self, task: Task, check: Check) -> str:
        """Return how a question is put in other words."""
        return self._put(task, check, self.protocol.templates.answer_reworded)

    def _put(self, task: Task, check: Check, template: str) -> str:
        return answer_prompt(template, scenario_of(task).qas[int(check.question)], compat=self.protocol.compat)

    def tell(self, task: Task, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe a wrong answer: what the user had said, and what memory held."""
        return _describe_failure(scenario_of(task), episode, stage, mark)

    def fact_prompts(self, task: Task, fact: Fact) -> Iterator[FactPrompt]:
        """Return the prompts that ask for a value of the user's states among others."""
        return fact_prompts(scenario_of(task), fact, self.protocol.templates)

    def states(self, task: Task, fact: Fact, text: str) -> bool | None:
        """Leave it to a model: a state is told in many words."""
        return None

    def hints(self, task: Task) -> Mapping[str, str]:
        """Return the names of the states that will be asked for."""
        return schema_hints(scenario_of(task))

    def replays(self, folder: Path) -> Mapping[str, Episode]:
        """Read recorded talks by user, AMemGym's too. Raises RecordError."""
        return read_transcripts(folder)

    def extras(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> Mapping[str, Any]:
        """Return AMemGym's metrics of how alike states are, means over the users whose episodes are complete."""
        by_user: dict[Metric, list[list[Level]]] = {metric: [] for metric in METRICS}
        for task, episode in zip(tasks, episodes, strict=True):
            if episode.failure is None and isinstance(bound := bounds.get(task.id), DialogueBounds):
                scenario, played = scenario_of(task), replace(episode, stages=tuple(episode.stages))
                for metric, users in by_user.items():
                    users.append(levels(played, scenario, bound.choices, metric, compat=self.protocol.compat))
        return {"metrics": {metric: self._metric_json(users) for metric, users in by_user.items()}}

    def _metric_json(self, by_user: Sequence[Sequence[Level]]) -> dict[str, float | None]:
        compat = self.protocol.compat
        mean, scores = mean_level(by_user), [mean_memory_score(user, compat=compat) for user in by_user]
        unguarded = "unguarded_score" in self.compat and any(map(math.isnan, scores))
        figures = {
            "score": mean.score,
            "floor": mean.random,
            "ceiling": mean.upper_bound,
            "memory_score": math.nan if unguarded else nan_mean(scores),
        }
        return {name: None if math.isnan(value) else round(value, 6) for name, value in figures.items()}


def scenario_of(task: Task) -> Scenario:
    """Return a task of the dialogue's. Raises TaskError for another track's."""
    scenario = task.opened if isinstance(task, FoldedTask) else task
    if not isinstance(scenario, Scenario):
        raise TaskError(f"{task.id}: is no task of the dialogue track")
    return scenario


def _describe_failure(scenario: Scenario, episode: Episode, p: int, mark: Mark) -> str:
    """Say what was asked and answered at the end of a period, what the user had said, and what memory held."""
    q = int(scenario.checks[mark.check].question)
    question, answer, memories = scenario.qas[q], period_of(episode, p).answers[q], _memories(episode, p)
    unknown = [scenario.facts[fact].key for fact, known in mark.recalled.items() if not known]
    said = list(dict.fromkeys(_said(scenario, p, unknown or question.required_info)))
    cue = set(stems(" ".join([question.query, *said])))
    held = sorted(memories, key=lambda line: -len(cue & set(stems(line))))[:MEMORIES_SHOWN]
    lines = [
        f"Question: {question.query}",
        *(f'The user said: "{text}"' for text in said),
        "Memory held:\n" + ("\n".join(f"- {line}" for line in held) or "nothing"),
    ]
    chosen = (
        "none, the reply could not be read" if answer.choice is None else question.answer_choices[answer.choice].answer
    )
    lines.append(f"Chosen answer: {chosen}")
    if answer.gold is not None:
        lines.append(f"Right answer: {question.answer_choices[answer.gold].answer}")
    return "\n".join(lines)


def _memories(episode: Episode, p: int) -> tuple[str, ...]:
    """Return the memories after the last write up to a period."""
    writes = [write for stage in episode.stages[: p + 1] for write in stage.writes]
    return writes[-1].after if writes else ()


def _said(scenario: Scenario, p: int, infos: Sequence[str]) -> Iterator[str]:
    """Yield what the user said last about each of these states."""
    for info in infos:
        said = [s.query for period in scenario.periods[: p + 1] for s in period.sessions if info in s.exposed_states]
        if said:
            yield said[-1]

"""Research as a track: a dossier is a group, a turn a stage; what a search brings depends on what memory gave back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...data.folded import FoldedTask, opened
from ...data.research.load import load_research
from ...data.research.task import ResearchTask, about, same_value
from ...data.task import Check, Fact, Task, TaskError
from ...policies.forms import ReplyForm
from ...policies.lm import Message
from ...policies.policy import MemoryPolicy
from ...policies.prompts import Templates
from ..episode import Bounds, Episode, Mark, RecordError
from ..reading import ObservingTrack
from ..slot import SLOT_FORM, read_slot, slot_query, slot_query_reworded
from ..statistics import nan_mean
from ..track import Cast, FactPrompt, Rollout, Usual, memory_calls
from .rollout import ResearchRollout, is_off_path, observed, subject_given

USUAL = Usual(data="generated:60@7", context_tokens=500)


class ResearchTrack(ObservingTrack[Task]):
    """A plan of searches is given, and its arguments come from memory, after MemGym's deep research."""

    name, noun, stage_noun = "research", "dossier", "turn"
    agent = "planned"
    usual = USUAL

    def __init__(self, templates: Templates | None = None) -> None:
        """Put questions in these words."""
        self.templates = templates or Templates.bundled()

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[FoldedTask]:
        """Return the tasks that a source names, as ``load_research`` has it. Raises TaskError."""
        return load_research(source, groups=groups)

    def begin(
        self,
        task: Task,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        replay: Episode | None = None,
        after: Rollout | None = None,
    ) -> Rollout:
        """Set up an episode. Raises RecordError where ``replay`` is of another task."""
        research = research_of(task)
        if replay is not None:
            _check_replay(research, replay)
        return ResearchRollout(self, research, policy, cast, templates=self.templates, replay=replay)

    def heard(self, task: Task, stage: int) -> Sequence[tuple[Message, ...]]:
        """Return what a turn brings where every answer before is right."""
        return observed(research_of(task).read_in(stage))

    def query(self, task: Task, check: Check) -> str:
        """Return how a check is put where the answer before is right."""
        return slot_query(check.text, self.templates)

    def reworded(self, task: Task, check: Check) -> str:
        """Return the same in other words."""
        research, hop = research_of(task), int(check.question)
        return slot_query_reworded(about(research.hops[hop].reworded, research.subject_of(hop)), self.templates)

    def form(self, task: Task, check: Check) -> ReplyForm:
        """Return the form of a value."""
        return SLOT_FORM

    def mark(self, task: Task, check: Check, raw: str) -> Mark:
        """Score 1 for the value itself, apart from case, punctuation and articles."""
        given = read_slot(raw)
        right = same_value(given, research_of(task).value_of(check))
        return Mark(check.id, raw, float(right), readable=given is not None)

    def most_calls(self, task: Task, policy: MemoryPolicy) -> int:
        """Return the writes of each piece that can come back, searches, and a call for each check and each probe."""
        research, questions = research_of(task), self.question_calls(task)
        sizes = [len(document.pieces) for document in research.documents]
        largest = sorted(sizes, reverse=True)
        pieces = 0
        for turn in research.turns:
            told = sum(sizes[place] for place in turn.documents)
            found = 0 if turn.hop in (None, 0) else sum(largest[: len(turn.documents)])
            pieces += max(told, found) + sum(sizes[place] for place in turn.notices)
        return questions + memory_calls(policy, messages=pieces, searches=questions)

    def tell(self, task: Task, episode: Episode, stage: int, mark: Mark) -> str:
        """Describe a wrong answer: what was asked, what the documents said, and what was answered."""
        research = research_of(task)
        check = research.checks[mark.check]
        hop = int(check.question)
        before = episode.stages[:stage]
        asked = about(research.hops[hop].question, subject_given(research, hop, before))
        lines = [f"Question: {asked}"]
        if is_off_path(research, hop, before):
            lines.append(f"It should have been about {research.subject_of(hop)}: an answer before was wrong.")
        lines += [f'The documents said: "{research.facts[fact].text}"' for fact in check.needs]
        lines += [f"Answer: {read_slot(mark.raw) or 'none'}", f"Right answer: {research.value_of(check)}"]
        return "\n".join(lines)

    def fact_prompts(self, task: Task, fact: Fact) -> Iterator[FactPrompt]:
        """Yield the question for the fact in both wordings."""
        check = next(check for check in task.checks.values() if fact.id in check.needs)
        for text in (self.query(task, check), self.reworded(task, check)):
            yield FactPrompt(text, partial(self._is_right, task, check), SLOT_FORM)

    def states(self, task: Task, fact: Fact, text: str) -> bool:
        """Tell whether a line of the text has the answer, and the name of what it is about where the fact has it."""
        return research_of(task).is_stated(fact, text)

    def hints(self, task: Task) -> Mapping[str, str]:
        """Return what is asked for, without the names that it is asked about."""
        topics = list(dict.fromkeys(hop.topic for hop in research_of(task).hops))
        return {"schema_names": "\n".join(f"- {topic}" for topic in topics), "schema_list": str(topics)}

    def extras(
        self, tasks: Sequence[Task], episodes: Sequence[Episode], bounds: Mapping[str, Bounds]
    ) -> Mapping[str, Any]:
        """Return shares of whole chains and of checks after a wrong answer, and tokens heard, of complete episodes."""
        complete = [(task, each) for task, each in zip(tasks, episodes, strict=True) if _is_complete(task, each)]
        chains = [_chain(research_of(task), episode) for task, episode in complete]
        if not chains:
            return {}
        return {
            "whole_chains": round(nan_mean([chain.is_whole for chain in chains]), 6),
            "off_path": round(nan_mean([chain.off_path for chain in chains]), 6),
            "tokens_read": round(nan_mean([chain.tokens for chain in chains])),
        }


@dataclass(frozen=True, slots=True)
class _Chain:
    """How a chain ended."""

    is_whole: float
    """1 where all of its checks were about the right thing and answered rightly, else 0."""
    off_path: float
    """Share of checks that were about something else than they should."""
    tokens: int
    """Size of what memory heard."""


def _chain(task: ResearchTask, episode: Episode) -> _Chain:
    strays = [
        is_off_path(task, int(task.checks[mark.check].question), episode.stages[:stage])
        for stage, record in enumerate(episode.stages)
        for mark in record.marks
    ]
    right = all(mark.score == 1 for record in episode.stages for mark in record.marks)
    tokens = sum(message.tokens for record in episode.stages for together in record.heard for message in together)
    return _Chain(float(right and not any(strays)), sum(strays) / max(1, len(strays)), tokens)


def _is_complete(task: Task, episode: Episode) -> bool:
    return episode.failure is None and len(episode.stages) == task.stages


def research_of(task: Task) -> ResearchTask:
    """Return a task of the track's. Raises TaskError for another track's."""
    research = opened(task)
    if not isinstance(research, ResearchTask):
        raise TaskError(f"{task.id}: is no task of the research track")
    return research


def _check_replay(task: ResearchTask, replay: Episode) -> None:
    pieces = {piece for document in task.documents for piece in document.pieces}
    heard = (message.content for stage in replay.stages for together in stage.heard for message in together)
    if replay.task != task.id or len(replay.stages) < task.stages or not pieces.issuperset(heard):
        raise RecordError(f"dossier {task.group}, task {task.id}: another text is recorded")

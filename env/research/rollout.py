"""A research episode: each search asks for the answer that memory gave before, and brings what that finds."""

from __future__ import annotations

from collections.abc import Sequence

from ...data.research.task import Document, ResearchTask, about, same_value
from ...data.task import Check, Task
from ...policies.lm import Message
from ...policies.policy import MemoryPolicy
from ...policies.prompts import Templates
from ..episode import Episode, StageRecord
from ..reading import ReadingRollout, ReadingTrack
from ..slot import read_slot, slot_query, slot_query_reworded
from ..track import Cast
from .search import index_of


class ResearchRollout(ReadingRollout[Task]):
    """One episode under way: a plan that is given, whose searches and questions are about what memory gave back.

    Off-policy, where there is a ``replay``: the documents are those that came back there; the questions stay the
    policy's own.
    """

    def __init__(
        self,
        track: ReadingTrack[Task],
        task: ResearchTask,
        policy: MemoryPolicy,
        cast: Cast,
        *,
        templates: Templates,
        replay: Episode | None = None,
    ) -> None:
        """Begin with the first turn."""
        super().__init__(track, task, policy, cast)
        self._research, self._templates, self._replay = task, templates, replay

    def heard(self, stage: int) -> Sequence[tuple[Message, ...]]:
        """Return what a turn's search brings back, in pieces."""
        if self._replay is not None:
            return list(self._replay.stages[stage].heard)
        return observed(documents_found(self._research, stage, self.records))

    def query(self, check: Check) -> str:
        """Return how a check is put: it is about the answer of the hop before, right or wrong."""
        hop = int(check.question)
        question = about(self._research.hops[hop].question, subject_given(self._research, hop, self.records))
        return slot_query(question, self._templates)

    def query_reworded(self, check: Check) -> str:
        """Return how the sealed test also puts it."""
        hop = int(check.question)
        question = about(self._research.hops[hop].reworded, subject_given(self._research, hop, self.records))
        return slot_query_reworded(question, self._templates)


def observed(documents: Sequence[Document]) -> list[tuple[Message, ...]]:
    """Return documents as memory observes them, one piece after another."""
    return [(Message("user", piece),) for document in documents for piece in document.pieces]


def subject_given(task: ResearchTask, hop: int, records: Sequence[StageRecord]) -> str | None:
    """Return what a hop is about by the answers so far: the last answer to the hop before until its own turn.

    None where that answer could not be read; '' for the first hop.
    """
    if hop == 0:
        return ""
    before = task.hops[hop - 1]
    answers = [
        mark.raw
        for record in records[: max(task.hops[hop].turn, before.turn + 1)]
        for mark in record.marks
        if task.checks[mark.check].question == str(hop - 1)
    ]
    return read_slot(answers[-1]) if answers else task.subject_of(hop)


def is_off_path(task: ResearchTask, hop: int, records: Sequence[StageRecord]) -> bool:
    """Tell whether a hop is about something else than it should be, as an answer before was wrong."""
    return hop > 0 and not same_value(subject_given(task, hop, records), task.subject_of(hop))


def documents_found(task: ResearchTask, stage: int, records: Sequence[StageRecord]) -> list[Document]:
    """Return what a turn brings back: what is recorded for the right answer, and for another what the search finds.

    Without an answer nothing is searched for. Notices come in any case.
    """
    turn = task.turns[stage]
    if turn.hop is None or not is_off_path(task, turn.hop, records):
        return task.read_in(stage)
    places = list(turn.notices)
    given = subject_given(task, turn.hop, records)
    if given is not None:
        query = about(turn.query, given)
        query = query if given in query else f"{given} {query}"
        found = index_of(task.documents).search(query, most=len(turn.documents))
        places += [place for place in found if place not in turn.notices]
    return [task.documents[place] for place in places]

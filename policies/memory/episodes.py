"""Episodes, each with a title and a narrative, and the facts in them that were not to be expected.

After Nemori (Nan et al., 2025): a talk is divided where it turns to something else, each part becomes an episode with
a title and a narrative, and what known facts predict of it is compared with what was said, so that only the gap is
kept as facts. There each message is looked at for a boundary, and the prediction is a call of its own, before the talk
is shown; here one call divides what leaves the buffer, and one reply for each episode says first what was to be
expected, and then the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from ..forms import TEXT, ReplyForm, items, one_of, record
from ..lm.base import Message
from ..replies import ReplyError, as_text
from .budget import units_of
from .protocol import MemoryEvent
from .stores import Entry, MemoryState
from .typed import TypedMemory
from .writers import Writing, filled, indented, known_id, listed

GAP = ReplyForm.of("facts", record(expected=TEXT, facts=items(record(text=TEXT))))
UNTITLED = "Untitled"


@dataclass(frozen=True, slots=True)
class Episode:
    """A part of a talk."""

    title: str
    narrative: str
    messages: Sequence[Message]

    @property
    def line(self) -> str:
        """The episode as it is shown and searched."""
        return f"{self.title}: {self.narrative}"


class EpisodeMemory(TypedMemory):
    """Writes episodes, which have a label, their title; and facts, which have none.

    Of what leaves the buffer, the last episode stays there while it is not the only one: it may go on. The knob
    ``episodes`` says how many episodes come back besides ``top_k`` facts, and ``neighbours`` how many known facts are
    in view for each episode when ``prompts.merge`` asks for the gap.
    """

    async def _write(self, writing: Writing) -> MemoryState:
        state, heard = writing.state, writing.heard
        numbered = indented([{"number": i, **message.as_json()} for i, message in enumerate(heard, 1)])
        reply = await writing.ask(writing.prompt({}, conversation=numbered), _form(len(heard)))
        parts = _episodes(listed(reply, "episodes"), heard)
        staying = _staying(writing, parts)
        known = [state.entries[place].text for place in _facts(state)]
        told: list[tuple[str, str]] = []
        for episode in parts[:-1] if staying else parts:
            told.append((episode.narrative, episode.title))
            with writing.forgiving():
                gap = await self._gap(writing, episode, known)
                told += [(fact, "") for fact in gap]
                known += gap
        new = tuple(Entry(state.next_id + i, text, title) for i, (text, title) in enumerate(told))
        entries, buffer = (*state.entries, *new), (*staying, *state.buffer)
        return replace(state, entries=entries, next_id=state.next_id + len(new), buffer=buffer)

    async def _written(self, after: MemoryState, evicted: tuple[Message, ...]) -> tuple[MemoryState, MemoryEvent]:
        state, event = await super()._written(after, evicted)
        staying = len(state.buffer) - len(after.buffer)
        return state, replace(event, evicted=evicted[: len(evicted) - staying])

    async def _found(self, query: str, state: MemoryState, top_k: int) -> list[int]:
        """Return the places of the most similar facts and episodes, in turn by how many there are of each."""
        facts = await self._most_similar(query, state, _facts(state), top_k)
        others = sorted({*range(len(state.entries))} - {*_facts(state)})
        count = int(self.policy.knob("episodes") or 0)
        episodes = await self._most_similar(query, state, others, count) if count else []
        return _in_turn(facts, episodes)

    async def _gap(self, writing: Writing, episode: Episode, facts: Sequence[str]) -> list[str]:
        """Return the facts of an episode that the known ones do not lead to expect."""
        (best,) = await writing.index.search([episode.line], facts, int(self.policy.knob("neighbours") or 1))
        known = {str(i): facts[place] for i, place in enumerate(sorted(best), 1)}
        said = indented([message.as_json() for message in episode.messages])
        reply = await writing.ask(filled(writing.policy.prompts.merge, known, facts=said), GAP)
        told = dict.fromkeys(_fact(given) for given in listed(reply, "facts") if given)
        return [fact for fact in told if fact and fact not in facts]


def _staying(writing: Writing, parts: Sequence[Episode]) -> tuple[Message, ...]:
    """Return the messages of the last episode, which stay in the buffer, with all of a tool call.

    There are none where it is the only one, where nothing would leave the buffer, or where that would be full at once.
    """
    if len(parts) < 2:
        return ()
    evicted, last = writing.evicted, len(parts[-1].messages)
    first = [place for place, message in enumerate(evicted) if writing.hears(message)][-last]
    ends = accumulate(len(unit) for unit in units_of(evicted))
    staying = evicted[max((end for end in ends if end <= first), default=len(evicted)) :]
    full = (writing.policy.update_every or 0) + (writing.policy.buffer_size or 0)
    return staying if len(staying) + len(writing.state.buffer) < full else ()


def _form(count: int) -> ReplyForm:
    episode = record(title=TEXT, narrative=TEXT, last=one_of([str(i) for i in range(1, count + 1)]))
    return ReplyForm.of("episodes", record(episodes=items(episode)))


def _episodes(given: Sequence[object], heard: Sequence[Message]) -> list[Episode]:
    """Return the episodes of a reply, the last of which ends with the talk; such without a message are left out.

    Raises ReplyError for such without a narrative, and where one ends before it has begun.
    """
    episodes: list[Episode] = []
    begun = 0
    for number, each in enumerate(given, 1):
        narrative = as_text(each.get("narrative") or "").strip() if isinstance(each, dict) else ""
        if not isinstance(each, dict) or not narrative:
            raise ReplyError('an item of "episodes" is not an object with a narrative')
        last = number == len(given)
        end = len(heard) if last else known_id(each.get("last"), {*range(begun + 1, len(heard) + 1)})
        episodes.append(Episode(as_text(each.get("title") or "").strip() or UNTITLED, narrative, heard[begun:end]))
        begun = end
    return [episode for episode in episodes if episode.messages]


def _facts(state: MemoryState) -> list[int]:
    return [place for place, entry in enumerate(state.entries) if not entry.label]


def _fact(given: object) -> str:
    return as_text((given.get("text") or "") if isinstance(given, dict) else given).strip()


def _in_turn(some: Sequence[int], others: Sequence[int]) -> list[int]:
    """Return two lists as one in which any beginning has about the same share of either."""
    shares = [((i + 1) / len(places), place) for places in (some, others) for i, place in enumerate(places)]
    return [place for _, place in sorted(shares, key=lambda share: share[0])]

"""What follows from a life without a model: dates, the combinations that are answered, counts, and the scenario."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import accumulate, product
from operator import or_
from typing import Any

from ....data.dialogue.scenario import Scenario, State, UserProfile
from ..compat import Compat
from .checks import Draft, LifeEvent, Opening, PeriodChange
from .plan import GenerationPlan
from .problems import Schema

EARLIEST, LATEST = 19 * 3600, 22 * 3600
"""When sessions begin, in seconds of the day."""

Values = tuple[str, ...]
"""A combination of a question's states, aligned with its info types."""


@dataclass(slots=True)
class Life:
    """A user in the making, as far as it is known."""

    user: str
    profile: UserProfile
    drafts: list[Draft]
    """The questions; their info types have the names of the schema."""
    schema: Schema
    initial: State
    changes: list[PeriodChange] = field(default_factory=list)
    events: Sequence[Sequence[LifeEvent]] = ()
    """By period; the initial one has none."""
    openings: Sequence[Sequence[Opening]] = ()
    """The messages that open sessions, by period."""
    answers: Sequence[Sequence[str]] = ()
    """By question, aligned with the combinations that are answered."""

    @property
    def states(self) -> list[State]:
        """The full state after each period."""
        return list(accumulate((change.updated for change in self.changes), or_, initial=self.initial))


def lived_variants(life: Life, q: int) -> list[Values]:
    """Return the combinations of a question's states that occur in the life, in their order, each once."""
    return list(dict.fromkeys(tuple(state[info] for info in life.drafts[q].infos) for state in life.states))


def variants_to_answer(life: Life, q: int, plan: GenerationPlan) -> list[Values]:
    """Return the combinations of a question's states that get an answer: the lived ones, then fillers."""
    in_life = lived_variants(life, q)
    others = [state for state in product(*(life.schema[info] for info in life.drafts[q].infos)) if state not in in_life]
    missing = min(max(0, plan.min_variants - len(in_life)), len(others))
    return [*in_life, *random.Random(f"fillers:{plan.seed}:{life.user}:{q}").sample(others, missing)]


def shuffled(count: int, *, seed: int, user: str, q: int, compat: Compat) -> list[int]:
    """Return the order in which a question's choices stand."""
    if "unshuffled_choices" in compat:
        return list(range(count))
    return random.Random(f"choices:{seed}:{user}:{q}").sample(range(count), count)


def session_times(count: int, end: date, *, seed: int, user: str, period: int) -> list[str]:
    """Return when the sessions of a period begin: on its last days, one a day, in the evening."""
    rng = random.Random(f"times:{seed}:{user}:{period}")
    times = []
    for s in range(count):
        day, second = end - timedelta(days=count - 1 - s), rng.randint(EARLIEST, LATEST)
        times.append(f"{day.isoformat()} {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}")
    return times


def update_counts(life: Life, until: int | None = None) -> dict[str, int]:
    """Return how often each state has changed up to a period, or so far; the initial values are left out."""
    counts = Counter(info for change in life.changes[:until] for info in change.updated)
    return {info: counts[info] for info in life.schema}


def assemble(life: Life, plan: GenerationPlan, compat: Compat) -> Scenario:
    """Put a scenario together. Raises ScenarioError when it is not sound."""
    row = {
        "id": life.user,
        "start_time": plan.start_date.isoformat(),
        "user_profile": life.profile.model_dump(mode="json"),
        "state_schema": {info: list(choices) for info, choices in life.schema.items()},
        "periods": [_period(life, p, plan, compat) for p in range(len(life.changes) + 1)],
        "qas": [_question(life, q, plan, compat) for q in range(len(life.drafts))],
    }
    scenario = Scenario.parse(row)
    scenario.check_golds()
    return scenario


def _period(life: Life, p: int, plan: GenerationPlan, compat: Compat) -> dict[str, Any]:
    end, openings, states = plan.period_end(p), life.openings[p], life.states
    changed = life.changes[p - 1].updated if p else life.initial
    times = session_times(len(openings), end, seed=plan.seed, user=life.user, period=p)
    events: list[str | None] = [event.text for event in life.events[p]] if p else [None] * len(openings)
    return {
        "period_start": plan.period_end(p - 1).isoformat() if p else None,
        "period_end": end.isoformat(),
        "period_summary": life.changes[p - 1].summary if p else None,
        "sessions": [
            {
                "event": event,
                "exposed_states": opening.exposed,
                "query": opening.query,
                "messages": [],
                "session_time": time,
            }
            for event, opening, time in zip(events, openings, times, strict=True)
        ],
        "state": states[p],
        "updates": {info: {"old": states[p - 1][info] if p else None, "new": new} for info, new in changed.items()},
        "update_cnts": update_counts(life, None if "final_update_counts" in compat else p),
    }


def _question(life: Life, q: int, plan: GenerationPlan, compat: Compat) -> dict[str, Any]:
    draft, in_life = life.drafts[q], lived_variants(life, q)
    choices = [
        {"state": list(state), "answer": answer, "type": "experience" if state in in_life else "random"}
        for state, answer in zip(variants_to_answer(life, q, plan), life.answers[q], strict=True)
    ]
    order = shuffled(len(choices), seed=plan.seed, user=life.user, q=q, compat=compat)
    return {
        "query": draft.question,
        "required_info": list(draft.infos),
        "answer_choices": [choices[i] for i in order],
    }

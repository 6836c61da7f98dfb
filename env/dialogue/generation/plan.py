"""The numbers of a generation, and how many calls they can take."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from math import ceil
from typing import Annotated, Any

from pydantic import Field, model_validator

from ....data.dialogue.generator import START, add_months
from ....data.record import Record

MOST_STATES_A_MESSAGE = 3
"""States that an opening message of the initial period tells at most."""
LANGUAGES: Mapping[str, str] = {"en": "English", "zh": "Chinese"}

Positive = Annotated[int, Field(ge=1)]
Temperature = Annotated[float, Field(ge=0, le=2)]


class GenerationPlan(Record):
    """The proportions of the users to make; the defaults are those of AMemGym's v1.base."""

    users: Positive = 20
    """How many to make."""
    questions: Annotated[int, Field(ge=1, le=100)] = 10
    """Per user."""
    periods: Annotated[int, Field(ge=0, le=200)] = 10
    """Periods in which states change, after the initial one."""
    months_per_period: Annotated[int, Field(ge=1, le=120)] = 3
    """Length of a period."""
    states_per_question: Annotated[int, Field(ge=1, le=6)] = 2
    """States that the right answer depends on."""
    choices_per_state: Annotated[int, Field(ge=2, le=10)] = 3
    """Values that a state can have."""
    changes_per_period: Positive = 4
    """States that change in a period, give or take one."""
    changes_per_state: Positive = 3
    """How often one state may change in a life, as long as enough others are left."""
    min_variants: Annotated[int, Field(ge=2)] = 4
    """Answer choices that a question has at least."""
    start_date: date = START
    """End of the initial period."""
    language: Annotated[str, Field(min_length=1)] = "English"
    """Of everything that is said; names of states and values are in the model's hands."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Draws the people, the order of choices, fillers and times; a model's replies are its own."""
    attempts: Annotated[int, Field(ge=1, le=50)] = 4
    """Tries to get a usable reply, the first one included."""
    refinements: Annotated[int, Field(ge=0, le=50)] = 20
    """How often an answer or a message is written anew until it passes its verification."""
    temperature: Temperature = 0.2
    """For what is to be exact."""
    creative_temperature: Temperature = 1.0
    """For questions and for what happens in a period."""
    max_tokens: Positive = 8192
    """Longest reply."""
    exclude_ids: tuple[str, ...] = ()
    """Personas that are not used."""

    @model_validator(mode="after")
    def _check_sizes(self) -> GenerationPlan:
        if self.min_variants > self.combinations:
            raise ValueError(
                f"min_variants: {self.min_variants} answers need as many combinations of states, but "
                f"{self.states_per_question} states with {self.choices_per_state} choices have {self.combinations}"
            )
        if self.changes_per_period > self.states:
            raise ValueError(f"changes_per_period: {self.changes_per_period} of at most {self.states} states")
        if self.changes_per_period + 1 > 28 * self.months_per_period:
            raise ValueError("changes_per_period: a period needs a day for each change")
        try:
            add_months(self.start_date, self.periods * self.months_per_period)
        except ValueError:
            raise ValueError("periods: the last one ends after the year 9999") from None
        return self

    @property
    def combinations(self) -> int:
        """Combinations of the states of one question."""
        return int(self.choices_per_state**self.states_per_question)

    @property
    def states(self) -> int:
        """States of a user, before some are merged."""
        return self.questions * self.states_per_question

    @property
    def most_variants(self) -> int:
        """Most answer choices of one question: one for each combination lived, or the fillers."""
        return min(self.combinations, max(self.periods + 1, self.min_variants))

    def period_end(self, period: int) -> date:
        """Return the last day of a period; period 0 is the initial one."""
        return add_months(self.start_date, period * self.months_per_period)


def most_user_calls(plan: GenerationPlan, *, personas: bool) -> int:
    """Return the most calls that one user can take.

    A reply takes at most ``attempts`` calls. Replies are: profile (with ``personas``), questions, merge, unified
    choices, initial state and first messages; update, events and messages of each period; answers of each question.
    Each answer and message is verified once. At most ``refinements`` times it is written anew, with ``attempts`` calls,
    and verified again. A request that the client sends again is the same call.
    """
    replies = int(personas) + 5 + 3 * plan.periods + plan.questions
    texts = plan.questions * plan.most_variants + plan.states + plan.periods * (plan.changes_per_period + 1)
    return plan.attempts * replies + texts * (1 + plan.refinements * (1 + plan.attempts))


def expected_user_calls(plan: GenerationPlan, *, personas: bool) -> int:
    """Return about how many calls one user takes when every reply is right the first time."""
    replies = int(personas) + 5 + 3 * plan.periods + plan.questions
    texts = plan.questions * plan.min_variants + ceil(plan.states / 2) + plan.periods * plan.changes_per_period
    return replies + texts


def plan_values(env: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan's values in AMemGym's env config.

    ``exclude_ids`` are honoured; of the two models' configs temperature and longest reply. Rounds are the evaluation's.
    """
    low, high = (_mapping(env.get(f"llm_config_{which}_temp")) for which in ("low", "high"))
    values = {name: env[theirs] for theirs, name in _ENV_KEYS.items() if theirs in env}
    if "language" in values:
        values["language"] = LANGUAGES.get(str(values["language"]), values["language"])
    if "temperature" in low:
        values["temperature"] = low["temperature"]
    if "temperature" in high:
        values["creative_temperature"] = high["temperature"]
    longest = [config["max_tokens"] for config in (low, high) if isinstance(config.get("max_tokens"), int)]
    if longest:
        values["max_tokens"] = max(longest)
    return values


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_ENV_KEYS = {
    "num_user_profiles": "users",
    "num_questions": "questions",
    "num_periods": "periods",
    "num_months_per_period": "months_per_period",
    "num_states_per_question": "states_per_question",
    "num_choices_per_state": "choices_per_state",
    "num_changes_per_period": "changes_per_period",
    "max_changes_per_state": "changes_per_state",
    "min_state_variants": "min_variants",
    "start_date": "start_date",
    "lang": "language",
    "seed": "seed",
    "exclude_ids": "exclude_ids",
}

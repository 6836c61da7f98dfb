"""The scenario: one simulated user's life, in the row format of AMemGym's ``data.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from ..record import Record
from ..task import Check, Fact, TaskError

State = dict[str, str]
"""A value for each info type."""

LONGEST_ID = 200
ID = r"^[^\x00-\x1f\x7f]*$"

Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID, pattern=ID)]
"""A user's name: files, reports and databases hold it."""

SessionTime = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}$")]


class ScenarioError(TaskError):
    """Say what is wrong with a scenario, naming the user, the period and the field."""


class UserProfile(BaseModel):
    """Who the user is; only ``formatted_str`` is shown to the simulated user, further fields are kept as they are."""

    model_config = ConfigDict(frozen=True, extra="allow")

    formatted_str: str


class Session(Record):
    """One talk, opened by the user with ``query``."""

    event: str | None = None
    exposed_states: State
    query: str
    messages: list[dict[str, Any]] = []
    session_time: SessionTime

    @property
    def opening(self) -> str:
        """The session's first message as the assistant gets it."""
        return f"[Current Time: {self.session_time}]\n{self.query}"


class Update(Record):
    """A change of one state; ``old`` is null for the initial value."""

    old: str | None
    new: str


class Period(Record):
    """A stretch of the user's life: its sessions, and the full state that holds at its end."""

    period_start: date | None
    period_end: date
    period_summary: str | None = None
    sessions: list[Session]
    state: State
    updates: dict[str, Update]
    update_cnts: dict[str, int] = {}


class AnswerChoice(Record):
    """An answer that suits one combination of states, aligned with the question's ``required_info``."""

    state: list[str]
    answer: str
    type: Literal["experience", "random"] = "experience"


class Question(Record):
    """A multiple-choice question whose right answer depends on the user's current states."""

    query: str
    required_info: Annotated[list[str], Field(min_length=1)]
    answer_choices: Annotated[list[AnswerChoice], Field(min_length=2)]

    def gold(self, state: Mapping[str, str]) -> int | None:
        """Return the index of the answer that suits ``state``, or None where no choice does."""
        wanted = [state[info] for info in self.required_info]
        return next((i for i, choice in enumerate(self.answer_choices) if choice.state == wanted), None)

    def chance(self, state: Mapping[str, str]) -> float:
        """Return the expected score of a blind choice in ``state``, in [0, 1]."""
        wanted = [state[info] for info in self.required_info]
        alike = [float(choice.state == wanted) for choice in self.answer_choices]
        return sum(alike) / len(alike)


class Scenario(Record):
    """One simulated user's life: profile, state schema, periods and evaluation questions.

    Source: AMemGym (ICLR 2026), ``data.json``. Period 0 holds the initial state.
    """

    id: Id
    start_time: date
    user_profile: UserProfile
    state_schema: dict[str, Annotated[list[str], Field(min_length=1)]]
    periods: Annotated[list[Period], Field(min_length=1)]
    qas: list[Question]

    @property
    def group(self) -> str:
        """The user: each is a group of its own."""
        return self.id

    @property
    def stages(self) -> int:
        """Periods."""
        return len(self.periods)

    @cached_property
    def facts(self) -> Mapping[str, Fact]:
        """Each value of each state, from the period in which it is set or changed until the next change."""
        return {fact.id: fact for info in self.state_schema for fact in self._facts_of(info)}

    @cached_property
    def checks(self) -> Mapping[str, Check]:
        """Every question at the end of every period."""
        return {
            check_id(p, q): Check(
                id=check_id(p, q),
                question=str(q),
                stage=p,
                needs=tuple(fact_id(info, self.last_change(info, p)) for info in question.required_info),
                chance=question.chance(period.state),
                text=question.query,
            )
            for p, period in enumerate(self.periods)
            for q, question in enumerate(self.qas)
        }

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Scenario:
        """Return a copy whose facts and checks are its own."""
        copied = super().model_copy(update=update, deep=deep)
        for derived in ("facts", "checks"):
            copied.__dict__.pop(derived, None)
        return copied

    def check_golds(self) -> None:
        """Raise ScenarioError unless every question has its right answer in every period."""
        for p, period in enumerate(self.periods):
            for q, question in enumerate(self.qas):
                if question.gold(period.state) is None:
                    raise ScenarioError(f"user {self.id}: period {p}: qas[{q}] has no answer for the state")

    def contradictions(self) -> Iterator[str]:
        """Yield where updates say something else than the states, by which what a question needs is the wrong value."""
        before: State = {}
        for p, period in enumerate(self.periods):
            for info, update in period.updates.items():
                if update.new != period.state[info]:
                    yield f"period {p}: updates.{info}: new is {update.new!r}, and state has {period.state[info]!r}"
            for info, value in period.state.items():
                if p and value != before[info] and info not in period.updates:
                    yield f"period {p}: updates: lacks {info}, whose state was {before[info]!r} and is {value!r}"
            before = period.state

    def last_change(self, info: str, now: int) -> int:
        """Return the last period up to ``now`` in which a state was set or changed."""
        return max((p for p in range(now + 1) if info in self.periods[p].updates), default=0)

    def _facts_of(self, info: str) -> list[Fact]:
        changes = [p for p, period in enumerate(self.periods) if p == 0 or info in period.updates]
        return [
            Fact(
                id=fact_id(info, since),
                key=info,
                topic=topic_of(info),
                text=f"{info}: {self.periods[since].state[info]}",
                since=since,
                until=until,
                sources=tuple(
                    session.opening
                    for period in self.periods[since:until]
                    for session in period.sessions
                    if info in session.exposed_states
                ),
            )
            for since, until in zip(changes, [*changes[1:], None], strict=True)
        ]

    @classmethod
    def parse(cls, row: Any, *, position: int = 0) -> Scenario:
        """Validate one row of a ``data.json``.

        ``position`` is the row's 0-based place, named in errors of rows without an id.
        Raises ScenarioError with one line per problem, each naming user, period and field.
        """
        user = row.get("id", f"#{position}") if isinstance(row, dict) else f"#{position}"
        try:
            return cls.model_validate(row)
        except ValidationError as error:
            lines = [f"user {user}: {_place(e['loc'])}{reason}" for e in error.errors() for reason in _reasons(e)]
            raise ScenarioError("\n".join(lines)) from None

    @model_validator(mode="after")
    def _check_states(self) -> Scenario:
        problems = [*self._period_problems(), *self._question_problems()]
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _period_problems(self) -> Iterator[str]:
        for p, period in enumerate(self.periods):
            missing = sorted(self.state_schema.keys() - period.state.keys())
            if missing:
                yield f"period {p}: state lacks {', '.join(missing)}"
            yield from self._value_problems(f"period {p}: state", period.state)
            yield from self._value_problems(f"period {p}: updates", {k: u.new for k, u in period.updates.items()})
            for s, session in enumerate(period.sessions):
                yield from self._value_problems(f"period {p}: sessions[{s}].exposed_states", session.exposed_states)

    def _question_problems(self) -> Iterator[str]:
        for q, question in enumerate(self.qas):
            unknown = [info for info in question.required_info if info not in self.state_schema]
            if unknown:
                yield f"qas[{q}].required_info: {', '.join(unknown)} is not in state_schema"
                continue
            for c, choice in enumerate(question.answer_choices):
                where = f"qas[{q}].answer_choices[{c}].state"
                if len(choice.state) != len(question.required_info):
                    yield f"{where}: has {len(choice.state)} values for {len(question.required_info)} infos"
                else:
                    state = dict(zip(question.required_info, choice.state, strict=True))
                    yield from self._value_problems(where, state)

    def _value_problems(self, where: str, state: State) -> Iterator[str]:
        for info, value in state.items():
            choices = self.state_schema.get(info)
            if choices is None:
                yield f"{where}: {info} is not in state_schema"
            elif value not in choices:
                yield f"{where}.{info}: {value!r} is not one of {', '.join(choices)}"


def fact_id(info: str, since: int) -> str:
    """Return the id of the value that a state has from a period on."""
    return f"{info}@{since}"


def check_id(period: int, question: int) -> str:
    """Return the id of a question at the end of a period."""
    return f"{period}.{question}"


def topic_of(info: str) -> str:
    """Return what a state is about: the first word of its name."""
    return info.split("_")[0]


def _place(location: tuple[int | str, ...]) -> str:
    parts = list(location)
    place = ""
    if len(parts) >= 2 and parts[0] == "periods":
        place, parts = f"period {parts[1]}: ", parts[2:]
    for i, part in enumerate(parts):
        place += f"[{part}]" if isinstance(part, int) else f"{'.' if i else ''}{part}"
    return f"{place}: " if parts else place


def _reasons(error: Any) -> list[str]:
    if error["type"] == "extra_forbidden":
        return ["no such field"]
    return str(error["msg"]).removeprefix("Value error, ").splitlines()

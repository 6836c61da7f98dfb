"""The scenario: one simulated user's life, in the row format of AMemGym's ``data.json``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

State = dict[str, str]
"""A value for each info type."""

SessionTime = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}$")]


class ScenarioError(ValueError):
    """Say what is wrong with a scenario, naming the user, the period and the field."""


class Record(BaseModel):
    """A frozen value read from JSON; unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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


class Scenario(Record):
    """One simulated user's life: profile, state schema, periods and evaluation questions.

    Source: AMemGym (ICLR 2026), ``data.json``. Period 0 holds the initial state.
    """

    id: str
    start_time: date
    user_profile: UserProfile
    state_schema: dict[str, Annotated[list[str], Field(min_length=1)]]
    periods: Annotated[list[Period], Field(min_length=1)]
    qas: list[Question]

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
            found = [(_place(e["loc"]), reason) for e in error.errors() for reason in _reasons(e)]
            lines = [f"user {user}: {place}{reason}" for place, reason in found]
            raise ScenarioError("\n".join(lines)) from None

    @model_validator(mode="after")
    def _check_states(self) -> Scenario:
        problems = [*self._period_problems(), *self._question_problems()]
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _period_problems(self) -> list[str]:
        problems: list[str] = []
        for p, period in enumerate(self.periods):
            missing = sorted(self.state_schema.keys() - period.state.keys())
            if missing:
                problems.append(f"period {p}: state lacks {', '.join(missing)}")
            problems += self._value_problems(f"period {p}: state", period.state)
            problems += self._value_problems(f"period {p}: updates", {k: u.new for k, u in period.updates.items()})
            for s, session in enumerate(period.sessions):
                where = f"period {p}: sessions[{s}].exposed_states"
                problems += self._value_problems(where, session.exposed_states)
        return problems

    def _question_problems(self) -> list[str]:
        problems: list[str] = []
        for q, question in enumerate(self.qas):
            unknown = [info for info in question.required_info if info not in self.state_schema]
            if unknown:
                problems.append(f"qas[{q}].required_info: {', '.join(unknown)} is not in state_schema")
                continue
            for c, choice in enumerate(question.answer_choices):
                where = f"qas[{q}].answer_choices[{c}].state"
                if len(choice.state) != len(question.required_info):
                    problems.append(f"{where}: has {len(choice.state)} values for {len(question.required_info)} infos")
                    continue
                problems += self._value_problems(where, dict(zip(question.required_info, choice.state, strict=True)))
        return problems

    def _value_problems(self, where: str, state: State) -> list[str]:
        problems = []
        for info, value in state.items():
            choices = self.state_schema.get(info)
            if choices is None:
                problems.append(f"{where}: {info} is not in state_schema")
            elif value not in choices:
                problems.append(f"{where}.{info}: {value!r} is not one of {', '.join(choices)}")
        return problems


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

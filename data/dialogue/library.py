"""The hand-written library that the generator builds users from: topics, state variables and ways to say them."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import Field

from ..record import Record
from ..resources import load_yaml, resource

Lines = Annotated[tuple[str, ...], Field(min_length=1)]


class ValueTexts(Record):
    """How one value of a state sounds."""

    say: Lines
    """First-person statements that the value holds."""
    change: Lines
    """First-person statements that things have changed to the value."""
    advice: Lines
    """Advice that suits this value only and does not name it."""

    @property
    def statements(self) -> tuple[str, ...]:
        """Every line that gives the value away."""
        return self.say + self.change


class Variable(Record):
    """A state of a user's life and its values."""

    values: Annotated[dict[str, ValueTexts], Field(min_length=2)]
    ask: Lines
    """Requests that suit every value and give none away."""


class PairQuestion(Record):
    """Questions whose best answer depends on two variables."""

    about: tuple[str, str]
    ask: Lines


class Topic(Record):
    """A part of life: its variables, the questions about pairs of them, and talk that gives nothing away."""

    topic: str
    variables: dict[str, Variable]
    questions: Annotated[tuple[PairQuestion, ...], Field(min_length=1)]
    chat: Lines


@cache
def load_library() -> dict[str, Topic]:
    """Return every bundled topic by its name, sorted by name."""
    folder = resource("data", "dialogue", "library")
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda e: e.name)
    topics = (Topic.model_validate(load_yaml(file.read_text(encoding="utf-8"))) for file in files)
    return {topic.topic: topic for topic in topics}

"""The hand-written library that the generator builds users from: topics, state variables and ways to say them."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import Field

from ..record import Record
from ..resources import load_yaml, resource
from .sizes import Phrasing

Lines = Annotated[tuple[str, ...], Field(min_length=1)]


class Phrased(Record):
    """Lines in the words of two people: who is tested speaks ``b``, so that nothing learnt of ``a`` is of use."""

    a: Lines
    b: Lines

    def lines(self, phrasing: Phrasing) -> tuple[str, ...]:
        """Return the lines of a phrasing."""
        return self.a if phrasing == "a" else self.b


class Tellings(Record):
    """How one person tells a value to an assistant; each is a message of its own."""

    asked: Lines
    """Requests for help that let the value be known."""
    stated: Lines
    """Statements that give the value away, some of them by implication."""
    change_asked: Lines
    """Requests for help that say that things have changed to the value."""
    change_stated: Lines
    """Statements that things have changed to the value."""

    @property
    def every(self) -> tuple[str, ...]:
        """All of them."""
        return self.asked + self.stated + self.change_asked + self.change_stated


class ValueTexts(Record):
    """How one value of a state sounds."""

    a: Tellings
    b: Tellings
    advice: Lines
    """Advice that suits this value only and does not name it."""

    def tellings(self, phrasing: Phrasing) -> Tellings:
        """Return the tellings of a phrasing."""
        return self.a if phrasing == "a" else self.b

    @property
    def statements(self) -> tuple[str, ...]:
        """Every line that gives the value away."""
        return self.a.every + self.b.every


class Variable(Record):
    """A state of a user's life and its values."""

    values: Annotated[dict[str, ValueTexts], Field(min_length=2)]
    ask: Phrased
    """Requests that suit every value and give none away."""


class PairQuestion(Record):
    """Questions whose best answer depends on two variables."""

    about: tuple[str, str]
    ask: Phrased


class Topic(Record):
    """A part of life: its variables, the questions about pairs of them, and talk that gives nothing away."""

    topic: str
    variables: dict[str, Variable]
    questions: Annotated[tuple[PairQuestion, ...], Field(min_length=1)]
    chat: Phrased


@cache
def load_library() -> dict[str, Topic]:
    """Return every bundled topic by its name, sorted by name."""
    folder = resource("data", "dialogue", "library")
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda e: e.name)
    topics = (Topic.model_validate(load_yaml(file.read_text(encoding="utf-8"))) for file in files)
    return {topic.topic: topic for topic in topics}

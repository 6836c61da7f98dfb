"""Prompts whose right answers show that a language model knows a value of the user's states."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

from ...data.dialogue.scenario import Scenario, topic_of
from ...data.task import Fact
from ...policies.forms import choice_form
from ...policies.prompts import Templates, render
from ..track import FactPrompt
from .protocol import read_probe, schema_prompt

FOILS = 12
"""Values of other states among the choices: a model that guesses hits a foil more often than the right value."""
UNKNOWN = "not_told"
"""The choice for a memory that does not say; it comes first, where a model without a clue looks."""
PLAIN = "What do you know about me and this: {key}?"
"""The second phrasing: without the question that needs the state."""


def fact_prompts(scenario: Scenario, fact: Fact, templates: Templates) -> Iterator[FactPrompt]:
    """Yield each phrasing with the values in both orders, each time among other foils."""
    info, value = fact.key, scenario.periods[fact.since].state[fact.key]
    values, foils = scenario.state_schema[info], _foils(scenario, info)
    question = next(question.query for question in scenario.qas if info in question.required_info)
    phrasings = (question, render(PLAIN, key=info.replace("_", " ")))
    for i, (query, order) in enumerate(product(phrasings, (values, values[::-1]))):
        choices = [UNKNOWN, *foils[i * FOILS : (i + 1) * FOILS], *order]
        text = schema_prompt(templates.probe, query, {info: choices})
        yield FactPrompt(text, partial(_is_right, info=info, value=value), choice_form({info: choices}))


def _is_right(reply: str, *, info: str, value: str) -> bool:
    return (read_probe(reply) or {}).get(info) == value


def _foils(scenario: Scenario, info: str) -> Sequence[str]:
    """Return the values of states about other topics."""
    schema = scenario.state_schema
    foils = [value for other, values in schema.items() if topic_of(other) != topic_of(info) for value in values]
    random.Random(f"foils:{scenario.id}:{info}").shuffle(foils)
    return foils

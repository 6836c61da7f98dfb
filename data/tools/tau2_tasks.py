"""Tasks of rows of tau2-bench: which arguments of the gold plan the customer says, and which a tool gives back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..task import TaskError
from ..words import has_words
from .observation import as_json, lines_of
from .plot import Known, Plot, Told
from .row import Action, Criteria, Requestor, Row
from .task import Path as Place
from .task import ToolsTask, value_at
from .tau2 import CheckoutWorld, open_checkout
from .world import Result, ToolError

LEAST_CHARACTERS = 3
"""Shorter values stand anywhere; they are constants of the plan."""
MOST_VALUE = 40
"""Characters of a value that a customer says, or that a question names."""
MOST_MARKS = 4
"""Values of a record that a question names at most."""
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


@dataclass(frozen=True, slots=True)
class _Given:
    """A value that a tool gave back, and how it can be asked for."""

    told: Told
    value: Any
    key: str
    question: str
    beside: tuple[str, ...]
    """What stands beside it."""
    listed: bool
    """Whether only its place in a list tells it from others."""


def task_of(row: Row, checkout: Path, domain: str) -> ToolsTask:
    """Return the task of a row: each call of a tool in the gold plan is a stage.

    What the customer's script has of the plan's arguments is said at the beginning, in words that are not the script's.
    Raises TaskError where its databases cannot be set up.
    """
    world = _world(row, checkout, domain)
    plot = Plot(f"{domain}/{row.id}", world)
    _play_history(plot, row)
    said = _said(plot, row, {})
    _play(plot, row, {str(known.value): known for known in said.values()}, staged=True)
    texts = [text for step in plot.steps for text in (*step.heard, as_json(step.arguments))]
    customer = world.customer_in("\n".join([*texts, *row.user_scenario.script]))
    return plot.finish(group=f"{domain}/{customer or row.id}", domain=f"tau2:{checkout}/{domain}", row=row)


def chain_of(rows: Sequence[Row], checkout: Path, domain: str, *, group: str) -> ToolsTask:
    """Return the task of several rows of one customer: each is a call, a stage with databases of its own.

    What the customer has said in an earlier call, and not otherwise since, is not said again.
    """
    plot, said = Plot(f"{group}-across", _world(rows[0], checkout, domain)), dict[str, Known]()
    for number, row in enumerate(rows):
        if number:
            plot.next_stage()
            plot.world = _world(row, checkout, domain)
        _play_history(plot, row)
        now = _said(plot, row, said)
        _play(plot, row, {str(known.value): known for known in now.values()}, staged=False)
        said |= now
    task = plot.finish(group=group, domain=f"tau2:{checkout}/{domain}", row=rows[0])
    return replace(task, later=tuple(rows[1:]))


def _world(row: Row, checkout: Path, domain: str) -> CheckoutWorld:
    world = open_checkout(checkout, domain, row)
    try:
        world.begin(row.initial_state)
    except ToolError as error:
        raise TaskError(f"tau2:{checkout}/{domain}, task {row.id}: initial_state: {error}") from None
    return world


def _play(plot: Plot, row: Row, known: Mapping[str, Known], *, staged: bool) -> None:
    """Follow the gold plan; where it is ``staged``, each call of a tool begins a stage."""
    criteria, given = row.evaluation_criteria or Criteria(), list[_Given]()
    for number, action in enumerate(criteria.actions or ()):
        if staged and number:
            plot.next_stage()
        values = ((path, _known(plot, value, known, given)) for path, value in _leaves(action.arguments))
        slots = [(path, value) for path, value in values if value is not None]
        told, result = plot.try_call(action.name, action.arguments, slots=slots, requestor=action.requestor)
        if action.requestor == "user":
            told = replace(plot.say("\n".join(_reported(action, result))), value=told.value)
        if not result.error:
            given += _given(told, action)
    for info in criteria.communicate_info or ():
        plot.reply("It is {value}.", value=_known(plot, info, known, given) or info)


def _play_history(plot: Plot, row: Row) -> None:
    """Do what was done before the agent."""
    first = len(plot.steps)
    history = (row.initial_state and row.initial_state.message_history) or ()
    for message in history:
        by: Requestor = "user" if message.role == "user" else "assistant"
        if message.content and message.role == "user":
            plot.say(message.content)
        elif message.content and message.role == "assistant":
            plot.reply(message.content)
        for call in message.tool_calls or ():
            plot.try_call(call.name, call.arguments, requestor=call.requestor or by)
    plot.steps[first:] = [replace(step, before=True) for step in plot.steps[first:]]


def _said(plot: Plot, row: Row, before: Mapping[str, Known]) -> dict[str, Known]:
    """Let the customer say the values of the plan that are in the script, but for those that were said ``before``.

    Returns all of them by what they are called.
    """
    script, criteria = "\n".join(row.user_scenario.script), row.evaluation_criteria or Criteria()
    places = [(_words(path), value) for a in criteria.actions or () for path, value in _leaves(a.arguments)]
    values = {str(value): (name, value) for name, value in reversed(places) if _is_said(script, str(value))}
    ordered = [values[text] for text in dict.fromkeys(str(value) for _, value in places) if text in values]
    times, seen, named = Counter(name for name, _ in ordered), Counter[str](), dict[str, Any]()
    for name, value in ordered:
        whole = f"{_ordinal(seen[name])} {name}" if times[name] > 1 else name
        seen[name] += 1
        named.setdefault(whole, value)  # the first of several names can be the first name too
    said = {name: before[name] for name in named if name in before and str(before[name].value) == str(named[name])}
    new = {name: value for name, value in named.items() if name not in said}
    hello = "Hello, it is me again." if plot.stage else "Hello, I need your help."
    told = plot.say("\n".join([hello, *(f"The {name} is {value}." for name, value in new.items())]))
    return said | {
        name: plot.learn(told, value, f"{name} of the customer", f"What is the {name}?", beside=[name])
        for name, value in new.items()
    }


def _known(plot: Plot, value: Any, known: Mapping[str, Known], given: Sequence[_Given]) -> Known | None:
    """Return who told a value: the customer, else the last tool that gave it back; None for the plan's constants."""
    if str(value) in known:
        return known[str(value)]
    found = [candidate for candidate in reversed(given) if str(candidate.value) == str(value)]
    if not found:
        return None
    best = next((candidate for candidate in found if not candidate.listed), found[0])
    return plot.learn(best.told, value, best.key, best.question, beside=best.beside)


def _leaves(value: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield the texts and numbers of a value that are long enough to be told apart, with their places."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(part, (*path, key))
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and len(str(value)) >= LEAST_CHARACTERS:
        yield path, value


def _given(told: Told, action: Action) -> list[_Given]:
    """Return the values that a tool gave back."""
    named = [str(value) for _, value in _leaves(action.arguments)]
    source = f"for {named[0]}" if named else f"from {action.name}"
    if not isinstance(told.value, dict | list):
        what = f"result of {action.name} {source}"
        return [_Given(told, value, what, f"What is the {what}?", (), False) for _, value in _leaves(told.value)]
    leaves = [(path, value, _beside(told.value, path)) for path, value in _leaves(told.value)]
    paths, values = [path for path, _, _ in leaves], []
    for path, value, beside in leaves:
        name, listed = _name(path, paths), not isinstance(path[-1], str)
        others = [theirs for there, other, theirs in leaves if _name(there, paths) == name and other != value]
        chosen = [] if listed else _telling(beside, others)
        what = f"{name} place {int(path[-1]) + 1}" if listed else name
        what += f" beside {' and '.join(chosen)}" if chosen else ""
        if str(value) not in named and str(value) not in what:  # else the question gives the value away
            key = f"{what} {source}"
            values.append(_Given(told, value, key, f"What is the {key}?", tuple(chosen), listed))
    keys = Counter(key for key, _ in {(given.key, str(given.value)) for given in values})
    return [given for given in values if keys[given.key] == 1]  # else its question has two answers


def _beside(value: Any, path: Place) -> list[str]:
    """Return what stands beside a value in its record, texts before numbers."""
    record, name = value_at(value, path[:-1]), path[-1]
    if isinstance(record, list):
        return []
    others = [other for there, other in _leaves(record) if len(there) <= 2 and other != record[name]]
    short = [other for other in others if len(str(other)) <= MOST_VALUE]
    return [str(other) for other in sorted(short, key=lambda other: not isinstance(other, str))]


def _telling(beside: Sequence[str], others: Sequence[Sequence[str]]) -> list[str]:
    """Return a few of the values beside one, the first that help, that tell its record from the others."""
    chosen: list[str] = []
    for mark in beside:
        left = [other for other in others if mark in other]
        if len(chosen) < MOST_MARKS and len(left) < len(others):
            chosen.append(mark)
            others = left
    return chosen


def _reported(action: Action, result: Result) -> list[str]:
    """Return how a customer reports what a tool of the customer's has shown."""
    lines = [str(result.value)] if not isinstance(result.value, dict | list) else list(lines_of(result.value))
    return [f"I have done {action.name.replace('_', ' ')}. I see:", *lines]


def _name(path: Place, paths: Sequence[Place]) -> str:
    """Return what a place is called: its last name, after its first where that alone could be another place's."""
    name = _words(path)
    alike = {_words(other[:1]) for other in paths if set(name.split()) <= set(_words(other).split())}
    return f"{_words(path[:1])} {name}" if len(path) > 1 and len(alike) > 1 else name


def _words(path: Place) -> str:
    """Return the last name of a path in words."""
    names = [str(key) for key in path if isinstance(key, str)]
    return names[-1].replace("_", " ") if names else "value"


def _ordinal(place: int) -> str:
    return _ORDINALS[place] if place < len(_ORDINALS) else f"{place + 1}th"


def _is_said(script: str, value: str) -> bool:
    return len(value) <= MOST_VALUE and has_words(script, value)

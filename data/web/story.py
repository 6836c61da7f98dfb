"""Making a task: a plan step by step, with what its pages show and what its last steps need."""

from __future__ import annotations

import random
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from ..task import Check, Fact, TaskError
from .task import Action, Slot, Step, WebTask
from .verifier import changes_text, make_change

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Known:
    """A value that a page shows, for a later step to need."""

    value: str
    fact: str
    """The fact's id."""
    question: str
    """For which the value is the answer."""


@dataclass(slots=True)
class Story:
    """A task in the making."""

    id: str
    group: str
    state: Mapping[str, Any]
    """Before the task."""
    rng: random.Random
    stage: int = 0
    after: Json = field(default_factory=dict)
    """The state as it has to be in the end."""
    wishes: list[str] = field(default_factory=list)
    """What the instruction asks for."""
    _steps: list[Step] = field(default_factory=list)
    _facts: dict[str, Fact] = field(default_factory=dict)
    _checks: dict[str, Check] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.after = deepcopy(dict(self.state))

    def next_stage(self) -> None:
        """Go on with the next stage."""
        self.stage += 1

    def open(self, *pages: str) -> None:
        """Click the links of pages, one after another."""
        for page in pages:
            self.click("link", page)

    def click(self, role: str, name: str, **known: Known) -> None:
        """Click an element; its name has a {slot} for each known value."""
        self._do("click", f'{role} "{name}"', "", known)

    def type(self, name: str, known: Known) -> None:
        """Type a known value into a text field."""
        self.fill("type", name, "{value}", value=known)

    def select(self, name: str, value: str | Known) -> None:
        """Select an option."""
        if isinstance(value, Known):
            self.fill("select", name, "{value}", value=value)
        else:
            self.fill("select", name, value)

    def act(self, action: Action, target: str = "", value: str = "") -> None:
        """Do anything else."""
        self._do(action, target, value, {})

    def fill(self, action: Action, name: str, text: str, **known: Known) -> None:
        """Type or select a text that has a {slot} for each known value."""
        role = "textbox" if action == "type" else "combobox"
        self._do(action, f'{role} "{name}"', text, known)

    def learn(self, value: str, key: str, question: str | None = None, **row: str) -> Known:
        """Note a value that the page shows now, in a row of these columns; it replaces the key's earlier value.

        Without a question it is asked for by its key. Raises TaskError where the row does not end with it: what is
        asked for stands last.
        """
        text = " | ".join(f"{column}: {cell}" for column, cell in row.items())
        if not text.rstrip(".").endswith(f" {value}"):
            raise TaskError(f"{self.id}: stage {self.stage}: {value!r} does not end {text!r}")
        for old in [fact for fact in self._facts.values() if fact.key == key]:
            if old.until is None and old.text != text:
                self._facts[old.id] = replace(old, until=self.stage)
        name = f"{key}, step {len(self._steps)}"
        self._facts[name] = Fact(name, key, key.partition(" of ")[0], text, self.stage)
        return Known(value, name, question or f"What is the {key}?")

    def see(self, label: str, value: str) -> Known:
        """Note a value that the page shows beside a label."""
        return self.learn(value, label[:1].lower() + label[1:], **{label: value})

    def fetch(self, page: str) -> None:
        """Fetch the new messages of a page, as the app does: newer ones take the place of older ones."""
        self.open(page)
        self.click("button", f"Fetch new {page.lower()}")
        state = self.after
        for message in state["incoming"]:
            others = [other for other in state["messages"] if other["about"] != message["about"]]
            state["messages"] = [{name: value for name, value in message.items() if name != "sets"}, *others]
            for change in message["sets"]:
                make_change(state, change)
        state["incoming"] = []

    def finish(self, app: str, instruction: str) -> WebTask:
        """Return the task; of the facts, those that a step needs."""
        self.act("done")
        needed = {need for check in self._checks.values() for need in check.needs}
        facts = {name: fact for name, fact in self._facts.items() if name in needed}
        return WebTask(
            self.id,
            self.group,
            self.stage + 1,
            app,
            "\n".join([instruction, *(f"{place}. {wish}" for place, wish in enumerate(self.wishes, 1))]),
            self.state,
            changes_text(self.state, self.after),
            tuple(self._steps),
            facts,
            dict(self._checks),
        )

    def _do(self, action: Action, target: str, value: str, needed: Mapping[str, Known]) -> None:
        slots = []
        for name, known in needed.items():
            check = f"{len(self._steps)}.{name}"
            key = self._facts[known.fact].key
            self._checks[check] = Check(check, key, self.stage, (known.fact,), 0.0, known.question)
            slots.append(Slot(name, check))
        right = {name: known.value for name, known in needed.items()}
        self._steps.append(Step(self.stage, action, target, value, right, tuple(slots)))

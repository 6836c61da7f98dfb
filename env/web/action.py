"""What an agent does in a browser, as JSON and as a line of text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, get_args

from ...data.values import Values
from ...data.web.task import Action as ActionName

ACTIONS: tuple[ActionName, ...] = get_args(ActionName)
ENDS: frozenset[ActionName] = frozenset({"done", "fail"})
_LINE = re.compile(r"(?P<action>[a-z]+)(?: (?P<target>.*?))??(?:: (?P<value>\"(?:[^\"\\]|\\.)*\"))?", re.DOTALL)
_NUMBERED = re.compile(r"\[?(\d{1,6})\]?")


@dataclass(frozen=True, slots=True)
class Action(Values):
    """One action."""

    name: ActionName
    target: str = ""
    """An element, by its number as ``[12]``, or by its role and name as ``button "Save"``."""
    value: str = ""
    """What is typed, selected or opened, the key that is pressed, or the direction of scrolling."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the action that ``as_json`` or ``line`` stands for. Raises ValueError."""
        if text.startswith("{"):
            values = json.loads(text)
            return cls.of(values["action"], values)
        parts = _LINE.fullmatch(text)
        if parts is None:
            raise ValueError(f"{text!r} is no action")
        value = json.loads(parts["value"]) if parts["value"] else ""
        return cls.of(parts["action"], {"target": parts["target"] or "", "value": value})

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Any]) -> Self:
        """Return an action by its name and arguments, of which null is none. Raises ValueError."""
        known = next((each for each in ACTIONS if each == name), None)
        if known is None:
            raise ValueError(f"there is no action {name!r}; there are {', '.join(ACTIONS)}")
        given = (arguments.get(part) for part in ("target", "value"))
        return cls(known, *("" if text is None else str(text) for text in given))

    @property
    def as_json(self) -> str:
        """The action as a place takes it."""
        values = {"action": self.name, "target": self.target, "value": self.value}
        return json.dumps(values, ensure_ascii=False)

    @property
    def line(self) -> str:
        """The action as memory observes it."""
        target = f" {self.target}" if self.target else ""
        return f"{self.name}{target}" + (f": {json.dumps(self.value, ensure_ascii=False)}" if self.value else "")

    @property
    def number(self) -> int | None:
        """The element's number, where the target is one."""
        numbered = _NUMBERED.fullmatch(self.target.strip())
        return None if numbered is None else int(numbered[1])

    @property
    def role_and_name(self) -> tuple[str, str]:
        """The element's role and its accessible name."""
        role, _, name = self.target.strip().partition(" ")
        name = name.strip()
        quoted = len(name) > 1 and name[0] == name[-1] == '"'
        return role, " ".join((name[1:-1] if quoted else name).split())

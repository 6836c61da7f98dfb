"""Replies in the form that DSPy's chat and JSON adapters ask for: one section or one JSON key for each output field."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...replies import as_text
from ..base import Message
from ..schemas import fit
from .blocks import json_blocks

MOST_FIELDS = 100
"""Fields from which on a form is not read as one."""

_CHAT = "Respond with the corresponding output fields, starting with the field `[[ ## "
_JSON = "Respond with a JSON object in the following order of fields: `"
_CHAT_END = ", and then ending with the marker for `[[ ## completed ## ]]`."
_OBJECTIVE = "In adhering to this structure, your objective is:"
_HEADER = re.compile(r"^\[\[ ## \w+ ## \]\]$", re.MULTILINE)
_FIELD = re.compile(r"(\w+)(?: ## \]\])?`(?: \(must be formatted as a valid Python (.+)\))?")
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
"""JSON's names of the types that are read; any other is null."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a reply is to be laid out."""

    fields: Mapping[str, Mapping[str, Any]]
    """The fields in their order, each with a JSON schema of its values."""
    as_json: bool
    """Whether as a JSON object, or as sections under ``[[ ## name ## ]]``."""

    def filled(self, reply: str, *, heard: str) -> str:
        """Return the reply in this form: as every text, and as values chosen from what was heard where others go."""
        values = fit(reply, {"type": "object", "properties": self.fields}, heard=heard)
        if self.as_json:
            return json.dumps(values, ensure_ascii=False)
        sections = {name: as_text(value) for name, value in values.items()} | {"completed": ""}
        return "\n\n".join(f"[[ ## {name} ## ]]\n{text}".strip() for name, text in sections.items())


def find_form(text: str) -> Form | None:
    """Find the form that a message ends with asking for; None when it asks for none."""
    for opening, end, separator in ((_CHAT, _CHAT_END, ", then `[[ ## "), (_JSON, ".", ", then `")):
        _, mark, listed = text.rpartition(opening)
        if mark and listed.endswith(end):
            pieces = listed.removesuffix(end).split(separator, MOST_FIELDS)
            matches = [match for piece in pieces if (match := _FIELD.fullmatch(piece))]
            fields = {match[1]: _schema(match[2] or "str") for match in matches}
            return Form(fields, as_json=opening == _JSON) if len(fields) == len(pieces) else None
    return None


def without_form(message: Message) -> Message:
    """Return a message as plain text: the fields' texts without their names, and without how to reply."""
    if message.role == "system":
        _, mark, objective = message.content.partition(_OBJECTIVE)
        return Message("system", objective.strip()) if mark else message
    said = message.content.rpartition(_CHAT)[0] or message.content.rpartition(_JSON)[0] or message.content
    texts = (_plain(text.strip()) for text in _HEADER.split(said))
    return Message(message.role, "\n\n".join(text for text in texts if text))


def _schema(kind: str) -> Mapping[str, Any]:
    """Return a JSON schema of a Python type as DSPy writes it."""
    if kind.startswith("Literal["):
        return _options(kind.removeprefix("Literal"))
    if kind.startswith("list["):
        return {"type": "array", "items": {"type": _TYPES.get(kind.removeprefix("list[").removesuffix("]"), "null")}}
    if kind.startswith("dict["):
        return {"type": "object"}
    return {"type": _TYPES.get(kind.removeprefix("Union[").split(", ")[0], "null")}


def _options(listed: str) -> Mapping[str, Any]:
    try:
        options = ast.literal_eval(listed)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        options = []
    known = [option for option in options if isinstance(option, str | int)]
    return {"enum": known} if known else {"type": "null"}


def _plain(text: str) -> str:
    """Return the items of a list line by line, and any other text as it is."""
    whole = (value for source, value in json_blocks(text) if source == text and isinstance(value, list))
    return "\n".join(map(as_text, next(whole, [text])))

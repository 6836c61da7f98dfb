"""Policies as text: presets, YAML and JSON files, and AMemGym's agent configs."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ..data.errors import MnemotuneError, RetiredField
from ..data.nearest import nearest_note
from ..data.record import nearest_field
from ..data.registry import UnknownPartError
from ..data.resources import resource
from ..data.yaml_texts import parse_yaml, read_utf8
from .amemgym import is_agent_config, policy_values
from .memory.backends import MEMORIES
from .policy import MemoryPolicy
from .prompts import Templates
from .space import BUILTIN


class PolicyError(MnemotuneError, ValueError):
    """Say what is wrong with a memory policy, naming the file and the field."""


class TwiceError(ValueError):
    """A name stands twice in an object."""


RETIRED = {
    ("prompts", "answer"): "how a question is put belongs to the environment (the template `answer`)",
    ("read", "budget_tokens"): "one budget holds for all that memory shows: `context_tokens` of the run",
}
"""Fields of older versions, by part and name, and what became of each."""


WINDOW = "window"
"""The preset that every other policy is compared with: the newest messages that fit, nothing written."""


def presets() -> list[str]:
    """Return the names of the bundled policies."""
    folder = resource("configs", "policies")
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_policy(name: str | Path, *, templates: Templates | None = None) -> MemoryPolicy:
    """Read a policy from a preset's name or a YAML or JSON file.

    Prompts that it leaves out are those of ``templates``, or the bundled ones. Raises PolicyError naming the file and
    the field.
    """
    return _policy(read_policy(name), where=str(name), templates=templates)


def read_policy(name: str | Path) -> Any:
    """Return what a preset or a policy's file says, unchecked; an AMemGym agent config is read as the policy it is.

    Raises PolicyError when it cannot be read.
    """
    path = Path(name)
    if path.is_file():
        try:
            values = _values(read_utf8(path))
            return policy_values(values) if is_agent_config(values) else values
        except ValueError as error:
            raise PolicyError(f"{path}: {error}") from None
    if str(name) in presets():
        text = resource("configs", "policies", f"{name}.yaml").read_text(encoding="utf-8")
        return _values(text)
    close = nearest_note(str(name), presets())
    raise PolicyError(f"{name}: no such file or preset{close}; presets: {', '.join(presets())}")


def parse_policy(text: str, *, where: str) -> MemoryPolicy:
    """Read a policy from YAML or JSON text; ``where`` is named in errors."""
    try:
        values = _values(text)
    except ValueError as error:
        raise PolicyError(f"{where}: {error}") from None
    return _policy(values, where=where, templates=None)


def _values(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except TwiceError:
        raise
    except (ValueError, RecursionError):
        return parse_yaml(text)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises TwiceError where a name stands twice in it."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise TwiceError(f"{name!r} is there twice")
        values[name] = value
    return values


def _policy(values: Any, *, where: str, templates: Templates | None) -> MemoryPolicy:
    try:
        return checked_policy(values, where=where, templates=templates)
    except UnknownPartError as error:
        raise PolicyError(f"{where}: backend: {error}") from None
    except ValidationError as error:
        raise PolicyError("\n".join(f"{where}: {line}" for line in policy_problems(error))) from None


def checked_policy(values: Any, *, where: str, templates: Templates | None) -> MemoryPolicy:
    """Return the policy of plain values, whose memory is there. Raises ValidationError and UnknownPartError."""
    policy = MemoryPolicy.model_validate(without_retired(values, where=where), context={"templates": templates})
    MEMORIES.get(policy.backend or BUILTIN)
    return policy


def without_retired(values: Any, *, where: str) -> Any:
    """Return a policy's values without the fields that older versions had; a warning says what became of each."""
    if not isinstance(values, dict):
        return values
    kept = dict(values)
    for (part, name), reason in RETIRED.items():
        if isinstance(kept.get(part), dict) and name in kept[part]:
            kept[part] = dict(kept[part])
            if kept[part].pop(name) is not None:
                warnings.warn(f"{where}: {part}.{name} is left out: {reason}", RetiredField, stacklevel=1)
    return kept


def policy_problems(error: ValidationError, record: type[BaseModel] = MemoryPolicy) -> list[str]:
    """Return one line per problem with a record, each naming the field, and one like it where there is no such field.

    A list that is too short for what is wrong in it is no problem of its own.
    """
    problems = error.errors()
    inside = {e["loc"][:depth] for e in problems for depth in range(len(e["loc"]))}
    kept = [e for e in problems if e["type"] != "too_short" or e["loc"] not in inside]
    places = [".".join(map(str, e["loc"])) for e in kept]
    said = [_said(e, record) for e in kept]
    return [f"{place}: {words}" if place else words for place, words in zip(places, said, strict=True)]


def _said(problem: ErrorDetails, record: type[BaseModel]) -> str:
    match problem["type"]:
        case "extra_forbidden":
            nearest = nearest_field(record, problem["loc"])
            return f"no such field; the nearest is {nearest}" if nearest else "no such field"
        case "literal_error":
            names = re.findall("'([^']*)'", problem["ctx"]["expected"])
            return f"{problem['msg']}{nearest_note(str(problem['input']), names)}"
        case "model_type" | "model_attributes_type":
            return "needs names with values, such as {name: value}"
        case "too_short":
            return "needs at least {min_length}, has {actual_length}".format(**problem["ctx"])
        case _:
            return problem["msg"].removeprefix("Value error, ")


def dump_policy(policy: MemoryPolicy) -> str:
    """Return a policy as YAML text that ``parse_policy`` reads back to an equal policy."""
    values = policy.model_dump(exclude_none=True)
    for name in policy.unsaid & values.keys():
        del values[name]
    for part, unsaid in (("write", policy.write.unsaid), ("read", policy.read.unsaid)):
        for name in unsaid & values.get(part, {}).keys():
            del values[part][name]
    return dump_yaml(values)


def dump_yaml(values: Any) -> str:
    """Return plain values as YAML text in which every text reads back equal, and prompts can be read."""
    return yaml.dump(values, Dumper=_BlockDumper, sort_keys=False, allow_unicode=True, width=10_000)


class _BlockDumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, so that prompts can be read."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = '"' if "\x85" in text else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_BlockDumper.add_representer(str, _represent_text)

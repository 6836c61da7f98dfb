"""Databases and the tools that read and change them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

from .row import EnvAssertion, InitialState, Requestor

Json = dict[str, Any]


class ToolError(ValueError):
    """A tool cannot do what it is asked; the agent reads the message."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function on a database that an agent or a customer can call."""

    name: str
    description: str
    schema: Json
    """JSON schema of the arguments."""
    run: Callable[..., Any]
    """Takes the database and the arguments by name; returns JSON values. Raises ToolError."""
    writes: bool = False

    def as_json(self) -> Json:
        """Return the tool in OpenAI's form."""
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool call gave back."""

    value: Any
    """JSON values; what went wrong where it did."""
    error: bool = False


class World(Protocol):
    """The databases of one dialogue, and what can be done to them."""

    def begin(self, state: InitialState | None) -> None:
        """Set the databases to what they are before the message history. Raises ToolError."""

    def call(self, name: str, arguments: Mapping[str, Any], requestor: Requestor = "assistant") -> Result:
        """Call a tool; what goes wrong is a result too, and leaves the databases as they were."""

    def holds(self, assertion: EnvAssertion) -> bool:
        """Tell whether an assertion is met. Raises ToolError when there is no such function."""

    @property
    def hashes(self) -> tuple[str, str]:
        """Of the agent's and of the customer's database; they do not depend on the order of keys."""

    @property
    def policy(self) -> str:
        """What the agent may do, as text."""

    def tools(self, requestor: Requestor) -> list[Json]:
        """Return the tools that somebody can call, in OpenAI's form."""


def database_hash(database: Any) -> str:
    """Return the SHA-256 of JSON values, which does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(database, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Domain:
    """What all worlds of a kind share."""

    policy: str
    """What the agent may do, as text."""
    tools: Mapping[str, Tool]
    user_tools: Mapping[str, Tool]
    assertions: Mapping[str, Callable[..., bool]]
    database: Json
    """As it is before any dialogue; nobody may change it."""
    user_database: Json

    def open(self) -> DatabaseWorld:
        """Return a world of its own."""
        return DatabaseWorld(self)


class DatabaseWorld:
    """A world of JSON databases and Python functions."""

    def __init__(self, domain: Domain) -> None:
        """Begin with copies of the domain's databases."""
        self._domain = domain
        self._databases: dict[Requestor, Json] = {
            "assistant": deepcopy(domain.database),
            "user": deepcopy(domain.user_database),
        }

    def begin(self, state: InitialState | None) -> None:
        """Merge the initial data, then call the initial functions."""
        if state is None:
            return
        if state.initialization_data is not None:
            _merge(self._databases["assistant"], state.initialization_data.agent_data or {})
            _merge(self._databases["user"], state.initialization_data.user_data or {})
        for action in state.initialization_actions or ():
            result = self.call(action.func_name, action.arguments, action.env_type)
            if result.error:
                raise ToolError(f"{action.func_name}: {result.value}")

    def call(self, name: str, arguments: Mapping[str, Any], requestor: Requestor = "assistant") -> Result:
        """Call a tool on a copy, which is kept where all goes well."""
        tools = self._tools(requestor)
        if name not in tools:
            return Result(f"there is no tool {name}", error=True)
        tool, database = tools[name], self._databases[requestor]
        if missing := sorted(set(tool.schema["required"]) - arguments.keys()):
            return Result(f"{name} lacks {', '.join(missing)}", error=True)
        if unknown := sorted(arguments.keys() - tool.schema["properties"].keys()):
            return Result(f"{name} has no {', '.join(unknown)}", error=True)
        kinds = {name: schema["type"] for name, schema in tool.schema["properties"].items()}
        if wrong := [f"{name} is no {kinds[name]}" for name in arguments if not _is(kinds[name], arguments[name])]:
            return Result(f"{tool.name}: {', '.join(wrong)}", error=True)
        changed = deepcopy(database) if tool.writes else database
        try:
            value = tool.run(changed, **arguments)
        except ToolError as error:
            return Result(str(error), error=True)
        self._databases[requestor] = changed
        return Result(deepcopy(value))

    def holds(self, assertion: EnvAssertion) -> bool:
        """Tell whether an assertion is met."""
        function = self._domain.assertions.get(assertion.func_name)
        if function is None:
            raise ToolError(f"there is no assertion {assertion.func_name}")
        database, arguments = self._databases[assertion.env_type], assertion.arguments
        try:
            return function(database, **arguments) == assertion.assert_value
        except (KeyError, TypeError) as error:
            raise ToolError(f"{assertion.func_name} cannot look at {', '.join(arguments)}: {error}") from None

    @property
    def hashes(self) -> tuple[str, str]:
        """Of both databases."""
        return database_hash(self._databases["assistant"]), database_hash(self._databases["user"])

    @property
    def policy(self) -> str:
        """The domain's."""
        return self._domain.policy

    def tools(self, requestor: Requestor) -> list[Json]:
        """Return the domain's."""
        return [tool.as_json() for tool in self._tools(requestor).values()]

    def _tools(self, requestor: Requestor) -> Mapping[str, Tool]:
        return self._domain.tools if requestor == "assistant" else self._domain.user_tools


def _is(kind: str, value: Any) -> bool:
    return isinstance(value, str if kind == "string" else int)


def _merge(database: Json, changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(database.get(key), dict):
            if not isinstance(value, dict):
                raise ToolError(f"{key}: {value!r} is no object")
            _merge(database[key], value)
        else:
            database[key] = deepcopy(value)

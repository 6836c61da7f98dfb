"""A local checkout of tau2-bench: its rows are read, and its tools are imported from its own source."""

from __future__ import annotations

import importlib
import inspect
import json
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ConfigDict, ValidationError

from ..json_files import read_json
from ..record import Record, first_problem
from ..task import TaskError
from ..words import has_words
from .row import EnvAssertion, InitialData, InitialState, PastCall, PastMessage, Requestor, Row, UserScenario
from .world import Json, Result, ToolError

PACKAGE = "tau2"
DOMAINS = ("airline", "retail", "telecom", "mock")
"""Those that a checkout without a domain's name stands for: MemGym's."""
NEEDED = "addict cachebox deepdiff docstring_parser loguru python-dotenv toml"
"""What tau2-bench's domains import, as pip calls it."""


def places_of(source: str) -> list[tuple[Path, str]]:
    """Return the checkout and the domains that a source names, as PATH or PATH/DOMAIN. Raises TaskError."""
    path = Path(source.partition(":")[2]).expanduser().resolve()
    if _is_checkout(path):
        return [(path, domain) for domain in DOMAINS]
    if _is_checkout(path.parent):
        if (path.parent / "data" / "tau2" / "domains" / path.name).is_dir():
            return [(path.parent, path.name)]
        raise TaskError(f"{source}: the checkout has no domain {path.name}")
    raise TaskError(f"{source}: is no checkout of tau2-bench: there is no src/tau2 with data/tau2/domains beside it")


def rows_of(checkout: Path, domain: str) -> Iterator[Row]:
    """Yield a domain's rows, those of its split ``base`` where it has one. Raises TaskError naming file and field."""
    folder = checkout / "data" / "tau2" / "domains" / domain
    base = _base(folder / "split_tasks.json")
    files = sorted((folder / "tasks").glob("task_*.json")) or [folder / "tasks.json"]
    for file in files:
        rows = read_json(file)
        if rows is None:
            raise TaskError(f"{file}: is missing, or no JSON; large files may have to be fetched with git lfs")
        for position, values in enumerate(rows if isinstance(rows, list) else [rows]):
            row = _row(values, f"{file}: row {position}")
            if base is None or row.id in base:
                yield row


def _base(file: Path) -> set[str] | None:
    """Return the ids of the split ``base``; None where there are no splits, or none of that name."""
    if not file.exists():
        return None
    splits = read_json(file)
    if splits is None:
        raise TaskError(f"{file}: is no JSON; it has to hold the ids of each split")
    try:
        return _Splits.model_validate(splits).base
    except ValidationError as error:
        raise TaskError(
            f"{file}: {first_problem(error, whole='splits')}; it has to hold the ids of each split"
        ) from None


class _Splits(Record):
    model_config = ConfigDict(extra="ignore")

    base: set[str] | None = None


def _row(values: Any, where: str) -> Row:
    try:
        return Row.model_validate(_known(Row, values))
    except ValidationError as error:
        task = f", task {values.get('id')}" if isinstance(values, dict) else ""
        raise TaskError(f"{where}{task}: {first_problem(error, whole='row')}") from None


def _known(kind: type[Record], values: Any) -> Any:
    """Return what is read of an object; anything else is left for the record to refuse."""
    if not isinstance(values, dict):
        return values
    known = {name: value for name, value in values.items() if name in kind.model_fields}
    for name, part in _PARTS.items():
        if isinstance(known.get(name), list):
            known[name] = [_known(part, value) for value in known[name]]
        elif name in known:
            known[name] = _known(part, known[name])
    return known


_PARTS: Mapping[str, type[Record]] = {
    "user_scenario": UserScenario,
    "initial_state": InitialState,
    "initialization_data": InitialData,
    "message_history": PastMessage,
    "tool_calls": PastCall,
}
"""Objects of which more is known there than is read here."""


class CheckoutWorld:
    """An environment of tau2-bench's."""

    def __init__(self, environment: Any) -> None:
        """Use this one, which nobody else uses."""
        self._environment = environment

    def begin(self, state: InitialState | None) -> None:
        """Set the databases to what they are before the message history. Raises ToolError."""
        if state is not None:
            tasks, given = _module("data_model.tasks"), state.model_dump()
            data, actions = given["initialization_data"], given["initialization_actions"]
            calls = actions and [tasks.EnvFunctionCall.model_validate(action) for action in actions]
            try:
                self._environment.set_state(
                    initialization_data=data and tasks.InitializationData.model_validate(data),
                    initialization_actions=calls,
                    message_history=[],
                )
            except (AttributeError, TypeError, ValueError) as error:
                raise ToolError(str(error)) from None

    def call(self, name: str, arguments: Mapping[str, Any], requestor: Requestor = "assistant") -> Result:
        """Call a tool."""
        call = _module("data_model.message").ToolCall(
            id="call", name=name, arguments=dict(arguments), requestor=requestor
        )
        message = self._environment.get_response(call)
        if message.error:
            return Result(message.content.removeprefix("Error: "), error=True)
        try:
            return Result(json.loads(message.content))
        except ValueError:
            return Result(message.content)

    def holds(self, assertion: EnvAssertion) -> bool:
        """Tell whether an assertion is met."""
        given = _module("data_model.tasks").EnvAssertion.model_validate(assertion.model_dump())
        try:
            return bool(self._environment.run_env_assertion(given, raise_assertion_error=False))
        except AttributeError as error:
            raise ToolError(str(error)) from None
        except ValueError:  # what it looks at is not there
            return False

    def customer_in(self, text: str) -> str | None:
        """Return the customer of the database whom a text names; None where there is none."""
        database = self._environment.tools.db
        users = getattr(database, "users", None)
        if isinstance(users, dict):
            return next((name for name in users if has_words(text, name)), None)
        others = ((c.customer_id, c.phone_number) for c in getattr(database, "customers", ()))
        return next((name for name, phone in others if has_words(text, name) or has_words(text, phone)), None)

    @property
    def hashes(self) -> tuple[str, str]:
        """Of both databases; an empty text where there is none."""
        return self._environment.get_db_hash() or "", self._environment.get_user_db_hash() or ""

    @property
    def policy(self) -> str:
        """The domain's."""
        return str(self._environment.policy)

    def tools(self, requestor: Requestor) -> list[Json]:
        """Return the domain's."""
        kit = self._environment.tools if requestor == "assistant" else self._environment.user_tools
        return [tool.openai_schema for tool in kit.get_tools().values()] if kit is not None else []


def open_checkout(checkout: Path, domain: str, row: Row) -> CheckoutWorld:
    """Return a world of a domain, for a row. Raises TaskError where its source cannot be imported.

    Where a domain notes which tools are called, reads among them count only where the gold plan has them.
    """
    actions = (row.evaluation_criteria and row.evaluation_criteria.actions) or ()
    noted = {str(a.arguments.get("agent_tool_name")) for a in actions if a.name == "call_discoverable_agent_tool"}
    return CheckoutWorld(pickle.loads(_environment(checkout, domain, tuple(sorted(noted)))))  # noqa: S301 - ours


@lru_cache(maxsize=64)
def _environment(checkout: Path, domain: str, noted: tuple[str, ...]) -> bytes:
    """Return a domain's environment, to be copied."""
    _import_from(checkout)
    make = _module(f"domains.{domain}.environment").get_environment
    takes = inspect.signature(make).parameters
    given = {"read_log_allowlist": set(noted), "retrieval_variant": "no_knowledge"}
    try:
        return pickle.dumps(make(**{name: value for name, value in given.items() if name in takes}))
    except (OSError, ValueError) as error:
        raise TaskError(f"tau2:{checkout}/{domain}: its databases cannot be read: {error}") from None


def _import_from(checkout: Path) -> None:
    """Let ``tau2`` stand for a checkout's source, without what its package imports for agents and voices."""
    source, there = checkout / "src" / PACKAGE, sys.modules.get(PACKAGE)
    if there is None:
        there = ModuleType(PACKAGE)
        there.__path__ = [str(source)]
        sys.modules[PACKAGE] = there
    if [Path(place) for place in there.__path__] != [source]:
        raise TaskError(f"tau2:{checkout}: tau2 is imported from {there.__path__[0]} already; use one in a process")
    data = Path(_module("utils.utils").DATA_DIR)
    if data.resolve() != checkout / "data":
        raise TaskError(f"tau2:{checkout}: its data would be read from {data}; unset TAU2_DATA_DIR")
    with suppress(ModuleNotFoundError):  # what its tools say to standard error is of no use here
        importlib.import_module("loguru").logger.disable(PACKAGE)


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"{PACKAGE}.{name}")
    except ModuleNotFoundError as error:
        raise TaskError(f"tau2-bench's {name} needs {error.name}; run: pip install {NEEDED}") from None


def _is_checkout(path: Path) -> bool:
    return (path / "src" / PACKAGE).is_dir() and (path / "data" / "tau2" / "domains").is_dir()

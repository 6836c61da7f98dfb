"""Memories as JSON: what is remembered outlives the process, and a damaged file says where it is damaged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import NonNegativeInt, ValidationError, model_validator

from ...data.errors import MnemotuneError
from ...data.record import Record, first_problem
from ...data.whole_files import replacing
from ..lm.base import Message, ToolCall, to_json
from ..space import BUILTIN
from .protocol import Memory
from .stores import Entry, MemoryState

VERSION = 1
"""Of the layout. A later version reads the earlier ones."""
MARK = "mnemotune_memory"
"""The field that has the version, and tells a saved memory from other JSON."""


class SavedMemoryError(MnemotuneError, ValueError):
    """Say what is wrong with a saved memory, naming the file and the field."""


@runtime_checkable
class Savable(Protocol):
    """What a memory has besides when it can be saved. What it dumps holds all that ``snapshot`` does."""

    async def dump(self) -> Any:
        """Return everything that is remembered, as plain JSON values that never change."""

    async def load(self, values: Any) -> None:
        """Go back to what ``dump`` has returned, also another memory's, and also after its way through a file.

        Raises ValueError, naming the field at fault; the memory then stays as it was.
        """


async def dump_memory(memory: Memory) -> str:
    """Return a memory as versioned JSON. Raises SavedMemoryError when it is of a kind that cannot be saved."""
    kind = memory.policy.backend or BUILTIN
    state = await savable(memory).dump()
    saved = {MARK: VERSION, "backend": kind, "policy": memory.policy.key, "state": state}
    return to_json(saved).decode()


async def restore_memory(memory: Memory, text: str | bytes, *, where: str) -> None:
    """Go back to what ``dump_memory`` has returned, also under another policy; ``where`` is named in errors.

    Raises SavedMemoryError when the text is damaged, of a later version, or another kind of memory's. The memory then
    stays as it was.
    """
    able, kind = savable(memory), memory.policy.backend or BUILTIN
    saved = _opened(text, where)
    if saved.get("backend") != kind:
        what = f"{saved.get('backend')!r} has saved it, and this memory is {kind!r}"
        raise SavedMemoryError(f"{where}: backend: {what}; load it under a policy of that backend")
    if "state" not in saved:
        raise SavedMemoryError(f"{where}: state: missing")
    try:
        await able.load(saved["state"])
    except ValueError as error:
        raise SavedMemoryError(f"{where}: state.{error}") from None


def backend_of(text: str | bytes, *, where: str) -> str | None:
    """Return which memory has saved a text, as a policy's ``backend`` names it. Raises SavedMemoryError."""
    kind = str(_opened(text, where).get("backend"))
    return None if kind == BUILTIN else kind


def _opened(text: str | bytes, where: str) -> dict[str, Any]:
    try:
        saved = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SavedMemoryError(f"{where}: not JSON, or damaged: {error}") from None
    if not isinstance(saved, dict) or MARK not in saved:
        raise SavedMemoryError(f"{where}: {MARK}: missing; this is no saved memory")
    if saved[MARK] != VERSION or isinstance(saved[MARK], bool):
        what = f"version {saved[MARK]!r} is not known here, where it is {VERSION}"
        raise SavedMemoryError(f"{where}: {MARK}: {what}; a newer mnemotune may read it")
    return saved


async def save_memory(memory: Memory, path: Path | str) -> None:
    """Write a memory into a file, whole or not at all. Raises SavedMemoryError, and OSError naming the file."""
    text = await dump_memory(memory)
    with replacing(Path(path)) as file:
        file.write(text.encode())


async def load_memory(memory: Memory, path: Path | str) -> None:
    """Go back to what a file holds that ``save_memory`` wrote. Raises SavedMemoryError, and OSError naming the file."""
    await restore_memory(memory, Path(path).read_bytes(), where=str(path))  # noqa: ASYNC240 - of a user's size


def savable(memory: Memory) -> Savable:
    """Return a memory that can be saved as what it is. Raises SavedMemoryError for another one."""
    if not isinstance(memory, Savable):
        what = "cannot be saved: it has no `dump` and `load`"
        raise SavedMemoryError(f"the memory {memory.policy.backend or BUILTIN!r} {what}")
    return memory


class _Call(Record):
    id: str
    name: str
    arguments: str


class _Message(Record):
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[_Call, ...] = ()
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _check(self) -> _Message:
        self.as_message()
        return self

    def as_message(self) -> Message:
        """Return the message. Raises ValueError where its fields do not go together."""
        calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in self.tool_calls)
        return Message(self.role, self.content, calls, self.tool_call_id)


class _Entry(Record):
    id: NonNegativeInt
    text: str
    label: str = ""


class SavedState(Record):
    """A ``MemoryState`` in a file; vectors are made again from the texts when they are first searched."""

    buffer: tuple[_Message, ...] = ()
    entries: tuple[_Entry, ...] = ()
    next_id: NonNegativeInt = 0
    start: tuple[_Message, ...] = ()
    observed: NonNegativeInt = 0

    @model_validator(mode="after")
    def _check_ids(self) -> SavedState:
        ids = [entry.id for entry in self.entries]
        if len({*ids}) < len(ids):
            raise ValueError("entries: two of them have the same id")
        if ids and max(ids) >= self.next_id:
            raise ValueError(f"next_id: {self.next_id} is no larger than the id of an entry, {max(ids)}")
        return self


def messages_as_json(messages: Sequence[Message]) -> Any:
    """Return messages as plain JSON values."""
    return [_message_as_json(message) for message in messages]


def messages_of(values: Any) -> list[Message]:
    """Return the messages of a JSON list of them. Raises ValueError, naming the field at fault."""
    return [*state_of({"buffer": values}).buffer]


def state_as_json(state: MemoryState) -> Any:
    """Return a state as plain JSON values."""
    return {
        "buffer": messages_as_json(state.buffer),
        "entries": [_entry_as_json(entry) for entry in state.entries],
        "next_id": state.next_id,
        "start": messages_as_json(state.start),
        "observed": state.observed,
    }


def _entry_as_json(entry: Entry) -> dict[str, object]:
    saved: dict[str, object] = {"id": entry.id, "text": entry.text}
    return saved | {"label": entry.label} if entry.label else saved


def _message_as_json(message: Message) -> dict[str, object]:
    saved: dict[str, object] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls]
        saved["tool_calls"] = calls
    return saved if message.tool_call_id is None else saved | {"tool_call_id": message.tool_call_id}


def state_of(values: Any) -> MemoryState:
    """Return the state that plain JSON values say. Raises ValueError, naming the field at fault."""
    try:
        saved = SavedState.model_validate(values)
    except ValidationError as error:
        raise ValueError(first_problem(error, whole="its fields").replace("Value error, ", "")) from None
    entries = tuple(Entry(entry.id, entry.text, entry.label) for entry in saved.entries)
    return MemoryState(
        buffer=tuple(message.as_message() for message in saved.buffer),
        entries=entries,
        _known=(entries, tuple(entry.line for entry in entries)),
        next_id=saved.next_id,
        start=tuple(message.as_message() for message in saved.start),
        observed=saved.observed,
    )

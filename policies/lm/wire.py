"""OpenAI's API on the wire: what clients ask for, and the forms of replies and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator

from ..forms import ANY_OBJECT, ReplyForm
from ..replies import ReplyError, read_json_object
from .base import CHARACTERS_PER_TOKEN, Message, ToolCall, estimated_tokens
from .ledger import Usage
from .schemas import SchemaError, fit
from .tool_texts import calls_in, tools_message

MOST_CHOICES = 16
"""Replies to one request; as the model has no dice, they are all the same."""
MOST_MESSAGES = 4096
"""Messages of one request."""
MOST_TOOLS = 128
"""Tools of one request."""
MOST_TEXTS = 2048
"""Texts of one request for embeddings, as OpenAI has it."""
MOST_DIMENSIONS = 8192
"""Width of vectors that a request may choose."""
PIECE_CHARACTERS = 24
"""Characters of a streamed piece."""

Json = dict[str, Any]
Finish = Literal["stop", "length", "tool_calls"]
"""Why a reply ends."""


class ApiError(Exception):
    """Something to refuse a request with, as OpenAI words it."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        """``param`` is the field of the request that is at fault."""
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code

    @property
    def body(self) -> Json:
        """What the client gets."""
        kind = {429: "requests", 500: "server_error"}.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class _Body(BaseModel):
    """What is not named here, such as ``seed``, is ignored: it changes nothing in what this model says."""


BodyT = TypeVar("BodyT", bound=_Body)


def read_request(kind: type[BodyT], body: bytes) -> BodyT:
    """Return what a request asks for. Raises ApiError with status 400, which names the first field at fault."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
    what = first["msg"].removeprefix("Value error, ")
    param = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    raise ApiError(400, f"{param or 'the request'}: {what}", param=param or None)


def _refuse(given: Any) -> Any:
    if given:
        raise ValueError("not supported; this model reads text, and replies with text or a tool call")
    return given


_Refused = Annotated[Any, AfterValidator(_refuse)]
"""What would change the reply if it were not ignored."""


class _TextPart(_Body):
    type: Literal["text"]
    text: str


def _listed(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def _parts(given: Any) -> Any:
    return [{"type": "text", "text": given}] if isinstance(given, str) else given


class _Called(_Body):
    name: str
    arguments: str


class _Call(_Body):
    id: str
    function: _Called


class _Message(_Body):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[list[_TextPart] | None, Field(fail_fast=True), BeforeValidator(_parts)] = None
    tool_calls: Annotated[list[_Call], Field(fail_fast=True)] | None = None
    tool_call_id: str | None = None
    function_call: _Refused = None
    audio: _Refused = None

    @model_validator(mode="after")
    def _check(self) -> _Message:
        if self.content is None and not self.tool_calls:
            raise ValueError("content is missing")
        self.as_message()
        return self

    def as_message(self) -> Message:
        """Return the message. Raises ValueError where its fields do not go together."""
        role: Any = "system" if self.role == "developer" else self.role
        calls = tuple(ToolCall(call.id, call.function.name, call.function.arguments) for call in self.tool_calls or ())
        return Message(role, "".join(part.text for part in self.content or ()), calls, self.tool_call_id)


class _Function(_Body):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    parameters: Json | None = None


class _Tool(_Body):
    type: Literal["function"]
    function: _Function


class _Name(_Body):
    name: str


class _Chosen(_Body):
    function: _Name


class _Named(_Body):
    form: Annotated[Json, Field(alias="schema")]


class _Format(_Body):
    type: Literal["text", "json_object", "json_schema"]
    named: Annotated[_Named | None, Field(alias="json_schema")] = None

    @model_validator(mode="after")
    def _check_schema(self) -> _Format:
        if self.type == "json_schema" and self.named is None:
            raise ValueError("json_schema is missing")
        return self


class _StreamOptions(_Body):
    include_usage: bool = False


_Stop = Annotated[str, Field(min_length=1)]


class Chat(_Body):
    """A request for a chat completion."""

    model: str
    messages: Annotated[list[_Message], Field(fail_fast=True, min_length=1, max_length=MOST_MESSAGES)]
    response_format: _Format | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES)] | None = None
    stop: Annotated[list[_Stop], Field(fail_fast=True, max_length=4), BeforeValidator(_listed)] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    modalities: Annotated[list[Literal["text"]], Field(fail_fast=True)] | None = None
    tools: Annotated[list[_Tool], Field(fail_fast=True, max_length=MOST_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | _Chosen | None = None
    functions: _Refused = None
    audio: _Refused = None
    logprobs: _Refused = None
    top_logprobs: _Refused = None

    @property
    def said(self) -> tuple[Message, ...]:
        """The messages."""
        return tuple(given.as_message() for given in self.messages)

    @property
    def conversation(self) -> tuple[Message, ...]:
        """The messages that the model reads: those of the request, and one with the tools that it may call."""
        offered = [tool.model_dump(exclude_none=True) for tool in self.offered]
        return (*self.said, tools_message(offered)) if offered else self.said

    @model_validator(mode="after")
    def _check_tool_choice(self) -> Chat:
        if self.tool_choice == "required" and not self.tools:
            raise ValueError("tool_choice: required needs a tool")
        if isinstance(self.tool_choice, _Chosen) and not self.forced:
            raise ValueError(f"tool_choice: there is no tool {self.tool_choice.function.name!r}")
        return self

    @property
    def offered(self) -> list[_Function]:
        """The tools that may be called."""
        tools = [tool.function for tool in self.tools or ()]
        if isinstance(self.tool_choice, _Chosen):
            return [tool for tool in tools if tool.name == self.tool_choice.function.name][:1]
        return [] if self.tool_choice == "none" else tools

    @property
    def forced(self) -> list[_Function]:
        """Those of which one at least is to be called; none where the model may also reply."""
        return [] if isinstance(self.tool_choice, str | None) and self.tool_choice != "required" else self.offered

    def called(self, text: str) -> tuple[ToolCall, ...]:
        """Return the calls that a model makes; where it makes none and has to, all that it says is one.

        It is one of the first tool, as the model plans nothing.
        """
        offered, forced = {tool.name: tool for tool in self.offered}, self.forced
        calls = [(name, said) for name, said in calls_in(text) if name in offered] if offered else []
        if forced and not calls:
            calls = [(forced[0].name, _object_in(text))]
        return tuple(self._call(place, offered[name], said) for place, (name, said) in enumerate(calls))

    def _call(self, place: int, tool: _Function, said: object) -> ToolCall:
        where = f"tools[{[given.function for given in self.tools or ()].index(tool)}].function.parameters"
        schema = tool.parameters or {}
        if not schema.keys() & {"$ref", "anyOf"}:
            schema = {"type": "object", **schema}
        arguments = json.dumps(self._fitted(said, schema, where), ensure_ascii=False)
        more = f"_{place}" if place else ""
        return ToolCall(f"call_{len(self.messages)}_{tool.name}{more}", tool.name, arguments)

    @property
    def form(self) -> ReplyForm | None:
        """The form of the reply; None where it may be any text."""
        if self.response_format is None or self.response_format.type == "text":
            return None
        named = self.response_format.named
        return ANY_OBJECT if named is None else ReplyForm.of("reply", named.form)

    def shaped(self, text: str, calls: Sequence[ToolCall] = ()) -> tuple[str, Finish]:
        """Return what a model said in the form that is asked for, and why it ends there; or the arguments of calls."""
        if calls:
            return "".join(call.arguments for call in calls), "tool_calls"
        text = text if self.form is None else self._as_json(text)
        for stop in self.stop or ():
            text = text.split(stop, 1)[0]
        longest = self.max_completion_tokens or self.max_tokens
        if longest is not None and estimated_tokens(text) > longest:
            return text[: longest * CHARACTERS_PER_TOKEN], "length"
        return text, "stop"

    def _as_json(self, text: str) -> str:
        """Return the JSON object in a reply; a reply without one becomes an object's text."""
        named = self.response_format and self.response_format.named
        if named:
            said: object = self._fitted(_object_in(text), named.form, "response_format.json_schema.schema")
        else:
            said = _object_in(text)
        return json.dumps(said if isinstance(said, dict) else {"reply": said}, ensure_ascii=False)

    def _fitted(self, said: object, schema: Json, place: str) -> Json:
        try:
            return fit(said, schema, heard=self.said[-1].content)
        except SchemaError as error:
            raise ApiError(400, f"{place}: no reply can keep to it: {error}", param=place) from None


def _object_in(text: str) -> object:
    """Return the JSON object in a reply; the reply itself where there is none."""
    try:
        return read_json_object(text)
    except ReplyError:
        return text


class Embeddings(_Body):
    """A request for embeddings."""

    model: str
    input: Annotated[list[str], Field(fail_fast=True, min_length=1, max_length=MOST_TEXTS), BeforeValidator(_listed)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, le=MOST_DIMENSIONS)] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A chat completion as it is sent."""

    id: str
    created: int
    """Seconds since 1970."""
    model: str
    text: str
    finish: Finish
    n: int
    """How many choices there are, all of them with the same text."""
    usage: Usage
    calls: tuple[ToolCall, ...] = ()
    """What is to be called, instead of a text."""

    def whole(self) -> Json:
        """Return it in one piece."""
        message: Json = {"role": "assistant", "content": self.text, "refusal": None}
        if self.calls:
            message |= {"content": None, "tool_calls": [call.as_json() for call in self.calls]}
        choice = {"message": message, "logprobs": None, "finish_reason": self.finish}
        choices = [{"index": i, **choice} for i in range(self.n)]
        return {**self._head("chat.completion"), "choices": choices, "usage": self._usage()}

    def pieces(self, *, with_usage: bool) -> Iterator[Json]:
        """Yield it piece by piece: of each choice who speaks, its text bit by bit and its end; then the usage."""
        head = self._head("chat.completion.chunk") | ({"usage": None} if with_usage else {})
        bits = [self.text[start : start + PIECE_CHARACTERS] for start in range(0, len(self.text), PIECE_CHARACTERS)]
        said: list[Json] = [{"content": bit} for bit in bits]
        if self.calls:
            said = [{"tool_calls": [{"index": i, **call.as_json()}]} for i, call in enumerate(self.calls)]
        deltas: list[Json] = [{"role": "assistant", "content": ""}, *said, {}]
        for i in range(self.n):
            for delta in deltas:
                choice = {"index": i, "delta": delta, "logprobs": None, "finish_reason": None if delta else self.finish}
                yield {**head, "choices": [choice]}
        if with_usage:
            yield {**head, "choices": [], "usage": self._usage()}

    def _head(self, kind: str) -> Json:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.usage.input_tokens,
            "completion_tokens": self.usage.output_tokens,
            "total_tokens": self.usage.tokens,
        }

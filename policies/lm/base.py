"""The words that every language model shares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...data.errors import MnemotuneError
from ...data.values import Values
from ..forms import ReplyForm
from .ledger import CallRole, Spend, Usage

MOST_OUTPUT_TOKENS: Mapping[CallRole, int] = {"reply": 2048, "write": 2048, "propose": 4096, "generate": 8192}
"""Longest replies, thinking included, where neither the request nor ``endpoint.max_tokens`` says otherwise."""
MOST_OTHER_TOKENS = 512
"""Those of the other roles: a user's message, the answer to a question."""

CHARACTERS_PER_TOKEN = 4
"""For estimates, where no tokenizer counts."""
BYTES_PER_TOKEN = 4
"""Bytes of UTF-8 that a token of memory's context has, for every model; what is left over is a token too."""
MOST_TOKENS_AROUND_A_MESSAGE = 16
MOST_TOKENS_AROUND_A_CALL = 64
"""What chat templates add: marks of who speaks, and a system message of their own."""
MOST_TEXTS = 128
"""Texts of one call of an embedder."""

Vectors = NDArray[np.float32]
"""Shape ``(texts, dimensions)``, rows of length 1."""


class LanguageModelError(MnemotuneError, RuntimeError):
    """A call failed for good; the message says which endpoint, why, and what to do."""


class Refused(LanguageModelError):  # noqa: N818 - what it means, not what it is
    """The endpoint answers, but not this request: it is too long, or asks for what is forbidden."""


class FormRefused(Refused):
    """The endpoint does not take the form in which a structured reply was asked for, as far as its words tell."""


class EndpointDown(LanguageModelError):  # noqa: N818 - what it means, not what it is
    """No call will do better, whatever it asks: the endpoint is out of reach, or refuses this key or model."""


@dataclass(frozen=True, slots=True)
class ToolCall(Values):
    """A tool that a model wants to have called."""

    id: str
    name: str
    arguments: str
    """A JSON object as text."""

    def as_json(self) -> dict[str, Any]:
        """Return the call in OpenAI's form."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True, slots=True)
class Tool(Values):
    """A tool that a model may want to have called."""

    name: str
    """Of letters, digits, ``_`` and ``-``."""
    description: str
    parameters: str
    """The JSON schema of its arguments, as text."""

    def as_json(self) -> dict[str, Any]:
        """Return the tool in OpenAI's form."""
        parameters = json.loads(self.parameters)
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }


@dataclass(frozen=True)
class Message(Values):
    """One chat message. A long talk is sent again with every call, so that what is derived from one is kept."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant's message: what it wants to have called, before or instead of a reply."""
    tool_call_id: str | None = None
    """Of a tool's message: the call whose result it is."""

    def __post_init__(self) -> None:
        if (self.role == "tool") != (self.tool_call_id is not None):
            raise ValueError("a message has a tool_call_id when its role is tool, and only then")
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"a message with tool_calls is an assistant's, not one of role {self.role}")

    @property
    def text(self) -> str:
        """What the message says, its tool calls included."""
        calls = [f"{call.name}({call.arguments})" for call in self.tool_calls]
        return "\n".join([self.content, *calls] if self.content else calls)

    @property
    def parts(self) -> list[str]:
        """The role, the content, and all that says which tool is called how."""
        calls = [text for call in self.tool_calls for text in (call.id, call.name, call.arguments)]
        return [self.role, self.content, self.tool_call_id or "", *calls]

    @cached_property
    def size(self) -> int:
        """Bytes of the content, and of all that says which tool is called how."""
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in self.parts[1:])

    @cached_property
    def identified(self) -> bytes:
        """The message as the identity of a request has it."""
        return _told_apart(self.parts)

    @property
    def tokens(self) -> int:
        """What the message takes of memory's budget."""
        return -(-self.size // BYTES_PER_TOKEN)

    def as_json(self) -> dict[str, Any]:
        """Return the message in OpenAI's form."""
        message: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [call.as_json() for call in self.tool_calls]
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        return message

    @cached_property
    def encoded(self) -> bytes:
        """The message as JSON."""
        return to_json(self.as_json())


def identity(*texts: str) -> bytes:
    """Return 16 bytes that tell texts in their order from any others."""
    return _digest(_told_apart(texts))


def _told_apart(texts: Iterable[str]) -> bytes:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return b"".join([b"%d %b" % (len(text), text) for text in encoded])


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()


def to_json(value: object) -> bytes:
    """Return a value as JSON in UTF-8; half characters, which UTF-8 has not, are escaped."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


class Bill(Protocol):
    """What a model behind an endpoint tells of a request, for the endpoint may bill it."""

    async def reserve(self) -> None:
        """Be told that the request is to be sent, before its turn is waited for. Raises BudgetExhausted."""

    async def sending(self) -> None:
        """Be told when the request's turn has come, before it is sent, in each of its forms. Raises BudgetExhausted."""

    async def unanswered(self) -> None:
        """Be told each time that it was sent and not answered, before it is sent again. Raises BudgetExhausted."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a language model."""

    messages: tuple[Message, ...]
    role: CallRole
    """What the call is billed as. A model never acts on it."""
    form: ReplyForm | None = None
    """Of a structured reply; None is free text."""
    tools: tuple[Tool, ...] = ()
    """What the model may want to have called instead of replying."""
    temperature: float = 0.0
    max_tokens: int = 0
    """Longest reply, in tokens; 0 stands for the role's, ``MOST_OUTPUT_TOKENS``."""
    repeat: int = 0
    """Tells apart equal requests that want independent replies."""
    reader: str = ""
    """Who of a family of models replies, by name; empty is its first, and a model that is no family pays no heed."""
    bill: Bill | None = field(default=None, compare=False, repr=False)
    """Hears when it is sent."""

    def __post_init__(self) -> None:
        if not self.max_tokens:
            object.__setattr__(self, "max_tokens", MOST_OUTPUT_TOKENS.get(self.role, MOST_OTHER_TOKENS))

    def identity(self, model: str) -> bytes:
        """Return 16 bytes that tell what is asked of a model of this name from everything else that may be."""
        settings = self.form, self.temperature, self.max_tokens, self.repeat, *filter(None, [self.reader])
        tools = [text for tool in self.tools for text in (tool.name, tool.description, tool.parameters)]
        asked = _told_apart([model, *map(str, settings), *tools])
        return _digest(asked, *[message.identified for message in self.messages])


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's reply."""

    text: str
    usage: Usage
    tool_calls: tuple[ToolCall, ...] = ()
    """What it wants to have called, before or instead of a text."""


def estimated_tokens(*texts: str) -> int:
    """Return how many tokens texts have together, for where no tokenizer counts."""
    return -(-sum(map(len, texts)) // CHARACTERS_PER_TOKEN)


def most_input_tokens(messages: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
    """Return how many tokens any tokenizer and chat template can make of these: at most one a byte."""
    said = sum(message.size for message in messages) + sum(len(to_json(tool.as_json())) for tool in tools)
    parts = sum(1 + len(message.tool_calls) for message in messages)
    return said + MOST_TOKENS_AROUND_A_MESSAGE * parts + MOST_TOKENS_AROUND_A_CALL


class LanguageModel(Protocol):
    """Anything that continues a conversation."""

    @property
    def name(self) -> str:
        """What reports call the model."""

    def worst_case(self, request: Request) -> Usage:
        """Return the most that one attempt at ``request`` can take; nothing in dollars, unless a model knows better."""
        return Usage(most_input_tokens(request.messages, request.tools), request.max_tokens)

    async def complete(self, request: Request) -> Completion:
        """Return the reply to ``request``. Raises LanguageModelError when there is none to be had.

        The error is EndpointDown when no other request would fare better.
        """

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """Yield the text of the reply as it comes, in one piece where the model has no stream.

        Raises LanguageModelError, also when the reply breaks off.
        """
        yield (await self.complete(request)).text

    async def aclose(self) -> None:
        """Release connections and files, where there are any."""
        return


class Wrapper(LanguageModel):
    """A language model around another one, which shares its name and its worst case."""

    def __init__(self, model: LanguageModel) -> None:
        """Pass calls on to ``model``."""
        self.model = model

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self.model.name

    def worst_case(self, request: Request) -> Usage:
        """Return the inner model's."""
        return self.model.worst_case(request)

    async def aclose(self) -> None:
        """Close the inner model."""
        await self.model.aclose()


class RequestsWith(Wrapper):
    """A language model that is asked with some fields of each request set, such as its reader or its repeat."""

    def __init__(self, model: LanguageModel, **fields: Any) -> None:
        """Ask ``model``; ``fields`` are of ``Request``."""
        super().__init__(model)
        self.fields = fields

    async def complete(self, request: Request) -> Completion:
        """Ask the inner model."""
        return await self.model.complete(replace(request, **self.fields))


@dataclass(frozen=True, slots=True)
class Embedding:
    """An embedder's reply."""

    vectors: Vectors
    """One row per text, of length 1 (or 0 for a text without words)."""
    usage: Usage | None = None
    """None where no endpoint was asked."""


class Embedder(Protocol):
    """Anything that turns texts into vectors whose dot product is their similarity."""

    @property
    def name(self) -> str:
        """What reports call the embedder."""

    def worst_case(self, texts: Sequence[str]) -> Usage | None:
        """Return the most that one attempt at ``texts`` can take; None where no endpoint is asked."""
        return None

    async def embed(self, texts: Sequence[str], *, bill: Bill | None = None) -> Embedding:
        """Return the vectors of ``texts``. Raises LanguageModelError when there are none to be had.

        ``bill`` hears what a request's does. Up to MOST_TEXTS texts are one call.
        """

    async def aclose(self) -> None:
        """Release connections and files, where there are any."""
        return


@runtime_checkable
class AnyWidth(Protocol):
    """An embedder whose vectors can have any number of dimensions."""

    def of_width(self, dimensions: int) -> Embedder:
        """Return an embedder of the same kind whose vectors have this many."""


async def in_batches(
    texts: Sequence[str], embed: Callable[[Sequence[str]], Awaitable[Embedding]], *, most: int = MOST_TEXTS
) -> Embedding:
    """Return the vectors of any number of texts, ``most`` of them a call of ``embed``."""
    parts = [await embed(texts[start : start + most]) for start in range(0, len(texts), most)]
    spend = Spend()
    for part in parts:
        if part.usage is not None:
            spend.add(part.usage)
    usage = Usage(spend.input_tokens, spend.output_tokens, spend.cost_usd, cached=spend.cached == spend.calls)
    vectors = np.concatenate([part.vectors for part in parts]) if parts else np.zeros((0, 0), dtype=np.float32)
    return Embedding(vectors, usage if spend.calls else None)

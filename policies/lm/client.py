"""OpenAI's official asynchronous client as a language model; the package ``openai`` itself is not needed here."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, runtime_checkable

from ..forms import ResponseFormat
from .base import Completion, LanguageModel, LanguageModelError, Request, ToolCall, estimated_tokens
from .ledger import Usage
from .refusals import error_kind
from .secrets import redacted
from .streaming import Said
from .structured import ResponseFormats, response_format


@runtime_checkable
class Client(Protocol):
    """An ``openai.AsyncOpenAI``, or what looks like one."""

    @property
    def chat(self) -> Any:
        """What chat completions are asked of."""


class ClientModel(LanguageModel):
    """A model behind an official client, which paces and repeats the calls and belongs to the caller."""

    def __init__(self, client: Client, name: str) -> None:
        """Ask model ``name``. What a call costs is not known."""
        self._client = client
        self._name = name
        self._formats = ResponseFormats()

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self._name

    async def complete(self, request: Request) -> Completion:
        """Return the reply. An empty reply is "", not an error."""
        return await self._formats.ask(request.form, partial(self._ask, request))

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """Yield the text of the reply as it comes; a reply in a form comes in one piece."""
        if request.form is not None:
            yield (await self.complete(request)).text
            return
        said = Said()
        async with self._explained(request):
            async for piece in await self._created(request, stream=True):
                if text := said.take(piece.model_dump()):
                    yield text

    async def _ask(self, request: Request, kind: ResponseFormat | None) -> Completion:
        async with self._explained(request):
            reply = await self._created(request, **response_format(request.form, kind))
        if not reply.choices:
            raise LanguageModelError(f"model {self._name}: the reply holds no choice")
        choice, counted = reply.choices[0], reply.usage
        text, cut = choice.message.content or "", choice.finish_reason == "length"
        given = [call for call in choice.message.tool_calls or () if call.type == "function"] if request.tools else []
        calls = tuple(ToolCall(call.id, call.function.name, call.function.arguments) for call in given)
        if counted is not None:
            return Completion(text, Usage(counted.prompt_tokens, counted.completion_tokens, None, cut=cut), calls)
        asked = (*(message.text for message in request.messages), *(str(tool.as_json()) for tool in request.tools))
        said = (text, *(part for call in calls for part in (call.name, call.arguments)))
        return Completion(text, Usage(estimated_tokens(*asked), estimated_tokens(*said), None, cut=cut), calls)

    async def _created(self, request: Request, **settings: Any) -> Any:
        settings |= {"temperature": request.temperature, "max_tokens": request.max_tokens}
        settings |= {"tools": [tool.as_json() for tool in request.tools]} if request.tools else {}
        messages = [message.as_json() for message in request.messages]
        if request.bill is not None:
            await request.bill.sending()
        call = self._client.chat.completions.create(model=self._name, messages=messages, **settings)
        if not inspect.isawaitable(call):
            raise TypeError(f"{type(self._client).__name__} is not asynchronous; give an openai.AsyncOpenAI")
        return await call

    @asynccontextmanager
    async def _explained(self, request: Request) -> AsyncIterator[None]:
        try:
            yield
        except Exception as error:
            if all(kind.__name__ != "OpenAIError" for kind in type(error).__mro__):
                raise
            status = getattr(error, "status_code", None)
            if status is None and request.bill is not None:
                await request.bill.unanswered()
            shown = redacted(str(error), getattr(self._client, "api_key", None))
            raise error_kind(status, shown)(f"model {self._name}: {shown}") from error


def as_model(given: LanguageModel | Client, name: str | None = None) -> LanguageModel:
    """Return a language model as it is, and an official client as the model ``name`` behind it."""
    if not isinstance(given, Client):
        return given
    if name is None:
        raise ValueError('a client may ask many models: say which with model_name, for example "gpt-4.1-mini"')
    return ClientModel(given, name)

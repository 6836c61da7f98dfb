"""OpenAI's official asynchronous client as a language model; the package ``openai`` itself is not needed here."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, runtime_checkable

from ..forms import ResponseFormat
from .base import Completion, LanguageModel, LanguageModelError, Request
from .completions import is_cut, said_in, tokens_of, whole
from .ledger import Usage
from .refusals import advice_for, error_kind
from .secrets import redacted
from .streaming import BrokenOff, Said, problem_of
from .structured import ResponseFormats, response_format

SETTINGS = {"max_tokens": "max_completion_tokens", "temperature": ""}
"""What models that think take in the place of a setting; empty: nothing, they have a temperature of their own."""


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
        self._renamed: dict[str, str] = {}
        """What this model takes in the place of a setting."""

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
                event = piece.model_dump(warnings=False)
                for problem in filter(None, map(problem_of, event.get("choices") or ())):
                    raise LanguageModelError(f"model {self._name}: the reply broke off: {problem}")
                if text := whole(said.take(event)):
                    yield text
        if text := whole(said.rest()):
            yield text

    async def _ask(self, request: Request, kind: ResponseFormat | None) -> Completion:
        async with self._explained(request):
            reply = await self._created(request, **response_format(request.form, kind))
        given = reply.model_dump(warnings=False)  # what some servers say is not as the package has it
        try:
            text, calls = said_in(given, tools=bool(request.tools))
        except BrokenOff as error:
            raise LanguageModelError(f"model {self._name}: {error}: {error.problem}") from error
        except ValueError as error:
            raise LanguageModelError(f"model {self._name}: {error}") from error
        usage = Usage(*tokens_of(given, request, text, calls), None, cut=is_cut(given))
        return Completion(text, usage, calls)

    async def _created(self, request: Request, **given: Any) -> Any:
        settings = given
        settings |= {"temperature": request.temperature, "max_tokens": request.max_tokens}
        settings = {self._renamed.get(name, name): value for name, value in settings.items()}
        settings = {name: value for name, value in settings.items() if name}
        settings |= {"tools": [tool.as_json() for tool in request.tools]} if request.tools else {}
        messages = [message.as_json() for message in request.messages]
        if request.bill is not None:
            await request.bill.sending()
        call = self._client.chat.completions.create(model=self._name, messages=messages, **settings)
        if not inspect.isawaitable(call):
            raise TypeError(f"{type(self._client).__name__} is not asynchronous; give an openai.AsyncOpenAI")
        try:
            return await call
        except Exception as error:
            if not self._learns_from(error):
                raise
        return await self._created(request, **given)

    def _learns_from(self, error: Exception) -> bool:
        """Note which setting the model does not take, as its refusal tells; tell whether it is a new one."""
        refused = getattr(error, "status_code", None) == 400
        for name, other in SETTINGS.items():
            if refused and re.search(rf"['\"`]{name}['\"`]", str(error)) and name not in self._renamed:
                self._renamed[name] = other
                return True
        return False

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
            advice = "" if status is None else f"; {advice_for(status, shown)}"
            raise error_kind(status, shown)(f"model {self._name}: {shown}{advice}") from error


def as_model(given: LanguageModel | Client, name: str | None = None) -> LanguageModel:
    """Return a language model as it is, and an official client as the model ``name`` behind it."""
    if not isinstance(given, Client):
        return given
    if name is None:
        raise ValueError('a client may ask many models: say which with model_name, for example "gpt-4.1-mini"')
    return ClientModel(given, name)

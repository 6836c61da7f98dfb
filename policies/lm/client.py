"""OpenAI's official asynchronous client as a language model; the package ``openai`` itself is not needed here."""

from __future__ import annotations

import inspect
from typing import Any, Protocol, runtime_checkable

from .base import Completion, EndpointDown, LanguageModel, LanguageModelError, Refused, Request, Usage, estimated_tokens
from .endpoint import DOWN, REFUSED
from .secrets import redacted


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

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""
        return self._name

    async def complete(self, request: Request) -> Completion:
        """Return the reply. An empty reply is "", not an error."""
        settings: dict[str, Any] = {"temperature": request.temperature, "max_tokens": request.max_tokens}
        if request.json_mode:
            settings["response_format"] = {"type": "json_object"}
        messages = [message.as_json() for message in request.messages]
        if request.bill is not None:
            await request.bill.sending()
        try:
            call = self._client.chat.completions.create(model=self._name, messages=messages, **settings)
            if not inspect.isawaitable(call):
                raise TypeError(f"{type(self._client).__name__} is not asynchronous; give an openai.AsyncOpenAI")
            reply = await call
        except Exception as error:
            if all(kind.__name__ != "OpenAIError" for kind in type(error).__mro__):
                raise
            status = getattr(error, "status_code", None)
            if status is None and request.bill is not None:
                request.bill.unanswered()
            kind = EndpointDown if status in DOWN else Refused if status in REFUSED else LanguageModelError
            shown = redacted(str(error), getattr(self._client, "api_key", None))
            raise kind(f"model {self._name}: {shown}") from error
        if not reply.choices:
            raise LanguageModelError(f"model {self._name}: the reply holds no choice")
        text, counted = reply.choices[0].message.content or "", reply.usage
        if counted is not None:
            return Completion(text, Usage(counted.prompt_tokens, counted.completion_tokens, None))
        input_tokens = estimated_tokens(*(message.text for message in request.messages))
        return Completion(text, Usage(input_tokens, estimated_tokens(text), None))


def as_model(given: LanguageModel | Client, name: str | None = None) -> LanguageModel:
    """Return a language model as it is, and an official client as the model ``name`` behind it."""
    if not isinstance(given, Client):
        return given
    if name is None:
        raise ValueError('a client may ask many models: say which with model_name, for example "gpt-4.1-mini"')
    return ClientModel(given, name)

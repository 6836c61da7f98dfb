"""How the models of an endpoint are reached: its settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_serializer, field_validator

from ...data.record import Record
from .ledger import CallRole
from .prices import Prices
from .secrets import without_login
from .structured import Structured

RESERVED = ("model", "messages", "input", "n", "stream", "max_tokens", "max_completion_tokens", "response_format")
"""What ``extra_body`` may not hold: the accounting rests on it."""

Positive = Annotated[int, Field(ge=1)]


class EndpointConfig(Record):
    """How the models of an endpoint are reached."""

    base_url: str | None = None
    """None takes OPENAI_BASE_URL, or else the official endpoint. A login in it is not written down: a run that goes on
    takes it from OPENAI_BASE_URL."""
    concurrency: Positive = 16
    """Requests under way at once, those that wait for their retry included: a struggling server sees fewer."""
    requests_per_minute: Positive | None = None
    """None sets no pace."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 120.0
    """Longest wait for a reply, after which the request is sent again."""
    attempts: Positive = 8
    """The first included; status 429 is none. A request that fails as often while others get through ends its
    episode."""
    longest_outage_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 3600.0
    """How long a run waits for an endpoint that answers no call, before it ends and can be resumed."""
    max_tokens: Positive | dict[CallRole, Positive] | None = None
    """Longest reply, thinking included, of all calls or by role; else it is 2048 for ``reply`` and ``write``, 512 for
    ``user``, ``answer``, ``probe`` and ``upper_bound``, 4096 for ``propose``, and ``generation.max_tokens``."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the endpoint calls the longest reply."""
    extra_body: dict[str, Any] = {}
    """Added to every request, for example a reasoning effort or another temperature; it wins."""
    structured: Structured = "auto"
    """How structured replies are asked for: by ``json_schema``, for a ``json_object``, or as plain ``text``; ``auto``
    takes the first that the server does not refuse."""
    prices: dict[str, Prices] = {}
    """By model, US dollars per million tokens. What is missing is looked up in a list where the endpoint is the
    provider's own; else it costs a sum that is not known, never zero."""
    cache: bool = True
    """Keep replies in the run folder, so that nothing is paid for twice."""
    quote_server: bool = True
    """Whether errors and the log quote what the server says. It may repeat what a user said, so that a deployment does
    not quote it."""

    @field_serializer("base_url")
    def _without_login(self, base_url: str | None) -> str | None:
        return None if base_url is None else without_login(base_url)

    @field_validator("extra_body")
    @classmethod
    def _check_extra_body(cls, given: dict[str, Any]) -> dict[str, Any]:
        reserved = sorted(set(given) & set(RESERVED))
        if reserved:
            others = "the longest reply is max_tokens, and the form of replies structured"
            raise ValueError(f"extra_body cannot hold {', '.join(reserved)}; {others}")
        return given

"""What servers say when they give no answer, and what that means."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from .base import EndpointDown, FormRefused, LanguageModelError, Refused

DOWN = (401, 403, 404, 407)
"""Statuses that no other request would fare better with."""
REFUSED = (400, 413, 422)
"""Statuses that say that the request asks for too much, or for what is forbidden."""
TOO_LONG = (
    r"(?i)context.{0,3}(length|window|size)|maximum (model|prompt) length|(prompt|input|request) is too (long|large)"
    r"|reduce the length|input token(s exceed| count)"
)
"""How OpenAI, vLLM, the llama.cpp server and others complain of a long prompt."""
OTHER_FORM = (
    r"(?i)response.?format|json|schema|grammar|guided|structured|support|unrecogni[sz]ed|unknown|extra (input|field)"
)
"""How they complain of a response format."""


SPENT = r"(?i)budget has been exceeded|budget_exceeded|api[ _]key (is )?(not valid|invalid)|invalid api[ _]key"
"""How gateways say, with whatever status, that no call will be answered."""
FLAGGED = r"(?i)moderation|flagged|content.{0,3}(policy|filter|management)"
"""How they say with status 403 that it is this text which is refused."""
SETTING = r"(?i)['\"`](temperature|top_p|max_tokens|max_completion_tokens)['\"`]"
"""How they name a setting that the model does not take."""
NO_SUCH_PATH = r"(?i)unexpected endpoint or method"
"""How LM Studio says, with status 200, that it has no such path."""
MADE_NO_JSON = r"(?i)json_validate_failed|failed to validate json|failed_generation"
"""How Groq says that this reply of the model was no JSON; the next may be."""


def error_kind(status: int | None, message: str) -> type[LanguageModelError]:
    """Return what an error of a server is, from its status and its words."""
    if re.search(SPENT, message):
        return EndpointDown
    if status == 403 and re.search(FLAGGED, message):
        return Refused
    if status in (400, 422) and re.search(SETTING, message):
        return Refused
    if status in (400, 422) and re.search(OTHER_FORM, message) and not re.search(TOO_LONG, message):
        return FormRefused
    return EndpointDown if status in DOWN else Refused if status in REFUSED else LanguageModelError


def parsed(text: str, status: int) -> tuple[object, Mapping[str, object] | None]:
    """Return a reply, and the error that it describes in one of the ways that servers have; None where it is none.

    Raises ValueError when a reply with a good status is not JSON.
    """
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError) as error:
        if status < 400:
            raise ValueError("the reply is not JSON; check base_url, which mostly ends in /v1") from error
        return None, {}
    said = reply.get("error") if isinstance(reply, dict) else None
    if status < 400 and not said:
        return reply, None
    said = reply if said is None else said
    return reply, _with_details(said) if isinstance(said, dict) else {"message": said}


def _with_details(error: Mapping[str, object]) -> Mapping[str, object]:
    """Return an error with the words of the server behind a gateway (OpenRouter) in its message."""
    match error:
        case {"message": str(message), "metadata": {"raw": str(raw)}}:
            return {**error, "message": f"{message}: {raw}"}
    return error


def advice_for(status: int, message: str) -> str:
    """Return what to do about a refusal."""
    if status == 413 or (status != 429 and re.search(TOO_LONG, message)):
        return "set context_tokens, or lower the policy's buffer_size or top_k, or take a model with a longer context"
    if "max_completion_tokens" in message:
        return 'set max_tokens_field to "max_completion_tokens"'
    if "temperature" in message:
        return "set extra_body to {temperature: 1}, or whatever the model takes"
    if re.search(SPENT, message):
        return "add to the budget of OPENAI_API_KEY, or check the key"
    if status >= 500:
        return "the server fails: see its log, or run again later"
    return {
        401: "check OPENAI_API_KEY",
        403: "check that OPENAI_API_KEY may use this model",
        404: "check the model's name, and base_url, which mostly ends in /v1",
        429: "lower concurrency or requests_per_minute",
    }.get(status, "the server does not take this request: check the model's name and extra_body")


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """Read a Retry-After header, in seconds or as an HTTP date (RFC 9110, 10.2.3); None where it says nothing.

    A date is counted from the server's own clock where the headers tell it, else from ``now``.
    """
    value = headers.get("Retry-After", "")
    if re.fullmatch(r"\s*[0-9]+(\.[0-9]*)?\s*", value):
        return float(value)
    until, sent = _date(value), _date(headers.get("Date", ""))
    return None if until is None else max(0.0, (until - (sent or now)).total_seconds())


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def excerpt(text: str) -> str:
    """Return the start of what a server said, without HTML tags, on one line."""
    plain = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    return (plain[:300] + "..." if len(plain) > 300 else plain) or "(no message)"

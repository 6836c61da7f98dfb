"""How a server is asked for structured replies: by a JSON schema, else for a JSON object, else in the prompt alone."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, get_args

from ..forms import ReplyForm, ResponseFormat
from .base import Completion, FormRefused
from .cache import Cache, cache_key
from .ledger import Usage

Structured = Literal["auto"] | ResponseFormat
"""``auto`` is the first of the formats that the server takes."""
FORMATS: tuple[ResponseFormat, ...] = get_args(ResponseFormat)


class ResponseFormats:
    """Which response format the server of one model takes for each form.

    What it refuses, and then answers in another format, is not tried again for forms of that name. A ``cache`` keeps
    this for the next run, which thus sends the same requests.
    """

    def __init__(self, setting: Structured = "auto", *, cache: Cache | None = None, where: str = "") -> None:
        """``where`` tells apart the models that share a cache."""
        self._setting = setting
        self._cache = cache
        self._where = where
        self._refused: dict[tuple[str, ResponseFormat], bool] = {}

    def tried(self, form: ReplyForm) -> list[ResponseFormat]:
        """Return the formats that such forms were asked for in so far, the present one last."""
        tried: list[ResponseFormat] = []
        for kind in self._formats(form):
            tried.append(kind)
            if not self._is_refused(form, kind):
                break
        return tried

    async def ask(
        self, form: ReplyForm | None, call: Callable[[ResponseFormat | None], Awaitable[Completion]]
    ) -> Completion:
        """Return the completion in the best format that is not refused. Raises FormRefused when there is none."""
        if form is None:
            return await call(None)
        *refused, kind = self.tried(form)
        while True:
            try:
                completion = await call(kind)
            except FormRefused:
                refused.append(kind)
                worse = self._formats(form)[len(refused) :]
                if not worse:
                    raise
                kind = worse[0]
            else:
                for better in refused:
                    self._note_refused(form, better)
                return in_format(completion, kind)

    def _formats(self, form: ReplyForm) -> tuple[ResponseFormat, ...]:
        possible = FORMATS[form.schema is None :]
        if self._setting == "auto":
            return possible
        return (self._setting if self._setting in possible else possible[0],)

    def _is_refused(self, form: ReplyForm, kind: ResponseFormat) -> bool:
        place = form.name, kind
        if place not in self._refused:
            self._refused[place] = self._cache is not None and self._cache.get(self._key(*place)) is not None
        return self._refused[place]

    def _note_refused(self, form: ReplyForm, kind: ResponseFormat) -> None:
        place = form.name, kind
        if not self._refused.get(place) and self._cache is not None:
            self._cache.put(self._key(*place), Completion("refused", Usage(0, 0)))
        self._refused[place] = True

    def _key(self, name: str, kind: ResponseFormat) -> str:
        return cache_key(self._where, 0, [f"refused {name} {kind}".encode()])


def in_format(completion: Completion, kind: ResponseFormat) -> Completion:
    """Return a completion as one that was asked for in a format."""
    return replace(completion, usage=replace(completion.usage, response_format=kind))


@lru_cache(1024)
def response_format(form: ReplyForm | None, kind: ResponseFormat | None) -> dict[str, Any]:
    """Return what a request for a form holds besides: ``response_format``, or nothing."""
    if form is None or kind in (None, "text"):
        return {}
    wanted: dict[str, Any] = {"type": kind}
    if kind == "json_schema":
        schema = json.loads(form.schema or "{}")
        wanted["json_schema"] = {"name": form.name, "strict": form.strict, "schema": schema}
    return {"response_format": wanted}

"""Language models and embedders by name; other packages register theirs as entry points.

A name is ``PROVIDER`` or ``PROVIDER:ARGUMENT``. To add a provider, write a ``Provider`` and register it under its name
in the group ``mnemotune.models`` or ``mnemotune.embedders``. What callers must know of a model before it is made is in
``Provided``: no other code tests a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import ValidationInfo, field_validator

from ...data.nearest import nearest_note
from ...data.record import Record
from ...data.registry import Registry, UnknownPartError
from .base import Embedder, LanguageModel
from .cache import Cache
from .embedded import EmbeddedModel
from .embedded.readers import READERS
from .endpoint_config import EndpointConfig
from .fast import FastEmbedder
from .lexical import DIMENSIONS, LexicalEmbedder
from .openai import OpenAIEmbedder, OpenAIModel
from .prices import Prices

ModelT = TypeVar("ModelT")

FREE = Prices(input=0, output=0, source="this machine")


@dataclass(frozen=True, slots=True)
class Provided(Generic[ModelT]):
    """What a name stands for, before anything is made."""

    model: str
    """The model's own name, which its endpoint and price lists know."""
    make: Callable[[EndpointConfig, Cache | None], ModelT]
    """Makes it. An answer that the cache holds is not asked for again. Raises LanguageModelError."""
    remote: bool = True
    """Whether it is behind an endpoint: calls are paced and cost something, and answers are worth keeping. What is not
    remote is free."""
    stand_in: bool = False
    """Whether it stands in for a real one: a language model whose scores compare policies only, an embedder that
    matches words and not meanings. Every run with it says so."""
    per_core: bool = False
    """Whether a copy in a process on each core is worth while: it uses one core, and it can be pickled."""
    readers: tuple[str, ...] = ()
    """The members of a family of models, which are dealt to groups; none where it is one model."""

    def price(self, endpoint: EndpointConfig) -> Prices | None:
        """Return what its tokens cost; None where that is not known."""
        return endpoint.prices.get(self.model) if self.remote else FREE


@dataclass(frozen=True, slots=True)
class Provider(Generic[ModelT]):
    """Models of one kind."""

    usage: str
    """How they are named, for example ``openai:NAME``."""
    read: Callable[[str], Provided[ModelT]]
    """Return what the text after the colon stands for; it is empty without a colon. Raises ValueError."""


def _embedded(argument: str) -> Provided[LanguageModel]:
    if argument and argument not in READERS:
        raise ValueError(f"its readers are {', '.join(READERS)}{nearest_note(argument, READERS)}")
    readers = {argument: READERS[argument]} if argument else READERS
    family = () if argument else tuple(READERS)
    return Provided(
        EmbeddedModel.name,
        lambda _, __: EmbeddedModel(readers),
        remote=False,
        stand_in=True,
        per_core=True,
        readers=family,
    )


def _openai_model(name: str) -> Provided[LanguageModel]:
    return Provided(_required(name), lambda config, cache: OpenAIModel(name, cache=cache, **_settings(config)))


def _lexical(argument: str) -> Provided[Embedder]:
    if not re.fullmatch(r"[1-9][0-9]{0,4}", argument):
        raise ValueError("the number of dimensions is missing, or has more than five digits")
    embedder = LexicalEmbedder(dimensions=int(argument))
    return Provided(embedder.name, lambda _, __: embedder, remote=False, stand_in=True, per_core=True)


def _openai_embedder(name: str) -> Provided[Embedder]:
    return Provided(_required(name), lambda config, cache: OpenAIEmbedder(name, cache=cache, **_settings(config)))


def _fastembed(name: str) -> Provided[Embedder]:
    return Provided(_required(name), lambda _, __: FastEmbedder(name), remote=False)


def _settings(config: EndpointConfig) -> dict[str, Any]:
    return {name: value for name, value in config if name != "cache"}  # whether to keep replies has been decided


def _required(name: str) -> str:
    if not name.strip():
        raise ValueError("the name is missing")
    return name


MODELS: Registry[Provider[LanguageModel]] = Registry(
    "model",
    "mnemotune.models",
    {"embedded": Provider("embedded[:READER]", _embedded), "openai": Provider("openai:NAME", _openai_model)},
)
EMBEDDERS: Registry[Provider[Embedder]] = Registry(
    "embedder",
    "mnemotune.embedders",
    {
        "fastembed": Provider("fastembed:NAME", _fastembed),
        "lexical": Provider("lexical:DIMENSIONS", _lexical),
        "openai": Provider("openai:NAME", _openai_embedder),
    },
)
DEFAULT_EMBEDDER = f"lexical:{DIMENSIONS}"
"""It is not known which embedding models an endpoint has, so that none is used without being named."""


@cache
def model_named(name: str) -> Provided[LanguageModel]:
    """Return what a language model's name stands for. Raises ValueError, which lists what can be written."""
    return _named(name, MODELS)


@cache
def embedder_named(name: str) -> Provided[Embedder]:
    """Return what an embedder's name stands for. Raises ValueError, which lists what can be written."""
    return _named(name, EMBEDDERS)


def open_embedder(name: str, endpoint: EndpointConfig = EndpointConfig()) -> Embedder:  # noqa: B008 - frozen
    """Make the embedder of a name, for example ``openai:text-embedding-3-small``. Raises ValueError for an unknown one.

    Raises LanguageModelError when it cannot be had.
    """
    return embedder_named(name).make(endpoint, None)


def _named(name: str, registry: Registry[Provider[ModelT]]) -> Provided[ModelT]:
    prefix, _, argument = name.partition(":")
    try:
        return registry.get(prefix).read(argument)
    except (UnknownPartError, ValueError) as error:
        why = "" if isinstance(error, UnknownPartError) else f" ({error})"
        *first, last = (f"`{registry.get(known).usage}`" for known in registry.names)
        close = nearest_note(prefix, registry.names) if isinstance(error, UnknownPartError) else ""
        raise ValueError(f"{name!r} is no {registry.kind}{why}{close}; write {', '.join(first)} or {last}") from None


class ModelsConfig(Record):
    """Which models take part, and how they are reached."""

    model: str = "embedded"
    """``embedded``, ``openai:NAME``, or what other packages register."""
    user_model: str | None = None
    """Plays the user, or judges answers where a model does; None is ``model``."""
    proposer_model: str | None = None
    """Edits prompts; None is ``model``."""
    embedder: str = DEFAULT_EMBEDDER
    """Searches memories: ``lexical:DIMENSIONS``, ``openai:NAME``, ``fastembed:NAME`` or ``fastembed:FOLDER``, or what
    other packages register."""
    endpoint: EndpointConfig = EndpointConfig()
    embedder_endpoint: EndpointConfig | None = None
    """How the embedder is spoken to; None is ``endpoint`` without its ``extra_body``. The prices of ``endpoint`` hold
    here too."""

    @property
    def models(self) -> dict[str, str]:
        """The model that plays each part: ``assistant``, ``user`` and ``proposer``."""
        return {
            "assistant": self.model,
            "user": self.user_model or self.model,
            "proposer": self.proposer_model or self.model,
        }

    @property
    def provided(self) -> dict[str, Provided[LanguageModel]]:
        """What their names stand for, by name."""
        return {name: model_named(name) for name in self.models.values()}

    @property
    def provided_embedder(self) -> Provided[Embedder]:
        """What the embedder's name stands for."""
        return embedder_named(self.embedder)

    @property
    def reach_of_embedder(self) -> EndpointConfig:
        """How the embedder is spoken to."""
        given = self.embedder_endpoint or self.endpoint.model_copy(update={"extra_body": {}})
        return given.model_copy(update={"prices": {**self.endpoint.prices, **given.prices}})

    @property
    def stands_in(self) -> bool:
        """Whether nothing real takes part: no part is played by a real language model, and no endpoint is asked."""
        return all(model.stand_in for model in self.provided.values()) and not self.provided_embedder.remote

    @property
    def per_core(self) -> bool:
        """Whether a copy of all of them in a process on each core is worth while."""
        return all(model.per_core for model in self.provided.values()) and self.provided_embedder.per_core

    @field_validator("embedder", mode="before")
    @classmethod
    def _choose_embedder(cls, given: object) -> object:
        return DEFAULT_EMBEDDER if given is None else given

    @field_validator("model", "user_model", "proposer_model", "embedder")
    @classmethod
    def _check_name(cls, given: str | None, info: ValidationInfo) -> str | None:
        named: Callable[[str], object] = embedder_named if info.field_name == "embedder" else model_named
        if given is not None:
            named(given)
        return given

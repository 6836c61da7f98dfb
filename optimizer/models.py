"""Build the language models that a config names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ..env import Cast, Protocol
from ..policies.lm import Budget, Completion, LanguageModel, Ledger, Metered, Request, Usage
from ..policies.lm.base import merged
from ..policies.lm.cache import ResponseCache
from ..policies.lm.embedded import EmbeddedModel
from ..policies.lm.endpoint import url_of
from ..policies.lm.openai import OpenAIModel
from ..policies.lm.prices import Prices, list_price
from ..policies.text import LexicalEmbedder
from .config import Config, ConfigError, Endpoint

FREE = Prices(input=0, output=0, source="this machine")


@dataclass(frozen=True, slots=True)
class Models:
    """The language models of a run, and the protocol that they follow."""

    cast: Cast
    proposer: LanguageModel

    async def aclose(self) -> None:
        """Release every model's connections."""
        for model in {id(model): model for model in (self.cast.assistant, self.cast.user, self.proposer)}.values():
            await model.aclose()

    def within(self, budget: Budget) -> MeteredModels:
        """Return the same models under one common budget."""
        assistant = Metered(self.cast.assistant, budget=budget)
        user = Metered(self.cast.user, budget=budget)
        proposer = Metered(self.proposer, budget=budget)
        cast = replace(self.cast, assistant=assistant, user=user)
        return MeteredModels(cast, proposer, budget, (assistant, user, proposer))


@dataclass(frozen=True, slots=True)
class MeteredModels:
    """The models of a run under one budget, with what they took."""

    cast: Cast
    proposer: LanguageModel
    budget: Budget
    meters: tuple[Metered, ...]

    @property
    def ledger(self) -> Ledger:
        """What all of them took so far."""
        return merged([meter.ledger for meter in self.meters])


@dataclass(frozen=True, slots=True)
class Repeated:
    """A language model whose replies are independent of those to the same requests under another number."""

    model: LanguageModel
    repeat: int

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self.model.name

    def worst_case(self, request: Request) -> Usage:
        """Return the inner model's."""
        return self.model.worst_case(request)

    async def complete(self, request: Request) -> Completion:
        """Ask the inner model."""
        return await self.model.complete(replace(request, repeat=self.repeat))

    async def aclose(self) -> None:
        """Close the inner model."""
        await self.model.aclose()


@contextmanager
def open_models(config: Config, *, folder: Path | None, repeat: int = 0) -> Iterator[Models]:
    """Make the config's models; their replies are cached in ``folder``, where there is one.

    Under another ``repeat`` the same requests are asked anew.
    Raises LanguageModelError when an endpoint cannot be spoken to at all, for example without a key.
    """
    names = config.models
    for name in set(names.values()):
        _make(name, config.endpoint, None)  # says what is wrong with the endpoint before any file is made
    remote = any(name != "embedded" for name in names.values())
    cache = ResponseCache(folder / "cache.db") if remote and folder is not None and config.endpoint.cache else None
    try:
        made = {name: _make(name, config.endpoint, cache) for name in set(names.values())}
        if repeat:
            made = {name: Repeated(model, repeat) for name, model in made.items()}
        cast = Cast(
            assistant=made[names["assistant"]],
            user=made[names["user"]],
            embedder=LexicalEmbedder(),
            protocol=protocol_of(config),
        )
        yield Models(cast, made[names["proposer"]])
    finally:
        if cache is not None:
            cache.close()


def priced(config: Config) -> Config:
    """Return the config with a published list's price for each of its models that it gives none for, if there is one.

    The embedded model has none: it is free.
    """
    url, given = url_of(config.endpoint.base_url), config.endpoint.prices
    missing = {name.removeprefix("openai:") for name in config.models.values() if name != "embedded"} - given.keys()
    listed = {name: price for name in sorted(missing) if (price := list_price(name, url)) is not None}
    endpoint = config.endpoint.model_copy(update={"prices": {**given, **listed}})
    return config.model_copy(update={"endpoint": endpoint}) if listed else config


def price_of(model: str, config: Config) -> Prices | None:
    """Return what a model's tokens cost in a priced config; None where that is not known."""
    return FREE if model == "embedded" else config.endpoint.prices.get(model.removeprefix("openai:"))


def check_objective(config: Config) -> None:
    """Raise ConfigError when a priced config asks for score per dollar and nobody can tell dollars apart."""
    price = price_of(config.model, config)
    if config.search.objective != "score-per-dollar" or (price is not None and price.cost(1, 1) > 0):
        return
    model = config.model.removeprefix("openai:")
    why = f"set endpoint.prices for {model}" if price is None else f"{model} is free: take score-per-token"
    raise ConfigError(f"search.objective: score-per-dollar needs a price; {why}")


def told_prices(config: Config) -> list[str]:
    """Say what the tokens of each model behind an endpoint cost, as far as a priced config knows."""
    names = sorted({name for name in config.models.values() if name != "embedded"})
    prices = {name.removeprefix("openai:"): price_of(name, config) for name in names}
    unknown = "not known, and so is every cost (set endpoint.prices)"
    return [f"price of {name}: {unknown if price is None else price.told}" for name, price in prices.items()]


def protocol_of(config: Config) -> Protocol:
    """Return the protocol that a config's episodes follow."""
    return Protocol(config.rounds.init, config.rounds.update, config.templates, frozenset(config.compat))


def _make(name: str, endpoint: Endpoint, cache: ResponseCache | None) -> LanguageModel:
    if name == "embedded":
        return EmbeddedModel()
    return OpenAIModel(
        name.removeprefix("openai:"),
        base_url=endpoint.base_url,
        concurrency=endpoint.concurrency,
        requests_per_minute=endpoint.requests_per_minute,
        timeout_seconds=endpoint.timeout_seconds,
        attempts=endpoint.attempts,
        max_tokens=endpoint.max_tokens,
        max_tokens_field=endpoint.max_tokens_field,
        extra_body=endpoint.extra_body,
        prices=endpoint.prices.get(name.removeprefix("openai:")),
        cache=cache,
    )

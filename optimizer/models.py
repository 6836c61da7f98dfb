"""Build the language models that a config names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ..data.registry import UnknownPartError
from ..env import Cast, Protocol, Track
from ..env.tracks import TRACKS
from ..policies.lm import Budget, Completion, LanguageModel, Ledger, Metered, Request, Usage
from ..policies.lm.base import merged
from ..policies.lm.cache import ResponseCache
from ..policies.lm.endpoint import url_of
from ..policies.lm.prices import Prices, list_price
from ..policies.lm.providers import model_named
from ..policies.text import LexicalEmbedder
from .config import Config, ConfigError


@dataclass(frozen=True, slots=True)
class Models:
    """The language models of a run."""

    cast: Cast
    proposer: LanguageModel
    per_core: bool
    """Whether a copy of all of them in a process on each core is worth while."""

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
    names, provided = config.models, config.provided
    for model in provided.values():
        model.make(config.endpoint, None)  # says what is wrong with the endpoint before any file is made
    keeps = folder is not None and config.endpoint.cache and any(model.remote for model in provided.values())
    cache = ResponseCache(folder / "cache.db") if keeps and folder is not None else None
    try:
        made = {name: model.make(config.endpoint, cache) for name, model in provided.items()}
        if repeat:
            made = {name: Repeated(model, repeat) for name, model in made.items()}
        cast = Cast(
            assistant=made[names["assistant"]],
            user=made[names["user"]],
            embedder=LexicalEmbedder(),
        )
        per_core = all(model.per_core for model in provided.values())
        yield Models(cast, made[names["proposer"]], per_core)
    finally:
        if cache is not None:
            cache.close()


def priced(config: Config) -> Config:
    """Return the config with a published list's price for each of its models that it gives none for, if there is one.

    What is not behind an endpoint has none: it is free.
    """
    url, given = url_of(config.endpoint.base_url), config.endpoint.prices
    missing = {model.model for model in config.provided.values() if model.remote} - given.keys()
    listed = {name: price for name in sorted(missing) if (price := list_price(name, url)) is not None}
    endpoint = config.endpoint.model_copy(update={"prices": {**given, **listed}})
    return config.model_copy(update={"endpoint": endpoint}) if listed else config


def price_of(model: str, config: Config) -> Prices | None:
    """Return what a model's tokens cost in a priced config; None where that is not known."""
    return model_named(model).price(config.endpoint)


def check_objective(config: Config) -> None:
    """Raise ConfigError when a priced config asks for score per dollar and nobody can tell dollars apart."""
    price = price_of(config.model, config)
    if config.search.objective != "score-per-dollar" or (price is not None and price.cost(1, 1) > 0):
        return
    model = model_named(config.model).model
    why = f"set endpoint.prices for {model}" if price is None else f"{model} is free: take score-per-token"
    raise ConfigError(f"search.objective: score-per-dollar needs a price; {why}")


def told_prices(config: Config) -> list[str]:
    """Say what the tokens of each model behind an endpoint cost, as far as a priced config knows."""
    remote = sorted((name, model.model) for name, model in config.provided.items() if model.remote)
    prices = {model: price_of(name, config) for name, model in remote}
    unknown = "not known, and so is every cost (set endpoint.prices)"
    return [f"price of {name}: {unknown if price is None else price.told}" for name, price in prices.items()]


def track_of(config: Config) -> Track:
    """Return the track that a config names. Raises ConfigError when there is none."""
    options = {"rounds": (config.rounds.init, config.rounds.update), "compat": config.compat, **config.track_options}
    try:
        return TRACKS.get(config.track)(config.templates, options)
    except (UnknownPartError, ValueError) as error:
        raise ConfigError(f"track: {error}") from None


def protocol_of(config: Config) -> Protocol:
    """Return the protocol that a config's dialogues follow."""
    return Protocol(config.rounds.init, config.rounds.update, config.templates, frozenset(config.compat))

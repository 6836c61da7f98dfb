"""Build the language models and the embedder that a config names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path

from ..data.dialogue import load
from ..data.registry import UnknownPartError
from ..data.task import Group
from ..env import Cast, DialogueTrack, Track
from ..env.agent import MODEL
from ..env.outside import Outside
from ..env.tracks import TRACKS
from ..policies.lm import Budget, LanguageModel, Metered, MeteredEmbedder
from ..policies.lm.address import url_of
from ..policies.lm.base import RequestsWith
from ..policies.lm.cache import Cache, ResponseCache, SharedCache
from ..policies.lm.prices import Prices, list_price
from ..policies.lm.providers import model_named
from .config import Config, ConfigError
from .stores import Storage


@dataclass(frozen=True, slots=True)
class Models:
    """The language models and the embedder of a run."""

    cast: Cast
    proposer: LanguageModel
    per_core: bool
    """Whether a copy of all of them in a process on each core is worth while."""
    readers: tuple[str, ...] = ()
    """The members of the assistant's family; none where it is one model."""

    def dealt(self, *parts: Sequence[Group]) -> Models:
        """Return the same models, the assistant's family dealt to the groups of each part in turn."""
        if not self.readers:
            return self
        readers = {group.id: name for part in parts for group, name in zip(part, cycle(self.readers), strict=False)}
        return replace(self, cast=replace(self.cast, readers=readers))

    async def aclose(self) -> None:
        """Release every model's connections."""
        if self.proposer not in (self.cast.assistant, self.cast.user):
            await self.proposer.aclose()
        await self.cast.aclose()

    def within(self, budget: Budget) -> MeteredModels:
        """Return the same models under one common budget."""
        models = self.cast.assistant, self.cast.user, self.proposer
        assistant, user, proposer = (Metered(model, budget=budget) for model in models)
        embedder = MeteredEmbedder(self.cast.embedder, budget=budget)
        cast = replace(self.cast, assistant=assistant, user=user, embedder=embedder)
        return MeteredModels(cast, proposer, budget)


@dataclass(frozen=True, slots=True)
class MeteredModels:
    """The models of a run under one budget."""

    cast: Cast
    proposer: LanguageModel
    budget: Budget


@contextmanager
def open_models(config: Config, *, folder: Path | None, repeat: int = 0) -> Iterator[Models]:
    """Make the config's models; where there is a ``folder``, their replies are cached in it or in the storage.

    Under another ``repeat`` the same requests are asked anew.
    Raises LanguageModelError when an endpoint cannot be spoken to at all, for example without a key.
    """
    names, provided, reach = config.models, config.provided, config.reach_of_embedder
    for model in provided.values():
        model.make(config.endpoint, None)  # says what is wrong with the endpoint before any file is made
    embedder = config.provided_embedder.make(reach, None)
    remote = any(model.remote for model in provided.values()) or config.provided_embedder.remote
    kept = folder if remote and config.endpoint.cache else None
    with nullcontext() if kept is None else closing(_open_cache(kept, config.storage)) as cache:
        by_name = {name: model.make(config.endpoint, cache) for name, model in provided.items()}
        if repeat:
            by_name = {name: RequestsWith(model, repeat=repeat) for name, model in by_name.items()}
        if cache is not None and config.provided_embedder.remote:
            embedder = config.provided_embedder.make(reach, cache)
        assistant, user = by_name[names["assistant"]], by_name[names["user"]]
        record = None if folder is None else partial(_open_record, folder, config.storage)
        cast = Cast(assistant, user, embedder, config.context_tokens, outside=Outside(record))
        yield Models(cast, by_name[names["proposer"]], config.per_core, provided[names["assistant"]].readers)


def _open_record(folder: Path, storage: Storage | None) -> Cache:
    return ResponseCache(folder / "seen.db") if storage is None else _open_cache(folder, storage)


def _open_cache(folder: Path, storage: Storage | None) -> Cache:
    if storage is None:
        return ResponseCache(folder / "cache.db")
    return SharedCache(storage.whole_url, storage.study or "")


def priced(config: Config) -> Config:
    """Return the config with a published list's price for each of its models that it gives none for, if there is one.

    What is not behind an endpoint has none: it is free.
    """
    url, embedder = config.endpoint.base_url, config.provided_embedder
    urls = {model.model: url for model in config.provided.values() if model.remote}
    urls |= {embedder.model: config.reach_of_embedder.base_url} if embedder.remote else {}
    missing = sorted(urls.keys() - config.reach_of_embedder.prices.keys())
    listed = {name: price for name in missing if (price := list_price(name, url_of(urls[name]))) is not None}
    endpoint = config.endpoint.model_copy(update={"prices": {**config.endpoint.prices, **listed}})
    return config.model_copy(update={"endpoint": endpoint}) if listed else config


def price_of(model: str, config: Config) -> Prices | None:
    """Return what a model's tokens cost in a priced config; None where that is not known."""
    return model_named(model).price(config.endpoint)


def embedder_price(config: Config) -> Prices | None:
    """Return the same of the embedder."""
    return config.provided_embedder.price(config.reach_of_embedder)


def prices_of(config: Config) -> dict[str, Prices | None]:
    """Return the same of all that is behind an endpoint, by the models' own names."""
    models = sorted((name, model.model) for name, model in config.provided.items() if model.remote)
    prices = {model: price_of(name, config) for name, model in models}
    embedder = config.provided_embedder
    return {**prices, embedder.model: embedder_price(config)} if embedder.remote else prices


def embedder_remark(config: Config) -> str | None:
    """Say that a real model's memories are searched by words alone; None where they are not."""
    if not config.provided_embedder.stand_in or model_named(config.model).stand_in:
        return None
    return (
        f"memories are searched by hashed words ({config.embedder}) and not by meaning: set embedder, for example to "
        "openai:NAME or fastembed:NAME"
    )


def check_objective(config: Config) -> None:
    """Raise ConfigError when the objective of a priced config needs dollars, and the price is not known or zero."""
    price, search = price_of(config.model, config), config.search
    if not search.aim.needs_price or (price is not None and price.cost(1, 1) > 0):
        return
    model = model_named(config.model).model
    why = f"set endpoint.prices for {model}" if price is None else f"{model} is free: take score-per-token"
    raise ConfigError(f"search.objective: {search.objective} needs a price; {why}")


def notes(config: Config) -> list[str]:
    """Say what the tokens of each model behind an endpoint cost, and what else there is to know of a run's models."""
    unknown, remark = "not known, and so is every cost (set endpoint.prices)", embedder_remark(config)
    prices = prices_of(config).items()
    lines = [f"price of {name}: {unknown if price is None else price.summary}" for name, price in prices]
    if track_of(config).agent == MODEL:
        lines.append("calls are foretold with an agent that calls no tools: one that plans by itself may take more")
    return lines if remark is None else [*lines, remark]


def pinned(track: Track, source: str) -> str:
    """Return a source of tasks with the revision that it stands for today, where it is on the hub and names none.

    Raises ScenarioError when that cannot be had.
    """
    return load.pinned(source) if isinstance(track, DialogueTrack) else source


def pins(config: Config) -> dict[str, str | None]:
    """Return what a config's data are with their revisions, by its fields. Raises ScenarioError like ``pinned``."""
    track, test_data = track_of(config), config.test_data
    return {"data": pinned(track, config.data), "test_data": test_data and pinned(track, test_data)}


def track_of(config: Config) -> Track:
    """Return the track that a config names. Raises ConfigError when there is none."""
    name, colon, agent = config.track.partition(":")
    options = {"rounds": (config.rounds.init, config.rounds.update), "compat": config.compat, **config.track_options}
    try:
        track = TRACKS.get(name)(config.templates, options | ({"agent": agent} if colon else {}))
    except (UnknownPartError, ValueError) as error:
        raise ConfigError(f"track: {error}") from None
    if track.agent == MODEL and model_named(config.model).stand_in:
        raise ConfigError(f"track: {config.track} needs a model that calls tools, which {config.model} does not")
    return track

"""What a policy is deployed with: the settings that its search has left beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ...data.errors import MnemotuneError
from ...data.record import Record, first_problem
from ...data.yaml_texts import parse_yaml, read_utf8
from ..files import load_policy
from ..lm.base import Embedder, LanguageModel
from ..lm.endpoint_config import EndpointConfig
from ..lm.providers import DEFAULT_EMBEDDER, ModelsConfig, embedder_named, model_named
from ..policy import MemoryPolicy
from .store import MemoryStore

MadeT = TypeVar("MadeT")

SETTINGS = "deployment.yaml"
BEST = "best_policy.yaml"
FORM = {"timeout_seconds", "max_tokens", "max_tokens_field", "extra_body", "structured"}
"""What of an endpoint's settings belongs to the requests, and not to the place or the run."""
LONGEST_OUTAGE_SECONDS = 60.0
"""How long one write waits for an endpoint that does not answer; its messages wait on."""


class DeploymentError(MnemotuneError, ValueError):
    """Say what is wrong with the settings of a deployment, naming the file or the option."""


class _Settings(Record):
    policy: str = ""
    model: str | None = None
    embedder: str = DEFAULT_EMBEDDER
    context_tokens: int | None = None
    endpoint: EndpointConfig = EndpointConfig()
    embedder_endpoint: EndpointConfig = EndpointConfig()


@dataclass(frozen=True, slots=True)
class Deployment:
    """A policy and what it was searched with."""

    policy: MemoryPolicy
    model: str | None = None
    """Who writes, by name; None where nothing says it."""
    embedder: str = DEFAULT_EMBEDDER
    context_tokens: int | None = None
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    """What requests to the model are like."""
    embedder_endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    """What requests to the embedder are like."""

    @property
    def remark(self) -> str:
        """What to know of who writes: that it is no real model; empty where it is one, or where none writes."""
        name, asks = self.model, "write" in self.policy.prompt_kinds or self.policy.backend is not None
        if name is None or not asks or not _named(lambda: model_named(name), "--model").stand_in:
            return ""
        return f"memories are written by the {name} model, on this machine: name another with --model openai:NAME"

    def open_model(self, base_url: str | None = None) -> LanguageModel:
        """Make the model that writes. Raises DeploymentError when nothing says which, and LanguageModelError."""
        name = self.model
        if name is None:
            raise DeploymentError("--model: say which model writes memories, for example `openai:NAME`")
        return _named(lambda: model_named(name).make(_reached(self.endpoint, base_url), None), "--model")

    def open_embedder(self, base_url: str | None = None) -> Embedder:
        """Make the embedder. Raises LanguageModelError when it cannot be had."""
        reached = _reached(self.embedder_endpoint, base_url)
        return _named(lambda: embedder_named(self.embedder).make(reached, None), "--embedder")


def read_deployment(name: Path | str, **given: Any) -> Deployment:
    """Read a policy, and the settings beside it; ``name`` is a run's folder, a policy's file, or a preset.

    What is ``given`` and not None takes the place of what the file says. Raises PolicyError and DeploymentError.
    """
    path = Path(name)
    path = path / BEST if path.is_dir() else path
    beside = path.parent / SETTINGS
    settings = _Settings()
    if path.is_file() and beside.is_file():
        read = _read(beside)
        if read.policy == path.name:
            settings = read
    known = {name: value for name, value in settings if name != "policy"}
    said = {name: value for name, value in given.items() if value is not None}
    return Deployment(load_policy(path), **known | said)


def deployment_settings(models: ModelsConfig, context_tokens: int | None) -> dict[str, Any]:
    """Return what a deployment's file says of a search's models: who they are, and what requests to them are like."""
    endpoints = {"endpoint": models.endpoint, "embedder_endpoint": models.reach_of_embedder}
    forms = {name: endpoint.model_dump(include=FORM, exclude_defaults=True) for name, endpoint in endpoints.items()}
    settings = {"model": models.model, "embedder": models.embedder, "context_tokens": context_tokens}
    return settings | {name: form for name, form in forms.items() if form}


def _read(file: Path) -> _Settings:
    try:
        return _Settings.model_validate(parse_yaml(read_utf8(file)))
    except ValidationError as error:
        raise DeploymentError(f"{file}: {first_problem(error)}") from None
    except ValueError as error:
        raise DeploymentError(f"{file}: {error}") from None


def _reached(endpoint: EndpointConfig, base_url: str | None) -> EndpointConfig:
    waits = {"longest_outage_seconds": LONGEST_OUTAGE_SECONDS, "quote_server": False}
    return endpoint.model_copy(update=waits | ({} if base_url is None else {"base_url": base_url}))


def _named(make: Callable[[], MadeT], option: str) -> MadeT:
    try:
        return make()
    except ValueError as error:
        raise DeploymentError(f"{option}: {error}") from None


@asynccontextmanager
async def deployed_store(deployment: Deployment, path: Path, *, base_url: str | None) -> AsyncIterator[MemoryStore]:
    """Open a deployment's store with its model and its embedder, and close all three at the end of the block."""
    async with AsyncExitStack() as stack:
        model = deployment.open_model(base_url)
        stack.push_async_callback(model.aclose)
        embedder = deployment.open_embedder(base_url)
        stack.push_async_callback(embedder.aclose)
        yield stack.enter_context(MemoryStore(path, deployment.policy, model, embedder))

"""Make new users with the language model that a config names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..data.json_files import write_json
from ..env.dialogue.generation.generation import Generated, GenerationProgress, GenerationSetup, generate
from ..env.dialogue.generation.plan import expected_user_calls, most_user_calls
from ..policies.lm import Budget, BudgetExhausted, EndpointDown, LanguageModel, Ledger, Limits, Metered, merged
from ..policies.lm.address import url_of
from ..policies.lm.cache import ResponseCache
from ..policies.lm.endpoint_config import EndpointConfig
from ..policies.lm.providers import DEFAULT_EMBEDDER, model_named
from ..policies.lm.remembered import Remembered
from ..policies.lm.secrets import without_login
from .config import BudgetLimits, Config, ConfigError, GenerationConfig
from .models import open_models

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be made, and where."""

    config: Config
    out: Path
    parts: Path
    """Keeps what is finished, and the replies."""
    personas: Path | None = None

    @property
    def generation(self) -> GenerationConfig:
        """The config's section, or its defaults."""
        return self.config.generation or GenerationConfig()

    @property
    def setup(self) -> GenerationSetup:
        """What users are made from."""
        section = self.generation
        return GenerationSetup(section.plan, section.texts, self.personas, frozenset(self.config.compat))

    @property
    def expected_calls(self) -> int:
        """Calls of all users when every reply is right the first time, about."""
        plan = self.generation.plan
        return plan.users * expected_user_calls(plan, personas=self.personas is not None)

    @property
    def most_calls(self) -> int:
        """The most calls of all users."""
        plan = self.generation.plan
        return plan.users * most_user_calls(plan, personas=self.personas is not None)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The users, and what this run spent on them."""

    order: Order
    generated: Generated
    ledger: Ledger
    wall_s: float

    @property
    def complete(self) -> bool:
        """Whether there are as many users as were asked for."""
        return not self.generated.dropped

    def as_json(self) -> dict[str, Any]:
        """Return the delivery as plain JSON values."""
        total = self.ledger.total
        return {
            "out": str(self.order.out),
            "parts": str(self.order.parts),
            "model": self.order.config.model,
            "seed": self.order.generation.seed,
            "asked": self.order.generation.users,
            "users": [scenario.id for scenario in self.generated.scenarios],
            "dropped": [asdict(user) for user in self.generated.dropped],
            "calls": total.calls,
            "cached": total.cached,
            "expected_calls": self.order.expected_calls,
            "most_calls": self.order.most_calls,
            "tokens": {"input": total.input_tokens, "output": total.output_tokens},
            "cost_usd": total.cost_usd,
            "wall_s": round(self.wall_s, 3),
        }


def parts_of(out: Path) -> Path:
    """Return where the parts of a file of users are kept by default."""
    return out.with_name(f"{out.name.removesuffix('.json').removesuffix('.jsonl')}.parts")


def make_users(order: Order, *, tell: Callable[[GenerationProgress, Ledger], None] = lambda _, __: None) -> Delivery:
    """Make the users and write those that came out, if any.

    Raises ConfigError, PersonaError and GenerationError before any call, and BudgetExhausted and EndpointDown, which
    say what is finished and how to go on; the file is not written then.
    """
    began, config = time.monotonic(), order.config
    if order.out.is_dir():
        raise ConfigError(f"{order.out}: is a folder; name a file to write")
    order.out.parent.mkdir(parents=True, exist_ok=True)

    async def make(model: LanguageModel, spent: Callable[[], Ledger]) -> Generated:
        return await generate(
            order.setup,
            model,
            order.parts,
            model_name=config.model,
            tell=lambda progress: tell(progress, spent()),
        )

    try:
        generated, ledger = paid_once(config, order.parts, order.generation.budget, make)
    except BudgetExhausted as error:
        raise BudgetExhausted(_stopped(order, error, "with a budget of its own")) from None
    except EndpointDown as error:
        raise EndpointDown(_stopped(order, error, "once the endpoint answers")) from error
    if generated.scenarios:
        write_json(order.out, [scenario.model_dump(mode="json") for scenario in generated.scenarios])
    return Delivery(order, generated, ledger, time.monotonic() - began)


def paid_once(
    config: Config,
    parts: Path,
    budget: BudgetLimits,
    work: Callable[[LanguageModel, Callable[[], Ledger]], Awaitable[T]],
) -> tuple[T, Ledger]:
    """Do work with a config's model within a budget; its replies are kept in the folder ``parts``, and paid for once.

    ``work`` is given the model, and what tells the spend so far. Return what it returns, and the spend. Raises
    BudgetExhausted and EndpointDown.
    """
    others = {"user_model": None, "proposer_model": None, "embedder": DEFAULT_EMBEDDER}
    kept = model_named(config.model).remote and config.endpoint.cache
    cache = parts / "cache.db" if kept else ":memory:"  # free replies, and unwanted ones, last for the run
    with open_models(config.model_copy(update=others), folder=None) as models, closing(ResponseCache(cache)) as replies:
        metered = Metered(models.cast.assistant, budget=Budget(Limits(**budget.model_dump())))
        model = Remembered(metered, replies, where=_where(config.endpoint))

        def spent() -> Ledger:
            return merged([metered.ledger, model.ledger])

        async def run() -> T:
            try:
                done = await work(model, spent)
                await model.settle()
                return done
            except BudgetExhausted:
                await model.settle()  # what is under way is paid for
                raise
            finally:
                await model.abandon()
                await models.aclose()

        return asyncio.run(run()), spent()


def _where(endpoint: EndpointConfig) -> str:
    """Tell endpoints apart by all that decides about a reply besides the request."""
    where = f"{without_login(url_of(endpoint.base_url))} {endpoint.extra_body}"
    return where if endpoint.max_tokens is None else f"{where} {endpoint.max_tokens}"


def _stopped(order: Order, error: Exception, when: str) -> str:
    finished = len(list(order.parts.glob("*/scenario.json")))
    return (
        f"{error}; {finished} of {order.generation.users} users are finished, and what is done is kept in "
        f"{order.parts}: the same command goes on from there {when}"
    )

"""What tokens cost: as a config says, or as the provider's list says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date as Date  # noqa: N812 - a field is called date
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from ...data.record import Record
from .address import host_of

LISTED = "litellm/model_prices_and_context_window_backup.json"
"""Read as a file: to import litellm takes seconds, and looks for a newer list in the network."""
PROVIDERS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
    "api.deepseek.com": "deepseek",
    "api.mistral.ai": "mistral",
    "api.groq.com": "groq",
    "api.x.ai": "xai",
    "api.together.xyz": "together_ai",
    "api.together.ai": "together_ai",
    "api.cerebras.ai": "cerebras",
}
"""Whose list holds at which host. Elsewhere, behind a proxy or on one's own server, no list says what a token costs."""


class Prices(Record):
    """What a model's tokens cost, in US dollars per million, without discounts for repeated ones."""

    input: Annotated[float, Field(ge=0)]
    """Of what the model reads."""
    output: Annotated[float, Field(ge=0)]
    """Of what it writes."""
    source: str | None = None
    """The published list that the two are from, with its version."""
    date: Annotated[Date | None, Field(validate_default=True)] = None
    """Day on which the two were read; needed unless ``source`` names a list with its version."""

    def cost(self, input_tokens: float, output_tokens: float) -> float:
        """Return US dollars."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6

    @property
    def summary(self) -> str:
        """The two with where they are from."""
        source = f"as of {self.date}" if self.source is None else f"{self.source}'s list, which can be out of date"
        return f"${self.input:g} in and ${self.output:g} out per million tokens ({source})"

    @field_validator("date")
    @classmethod
    def _check_date(cls, given: Date | None, info: ValidationInfo) -> Date | None:
        if given is None and info.data.get("source") is None:
            raise ValueError("say on which day the two were read from the price list")
        return given


def list_price(model: str, url: str) -> Prices | None:
    """Return what a model's tokens cost at an endpoint by its provider's list; None where no list says so.

    Higher prices of very long prompts, and prices of batches and of priority, are left out. The list gives zero for
    both prices of new and experimental models: that is no price.
    """
    provider = PROVIDERS.get(host_of(url))
    if provider is None:
        return None
    version, models = _listed()
    for name in (f"{provider}/{model}", model):
        row = models.get(name, {})
        said = 0.0 if row.get("mode") == "embedding" else None  # an embedder says nothing that costs
        prices = [row.get("input_cost_per_token"), row.get("output_cost_per_token", said)]
        known = [round(1e6 * price, 6) for price in prices if isinstance(price, float | int)]
        if row.get("litellm_provider") == provider and len(known) == len(prices) and any(prices):
            return Prices(input=known[0], output=known[1], source=f"litellm {version}")
    return None


@cache
def _listed() -> tuple[str, Mapping[str, Mapping[str, Any]]]:
    """Return the list that comes with litellm, which DSPy brings along, and its version; empty where it is missing."""
    try:
        installed = distribution("litellm")
        text = Path(str(installed.locate_file(LISTED))).read_text(encoding="utf-8")
    except (PackageNotFoundError, OSError):
        return "", {}
    return installed.version, json.loads(text)

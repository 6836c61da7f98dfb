"""What tokens cost: as a config says, as a provider's list says, or not known."""

from __future__ import annotations

from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mnemotune.policies.lm import prices
from mnemotune.policies.lm.prices import PROVIDERS, Prices, list_price

OFFICIAL = "https://api.openai.com/v1"
LIST: dict[str, dict[str, Any]] = {
    "small": {"litellm_provider": "openai", "input_cost_per_token": 4e-07, "output_cost_per_token": 1.6e-06},
    "mistral/small": {"litellm_provider": "mistral", "input_cost_per_token": 1e-07, "output_cost_per_token": 3e-07},
    "unpriced": {"litellm_provider": "openai", "input_cost_per_token": 0, "output_cost_per_token": 0.0},
    "free-to-read": {"litellm_provider": "openai", "input_cost_per_token": 0, "output_cost_per_token": 2e-06},
    "picture": {"litellm_provider": "openai", "output_cost_per_image": 0.04},
    "half": {"litellm_provider": "openai", "input_cost_per_token": 1e-06},
    "azure-only": {"litellm_provider": "azure", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06},
}


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "_listed", lambda: ("9.9", LIST))


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize(
    ("model", "url", "found"),
    [
        ("small", OFFICIAL, (0.4, 1.6)),
        ("small", "https://api.mistral.ai/v1", (0.1, 0.3)),
        ("unpriced", OFFICIAL, None),
        ("free-to-read", OFFICIAL, (0.0, 2.0)),
        ("picture", OFFICIAL, None),
        ("half", OFFICIAL, None),
        ("azure-only", OFFICIAL, None),
        ("nobody-has-it", OFFICIAL, None),
        ("small", "http://localhost:8000/v1", None),
        ("small", "https://api.openai.com.example.org/v1", None),
        ("small", "no url", None),
    ],
)
def test_a_list_holds_for_the_providers_own_host_alone(model: str, url: str, found: tuple[float, float] | None) -> None:
    price = list_price(model, url)
    assert (None if price is None else (price.input, price.output)) == found
    assert price is None or price.source == "litellm 9.9"


def test_the_list_that_is_installed_is_read_without_a_network() -> None:
    price = list_price("gpt-4.1-mini", OFFICIAL)
    assert price is not None
    assert price.source == f"litellm {version('litellm')}"
    assert 0 < price.input <= price.output < 1000


def test_what_an_embedder_says_costs_nothing() -> None:
    price = list_price("mistral-embed", "https://api.mistral.ai/v1")
    assert price is not None
    assert (price.input > 0, price.output) == (True, 0)


def test_without_a_list_a_price_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    prices._listed.cache_clear()
    monkeypatch.setattr(prices, "distribution", missing)
    assert list_price("gpt-4.1-mini", OFFICIAL) is None
    prices._listed.cache_clear()


@given(model=st.text(), host=st.sampled_from(sorted(PROVIDERS)))
def test_a_listed_price_is_a_price_or_not_known(model: str, host: str) -> None:
    price = list_price(model, f"https://{host}/v1")
    assert price is None or min(price.input, price.output) >= 0


def test_a_price_says_where_it_is_from() -> None:
    assert Prices(input=0.4, output=1.6, date=date(2026, 11, 1)).summary == (
        "$0.4 in and $1.6 out per million tokens (as of 2026-11-01)"
    )
    assert "litellm 9.9's list, which can be out of date" in Prices(input=1, output=2, source="litellm 9.9").summary


def test_a_price_without_a_date_or_a_list_is_refused() -> None:
    with pytest.raises(ValidationError, match="say on which day"):
        Prices(input=1, output=2)

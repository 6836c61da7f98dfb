"""The language models that a config names."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.task import Group
from mnemotune.env import DialogueTrack
from mnemotune.env.dialogue.protocol import Protocol
from mnemotune.optimizer import workers
from mnemotune.optimizer.config import Config, ConfigError, parse_config
from mnemotune.optimizer.models import MeteredModels, open_models, track_of
from mnemotune.optimizer.workers import open_pool
from mnemotune.policies.lm import Budget, BudgetExhausted, LanguageModelError, Limits, Message, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.embedded.readers import READERS
from mnemotune.policies.prompts import Templates

LEAST = "{data: base, splits: {train: 1, validation: 2, test: 2}, seed_policy: native}"
LOCAL = "endpoint.base_url=http://127.0.0.1:9/v1"
PRICES = "endpoint.prices={small: {input: 2, output: 8, date: 2026-10-01}}"
HELLO = Request((Message("user", "Hello there."),), role="reply", max_tokens=50)


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def config(*overrides: str) -> Config:
    return parse_config(LEAST, where="my.yaml", overrides=overrides)


def dollars(model: Any) -> float | None:
    """Return the most that one attempt at HELLO can cost."""
    cost: float | None = model.worst_case(HELLO).cost_usd
    return cost


def test_the_embedded_model_plays_all_parts_by_default_and_is_free() -> None:
    with open_models(config(), folder=None) as models:
        assert isinstance(models.cast.assistant, EmbeddedModel)
        assert models.cast.user is models.proposer is models.cast.assistant
        assert dollars(models.cast.assistant) == 0


def test_each_part_can_have_its_own_model() -> None:
    given = config("model=openai:small", "user_model=embedded", "proposer_model=openai:large", LOCAL)
    with open_models(given, folder=None) as models:
        assert models.cast.assistant.name == "small"
        assert models.cast.user.name == "embedded"
        assert models.proposer.name == "large"


def groups(prefix: str, count: int) -> list[Group]:
    return [Group(f"{prefix}{number}", ()) for number in range(count)]


@given(sizes=st.lists(st.integers(0, 23), min_size=1, max_size=3))
def test_a_family_is_dealt_to_the_groups_of_each_split_evenly(sizes: list[int]) -> None:
    parts = [groups(str(place), size) for place, size in enumerate(sizes)]
    with open_models(config(), folder=None) as models:
        readers = models.dealt(*parts).cast.readers
    assert readers.keys() == {group.id for part in parts for group in part}
    for part in parts:
        dealt = Counter(readers[group.id] for group in part)
        assert max(dealt.values(), default=0) - min((dealt[name] for name in READERS), default=0) <= 1


def test_one_reader_and_a_model_behind_an_endpoint_are_dealt_to_nobody() -> None:
    for chosen in (config("model=embedded:gpt-4o-mini"), config("model=openai:small", LOCAL)):
        with open_models(chosen, folder=None) as models:
            assert models.dealt(groups("user", 5)) is models


@pytest.mark.parametrize("override", ["workers={runner: processes, count: 2}", "embedder=openai:small"])
def test_a_worker_has_the_readers_that_were_dealt(override: str) -> None:
    chosen = config("workers={runner: processes, count: 2}", override, LOCAL)
    setups = []
    with pytest.MonkeyPatch.context() as patched, open_models(chosen, folder=None) as models:
        patched.setattr(workers, "processes", lambda setup, **_: setups.append(setup))
        open_pool(chosen, models.dealt(groups("user", 5)), folder=None, calls=1e9, most=5)
        with setups[0]() as (_, cast):
            assert cast.readers == dict(zip([f"user{n}" for n in range(5)], READERS, strict=True))


def test_parts_of_the_same_model_share_one_connection() -> None:
    with open_models(config("model=openai:small", LOCAL), folder=None) as models:
        assert models.cast.user is models.proposer is models.cast.assistant


def test_each_model_has_its_own_price_and_one_without_has_no_known_one() -> None:
    prices = "endpoint.prices.large={input: 20, output: 80, date: 2026-10-01}"
    given = config(
        "model=openai:small", "user_model=openai:other", "proposer_model=openai:large", LOCAL, PRICES, prices
    )
    with open_models(given, folder=None) as models:
        small, large = dollars(models.cast.assistant), dollars(models.proposer)
        assert small is not None
        assert large == pytest.approx(10 * small)
        assert dollars(models.cast.user) is None


def test_the_longest_reply_is_the_configs_and_so_is_its_price() -> None:
    given = config("model=openai:small", "endpoint.max_tokens=9000", LOCAL, PRICES)
    with open_models(given, folder=None) as models:
        assert models.cast.assistant.worst_case(HELLO).output_tokens == 9000


def test_asking_anew_costs_the_same() -> None:
    given = config("model=openai:small", LOCAL, PRICES)
    with open_models(given, folder=None) as models, open_models(given, folder=None, repeat=1) as again:
        assert dollars(again.cast.assistant) == dollars(models.cast.assistant) is not None


def test_the_official_endpoint_without_a_key_is_refused_with_what_to_set(tmp_path: Path) -> None:
    with (
        pytest.raises(LanguageModelError, match="OPENAI_API_KEY"),
        open_models(config("model=openai:small"), folder=tmp_path),
    ):
        pass


def test_the_configs_address_comes_before_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "ftp://never.used")
    with open_models(config("model=openai:small", LOCAL), folder=None) as models:
        assert models.cast.assistant.name == "small"
    with (
        pytest.raises(LanguageModelError, match=r"ftp://never\.used"),
        open_models(config("model=openai:x"), folder=None),
    ):
        pass


@pytest.mark.parametrize(
    ("overrides", "kept"),
    [
        (["embedder=openai:small"], True),
        (["model=embedded"], False),
        (["model=openai:small"], True),
        (["user_model=openai:small"], True),
        (["model=openai:small", "endpoint.cache=false"], False),
    ],
)
def test_replies_are_kept_in_the_folder_only_where_they_cost_something(
    overrides: list[str], kept: bool, tmp_path: Path
) -> None:
    with open_models(config(LOCAL, *overrides), folder=tmp_path):
        assert (tmp_path / "cache.db").exists() == kept


def within(limits: Limits, *overrides: str) -> MeteredModels:
    with open_models(config(*overrides), folder=None) as models:
        return models.within(Budget(limits))


def ask(model: Any) -> None:
    asyncio.run(model.complete(HELLO))


def test_all_parts_spend_from_one_budget() -> None:
    metered = within(Limits(calls=3))
    for model in (metered.cast.assistant, metered.cast.user, metered.proposer):
        ask(model)
    for model in (metered.cast.assistant, metered.cast.user, metered.proposer):
        with pytest.raises(BudgetExhausted, match="3 calls"):
            ask(model)
    assert metered.budget.ledger.total.calls == metered.budget.calls == 3


def test_two_budgets_on_the_same_models_are_independent() -> None:
    with open_models(config(), folder=None) as models:
        first, second = models.within(Budget(Limits(calls=1))), models.within(Budget(Limits(calls=1)))
    ask(first.cast.assistant)
    ask(second.cast.assistant)
    assert first.budget.calls == second.budget.calls == 1


def test_a_budget_in_dollars_needs_prices() -> None:
    unknown = within(Limits(usd=1.0), "model=openai:small", LOCAL)
    with pytest.raises(BudgetExhausted, match="prices"):
        ask(unknown.cast.assistant)


def test_a_call_that_could_cost_more_than_is_left_is_not_made() -> None:
    metered = within(Limits(usd=0.0001), "model=openai:small", LOCAL, PRICES)
    with pytest.raises(BudgetExhausted, match="overshoot"):
        ask(metered.cast.assistant)  # the endpoint does not exist: asking it would be another error
    assert metered.budget.calls == 0


def protocol_of(settings: Config) -> Protocol:
    track = track_of(settings)
    assert isinstance(track, DialogueTrack)
    return track.protocol


def test_a_track_s_name_may_say_who_acts_there() -> None:
    names = ("tools", "tools:model", "web:model")
    named = {name: track_of(config(f"track={name}", "model=openai:large")) for name in names}
    assert {name: (track.name, track.agent) for name, track in named.items()} == {
        "tools": ("tools", "planned"),
        "tools:model": ("tools", "model"),
        "web:model": ("web", "model"),
    }


@pytest.mark.parametrize(
    ("track", "says"),
    [
        ("tools:model", "track: tools:model needs a model that calls tools, which embedded does not"),
        ("tools:robot", "track: the tools track has no agent 'robot'; there are planned, model"),
        ("cobweb:model", "track: there is no track 'cobweb'"),
        ("web:model", "track: web:model needs a model that calls tools, which embedded does not"),
    ],
)
def test_who_cannot_act_is_refused(track: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        track_of(config(f"track={track}"))


def test_the_protocol_has_the_configs_rounds_and_the_bundled_texts() -> None:
    protocol = protocol_of(config("rounds={init: 3, update: 4}"))
    assert (protocol.rounds_init, protocol.rounds_update) == (3, 4)
    assert protocol.templates == Templates.bundled()


def test_a_file_of_texts_replaces_the_texts_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "texts.yaml"
    file.write_text("answer: 'Choose! {query} {choices}'\n", encoding="utf-8")
    templates = protocol_of(config(f"templates={file}")).templates
    assert templates.answer == "Choose! {query} {choices}"
    assert templates.probe == Templates.bundled().probe


@pytest.mark.parametrize("text", [None, "answer: 'no slots'", "anwser: '{query} {choices}'", "[1", "- a"])
def test_texts_that_cannot_be_used_are_a_config_error_that_names_their_file(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "texts.yaml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"texts\.yaml"):
        protocol_of(config(f"templates={file}"))

"""A run whose embedder is behind an endpoint.

1. No text is embedded twice, whatever searches overlap, however often the run is stopped.
2. Each call of the embedder is in the budget, which is not overshot.
3. What memories were searched with is in the run's config, in its report and in its result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastapi
import pytest

from loopback import on_loopback
from mnemotune.optimizer.config import Config
from mnemotune.optimizer.search.outcome import Outcome, open_run
from mnemotune.policies.lm.lexical import LexicalEmbedder
from running import TRIAL_2, Screen, Stop, assert_same_study, go, go_on, smallest_budget, spent, watch_calls

PRICE = "endpoint.prices={wide: {input: 2, output: 0, date: 2026-10-01}}"


class EmbeddingServer:
    """Gives lexical vectors, and remembers what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[list[str]] = []

    async def handle(self, request: fastapi.Request) -> fastapi.Response:
        texts = (await request.json())["input"]
        self.asked.append(texts)
        rows = (await LexicalEmbedder(dimensions=64).embed(texts)).vectors
        data = [{"index": i, "embedding": row.tolist()} for i, row in enumerate(rows)]
        return fastapi.responses.JSONResponse({"data": data, "usage": {"prompt_tokens": 3 * len(texts)}})

    @property
    def most(self) -> int:
        """How often the text was embedded that was embedded most often."""
        return max(Counter(text for texts in self.asked for text in texts).values())


@pytest.fixture
def embeddings() -> Iterator[EmbeddingServer]:
    with on_loopback(EmbeddingServer) as served:
        yield served


@pytest.fixture
def searching(configured: Callable[..., Config], embeddings: EmbeddingServer) -> Callable[..., Config]:
    """Make the config of a small run whose seed policy searches its memories."""
    seed = "{write: {mode: verbatim}, update_every: 2, buffer_size: 0, store: external, top_k: 2}"
    own = [f"seed_policy={seed}", "embedder=openai:wide", f"embedder_endpoint.base_url={embeddings.url}", PRICE]
    return lambda *overrides: configured(*own, *overrides)


def embedded_calls(outcome: Outcome) -> Any:
    return (outcome.search_spend.by_role["embed"], outcome.test_spend.by_role["embed"])


def test_a_stopped_run_pays_for_no_text_twice_invariants_1_and_3(
    searching: Callable[..., Config], embeddings: EmbeddingServer, runs: Path, kit: Any
) -> None:
    config = searching("tracking=none")
    whole = go(config, runs / "whole", views=True)
    calls = len(embeddings.asked)
    assert embeddings.most == 1
    texts = sum(map(len, embeddings.asked))
    embeddings.asked.clear()
    with pytest.raises(Stop):
        go(config, runs / "run", Screen(TRIAL_2))
    resumed = go_on(runs / "run")
    assert embeddings.most == 1
    assert len(embeddings.asked) <= calls + 1, "a call that was under way when the run stopped"
    assert_same_study(resumed, whole, kit)
    search, test = embedded_calls(whole)
    assert min(search.calls, test.calls) > 0
    assert search.cost_usd + test.cost_usd == pytest.approx(6e-6 * texts)
    assert open_run(whole.folder).config.embedder == whole.as_json()["embedder"] == "openai:wide"
    assert "embedder openai:wide" in (whole.folder / "report.html").read_text(encoding="utf-8")


def test_the_embedders_calls_are_in_the_budget_invariant_2(
    searching: Callable[..., Config], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = smallest_budget(searching, runs / "none") + 20
    made = watch_calls(monkeypatch)
    outcome = go(searching(f"search.budget.calls={calls}", "search.generations=50"), runs / "run")
    search, test = embedded_calls(outcome)
    assert made["all"] + search.calls + test.calls <= spent(outcome) <= calls, "a race that is lost ends calls"
    assert outcome.test.done

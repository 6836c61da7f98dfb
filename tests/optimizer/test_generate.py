"""What a model is paid for once, outside of runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastapi
import pytest

from loopback import on_loopback
from mnemotune.optimizer.config import BudgetLimits, Config
from mnemotune.optimizer.generate import paid_once
from mnemotune.policies.lm import LanguageModel, Ledger, Message, Request

CONFIG = {"model": "openai:m", "data": "base", "seed_policy": "awi", "splits": {"train": 2, "validation": 2, "test": 2}}


class SaysWhere:
    """Replies with its own address."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked = 0

    async def handle(self, request: fastapi.Request) -> fastapi.Response:
        self.asked += 1
        return fastapi.responses.JSONResponse({"choices": [{"message": {"role": "assistant", "content": self.url}}]})


def test_a_reply_is_kept_for_the_endpoint_that_gave_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(model: LanguageModel, spent: Callable[[], Ledger]) -> str:
        return (await model.complete(Request((Message("user", "Invent a person."),), "generate"))).text

    config: Any = Config.model_validate(CONFIG)
    with on_loopback(SaysWhere) as one, on_loopback(SaysWhere) as other:
        for server in (one, other, one):
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            assert paid_once(config, tmp_path, BudgetLimits(), work)[0] == server.url
        assert one.asked == other.asked == 1

"""A record of containers for all tests of the track: what was seen in one test needs no container in another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from mnemotune.env.outside import Outside
from mnemotune.policies.lm.cache import ResponseCache


@pytest.fixture(scope="session")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("swe") / "seen.db"


@pytest.fixture
async def outside(record: Path) -> AsyncIterator[Outside]:
    kept = Outside(partial(ResponseCache, record))
    yield kept
    await kept.aclose()

"""Facts that are forgotten are looked for wherever they could be left."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.data.dialogue.load import load_scenarios
from mnemotune.experiments.reliability import deletion
from mnemotune.policies.deploy import deployment
from mnemotune.policies.deploy.store import MemoryStore
from mnemotune.policies.lm.endpoint_config import EndpointConfig


async def test_nothing_states_a_fact_that_was_forgotten(tmp_path: Path) -> None:
    users = load_scenarios("generated:1@3:b")
    done = await deletion.delete("rag", users, tmp_path)
    assert done.facts == len(deletion.facts_of(users[0])) > 10
    assert 0 < done.held <= done.facts
    assert done.removed > 0
    assert (done.in_memory, done.in_process, done.in_files, done.in_log) == (0, 0, 0, 0)


async def test_a_store_that_forgets_nothing_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def pretend(self: MemoryStore, user: str, fact: str) -> list[str]:
        texts = (item.text for item in await self.memory(user).listing())
        return [next(texts)]

    monkeypatch.setattr(MemoryStore, "forget", pretend)
    monkeypatch.setattr(deletion, "FACTS_A_USER", 3)
    done = await deletion.delete("rag", load_scenarios("generated:1@3:b"), tmp_path)
    assert done.in_memory == done.held > 0
    assert done.in_files == 0, "what is still remembered is no leak of the files"


async def test_a_store_that_keeps_a_list_of_what_it_forgot_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget = MemoryStore.forget

    async def noted(self: MemoryStore, user: str, fact: str) -> list[str]:
        gone = await forget(self, user, fact)
        vars(self).setdefault("gone", []).extend(gone)
        return gone

    monkeypatch.setattr(MemoryStore, "forget", noted)
    monkeypatch.setattr(deletion, "FACTS_A_USER", 3)
    done = await deletion.delete("rag", load_scenarios("generated:1@3:b"), tmp_path)
    assert (done.in_memory, done.in_process) == (0, done.held)


async def test_a_log_that_quotes_the_server_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "_reached", lambda _, url: EndpointConfig(base_url=url))
    monkeypatch.setattr(deletion, "FAILS_EACH", 4)
    done = await deletion.delete("awe", load_scenarios("generated:1@3:b"), tmp_path)
    assert done.in_log > 0
    assert (done.in_memory, done.in_files) == (0, 0)

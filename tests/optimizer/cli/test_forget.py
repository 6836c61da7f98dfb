"""``mnemotune forget``: in a store, and in what a run keeps."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mnemotune.env.failed_checks import CALLS, read_calls
from mnemotune.optimizer.forget import FORGOTTEN
from mnemotune.optimizer.search.outcome import open_run
from mnemotune.policies import load_policy
from mnemotune.policies.deploy import MemoryStore
from mnemotune.policies.lm import Completion, Message, Usage
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder

Cli = Callable[..., Any]
FACT = "lives in Lisbon with a heron"
HEARD = Message("user", "My sister lives in Lisbon with a heron.")


@pytest.mark.parametrize("preset", ["rag", "mem0"])
async def test_a_users_store_forgets_without_a_policy_or_a_model(cli: Cli, preset: str) -> None:
    with MemoryStore("memories.db", load_policy(preset), EmbeddedModel(), LexicalEmbedder()) as store:
        for user in ("ann", "ben"):
            await store.memory(user).observe([HEARD])
    out = await in_a_thread(cli, "forget", FACT, "--user", "ann")
    assert out == "memories.db, ann: texts removed: 1\n- My sister lives in Lisbon with a heron.\n"
    with MemoryStore("memories.db", load_policy(preset), EmbeddedModel(), LexicalEmbedder()) as store:
        left = [len((await store.memory(user).context("", tokens=None)).messages) for user in ("ann", "ben")]
    assert left == [0, 1]


async def in_a_thread(cli: Cli, *arguments: str) -> str:
    """Run a command that has an event loop of its own."""
    import asyncio

    return str((await asyncio.to_thread(cli, *arguments)).succeeded().out)


def test_what_is_missing_is_told(cli: Cli) -> None:
    assert "say whose memory forgets it, or which run" in cli("forget", FACT).err
    assert cli("forget", FACT, "--user", "ann").refused() == "memories.db: no such store; name it with --store"
    with MemoryStore("memories.db", load_policy("rag"), EmbeddedModel(), LexicalEmbedder()) as store:
        store.memory("ann").queue([HEARD])
    assert cli("forget", FACT, "--user", "anna").refused() == (
        "memories.db: keeps nothing of user anna; the nearest is ann"
    )
    assert "no such run folder" in cli("forget", FACT, "--run", "nowhere").refused()
    Path("empty").mkdir()
    assert "has no replies and no records of a run" in cli("forget", FACT, "--run", "empty").refused()


def test_a_run_forgets_in_its_cache_its_records_and_its_report(cli: Cli, finished: Path) -> None:
    with gzip.open(finished / "test" / "evolved" / CALLS) as file:
        heard = [m["content"] for m in json.load(file)["messages"] if m["role"] == "user" and len(m["content"]) > 80]
    fact, other = heard[0].split("\n")[-1], heard[-1].split("\n")[-1]
    cache = ResponseCache(finished / "cache.db")
    cache.put("told", Completion(f"As you said: {fact}", Usage(1, 1)))
    cache.put("other", Completion("A robin.", Usage(1, 1)))
    cache.close()
    pages = [*Path("runs").rglob("artifacts/report.html")]
    done = cli("forget", fact, "--run", finished).succeeded()
    assert done.out.startswith(f"{finished}: removed kept replies: 1, kept vectors: 0, texts of records: ")
    assert pages
    assert not any(page.exists() for page in pages), "MLflow keeps no earlier report"
    contents = [path.read_bytes() for path in finished.rglob("*") if path.is_file() and path.suffix != ".gz"]
    assert not any(json.dumps(fact)[1:-1].encode() in content for content in contents)
    calls = json.dumps(read_calls(finished / "test" / "evolved"))
    assert json.dumps(fact)[1:-1] not in calls
    assert json.dumps(other)[1:-1] in calls
    assert cli("show", finished).succeeded()


def test_a_run_forgets_what_its_study_quotes(cli: Cli, finished: Path) -> None:
    study = open_run(finished).study
    quoted = next(trial for trial in study.trials if trial.evidence)
    fact = max(quoted.evidence[0].text.splitlines(), key=len)
    cli("forget", fact, "--run", finished)
    after = open_run(finished).study.trials
    assert after[quoted.number].evidence[0].text == FORGOTTEN
    assert [replace(trial, evidence=()) for trial in after] == [replace(trial, evidence=()) for trial in study.trials]
    assert fact not in str(after)
    assert json.dumps(json.dumps(fact))[3:-3].encode() not in (finished / "study.db").read_bytes()


def test_what_cannot_be_taken_out_is_named(cli: Cli, finished: Path) -> None:
    (finished / "notes.txt").write_text(f"She {FACT}.")
    done = cli("forget", FACT, "--run", finished)
    assert done.code == 1
    assert done.err.splitlines()[-2:] == ["still in:", f"- {finished / 'notes.txt'}"]

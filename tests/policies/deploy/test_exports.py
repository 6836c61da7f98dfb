"""Policies as settings of mem0 and LangMem; with the real packages where they are installed."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from mnemotune.policies import load_policy, presets
from mnemotune.policies.deploy.deployment import Deployment
from mnemotune.policies.deploy.exports import EXPORTS, Export

OPENAI = {"model": "openai:gpt-4.1-mini", "embedder": "openai:text-embedding-3-small", "context_tokens": 1000}


def exported(preset: str, to: str, **changes: Any) -> Export:
    policy = load_policy(preset)
    return EXPORTS[to](Deployment(policy.model_copy(update=changes), **OPENAI))


def fields(export: Export) -> list[str]:
    return [line.partition(":")[0].partition(" ")[0] for line in export.lost]


def test_facts_become_mem0_s_instructions_and_numbers() -> None:
    export = exported("awe", "mem0")
    instructions = export.settings["config"].pop("custom_instructions")
    assert instructions.startswith("Read the conversation and note the facts")
    assert "{" not in instructions
    assert export.settings == {
        "config": {
            "llm": {"provider": "openai", "config": {"model": "gpt-4.1-mini"}},
            "embedder": {"provider": "openai", "config": {"model": "text-embedding-3-small"}},
        },
        "add": {"infer": True},
        "search": {"top_k": 30, "threshold": 0.0},
    }
    assert "context_tokens = 1000: mem0 has no budget of tokens; cut what comes back" in export.lost
    assert fields(export) == [
        *("context_tokens", "prompts.write", "update_every", "buffer_size", "buffer_share", "read.order"),
        *("prompts.reply", "prompts.merge"),
    ]


def test_verbatim_messages_are_added_as_they_are_to_mem0_and_cannot_be_to_langmem() -> None:
    export = exported("rag", "mem0")
    assert export.settings["add"] == {"infer": False}
    assert "custom_instructions" not in export.settings["config"]
    assert "write.mode" in fields(exported("rag", "langmem"))


def test_facts_become_a_manager_of_langmem() -> None:
    export = exported("awe", "langmem")
    manager = export.settings["create_memory_store_manager"]
    assert (manager["model"], manager["query_limit"], manager["enable_deletes"]) == ("openai:gpt-4.1-mini", 30, True)
    assert export.settings["index"] == {"embed": "openai:text-embedding-3-small"}


@pytest.mark.parametrize("to", EXPORTS)
@pytest.mark.parametrize("preset", presets())
def test_every_preset_says_what_is_lost_of_it(preset: str, to: str) -> None:
    export = exported(preset, to)
    assert len({*fields(export)}) == len(export.lost)
    if load_policy(preset).write.mode in ("none", "profile", "summary"):
        assert "write.mode" in fields(export)


def test_a_model_of_ours_is_not_named_to_others() -> None:
    export = EXPORTS["mem0"](Deployment(load_policy("awe"), "embedded", "lexical:1024"))
    assert {*export.settings["config"]} == {"custom_instructions"}
    assert {"model: embedded is mnemotune's own; choose one of mem0's"} <= {*export.lost}


@pytest.mark.packages
@pytest.mark.parametrize("preset", ["awe", "awi", "rag"])
def test_mem0_takes_its_settings(preset: str) -> None:
    mem0 = pytest.importorskip("mem0", reason="needs mem0ai 2")
    from mem0.configs.base import MemoryConfig

    settings = exported(preset, "mem0").settings
    assert MemoryConfig(**settings["config"]).llm.config["model"] == "gpt-4.1-mini"
    inspect.signature(mem0.Memory.add).bind(None, [], user_id="ann", **settings["add"])
    inspect.signature(mem0.Memory.search).bind(None, "", filters={}, **settings["search"])


@pytest.mark.packages
@pytest.mark.parametrize("preset", ["awe", "awi"])
def test_langmem_takes_its_settings(preset: str) -> None:
    langmem = pytest.importorskip("langmem", reason="needs langmem")
    given = dict(exported(preset, "langmem").settings["create_memory_store_manager"])
    inspect.signature(langmem.create_memory_store_manager).bind(given.pop("model"), **given)

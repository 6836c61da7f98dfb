"""Policies as settings of other memories: what can be said there, and a plain list of what cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..space import BUILTIN
from .deployment import Deployment

SLOTS = ("{conversation}", "{memories}", "{labels}", "{tokens}", "{facts}")
MOST_MEMORIES = 1000
"""What a search is asked for where the policy shows all memories."""

MEM0, LANGMEM = "mem0", "LangMem"
PROVIDERS = {
    MEM0: {"model": {"openai": "openai"}, "embedder": {"openai": "openai", "fastembed": "fastembed"}},
    LANGMEM: {"model": {"openai": "openai"}, "embedder": {"openai": "openai"}},
}
"""What providers of ours are called there."""

EVERYWHERE = {
    "update_every": "how many messages a write waits for; call `add` with so many",
    "buffer_size": "newest messages stay verbatim in the prompt; keep them yourself",
    "buffer_share": "how the budget is divided between memories and those messages",
    "keep_first": "the task's first messages stay in view; keep them yourself",
    "mask": "old observations are masked; mask them yourself",
    "read.order": "the order in which memories are shown",
    "read.diversity": "the newest of memories that are alike stands for the rest",
    "read.recency": "how much age counts in the ranks",
    "prompts.reply": "how memories are put to the model; write it into your own prompt",
    "evolution": "prompts that rewrite themselves",
    "write.labels": "the only labels that a profile may have",
}
"""What neither of the two has a setting for: the field, and what it is for."""


@dataclass(frozen=True, slots=True)
class Export:
    """Settings of another memory."""

    settings: dict[str, Any]
    """Plain JSON values, by what they are given to."""
    lost: tuple[str, ...]
    """What the settings do not say, a line each, the field first."""


def for_mem0(deployment: Deployment) -> Export:
    """Return what mem0 2 is given: ``Memory.from_config(config)``, and what its ``add`` and ``search`` take besides."""
    policy = deployment.policy
    written = _instructions(deployment) if policy.write.mode != "verbatim" else None
    config: dict[str, Any] = {"custom_instructions": written}
    for name, role in (("llm", "model"), ("embedder", "embedder")):
        if (named := _named(deployment, role, MEM0)) is not None:
            config[name] = {"provider": named[0], "config": {"model": named[1]}}
    settings = {
        "config": {name: value for name, value in config.items() if value is not None},
        "add": {"infer": policy.write.mode != "verbatim"},
        "search": {"top_k": policy.top_k or MOST_MEMORIES, "threshold": 0.0},
    }
    lost = [*_lost(deployment, MEM0)]
    if policy.write.mode == "facts":
        lost.append("prompts.merge: mem0 2 only adds facts, and neither updates nor deletes them by a prompt")
    if policy.write.roles == "user":
        lost.append("write.roles: give `add` the user's messages alone")
    return Export(settings, tuple(lost))


def for_langmem(deployment: Deployment) -> Export:
    """Return what LangMem's ``create_memory_store_manager`` takes, its model first."""
    policy = deployment.policy
    model, embedder = _named(deployment, "model", LANGMEM), _named(deployment, "embedder", LANGMEM)
    given = {
        "model": model and ":".join(model),
        "instructions": _instructions(deployment),
        "enable_inserts": True,
        "enable_deletes": policy.write.mode == "facts",
        "query_limit": policy.top_k or MOST_MEMORIES,
    }
    settings = {"create_memory_store_manager": {name: value for name, value in given.items() if value is not None}}
    lost = [*_lost(deployment, LANGMEM)]
    if policy.write.mode == "verbatim":
        lost.append(
            "write.mode: verbatim: LangMem has a model write every memory; `put` messages into its store yourself"
        )
    if policy.write.mode == "facts":
        lost.append("prompts.merge: LangMem updates memories by its own calls of tools, under the same instructions")
    if policy.write.roles == "user":
        lost.append("write.roles: give the manager the user's messages alone")
    return Export(settings | ({"index": {"embed": ":".join(embedder)}} if embedder else {}), tuple(lost))


EXPORTS: dict[str, Callable[[Deployment], Export]] = {"mem0": for_mem0, "langmem": for_langmem}


def _lost(deployment: Deployment, package: str) -> Iterator[str]:
    """Yield what no setting says, but for what the policy leaves at a value that does nothing."""
    policy, values = deployment.policy, deployment.policy.values
    usual: dict[str, Any] = {"buffer_size": 0, "keep_first": 0, "mask": 0, "read.diversity": 0, "read.recency": 0}
    if deployment.context_tokens is not None:
        yield f"context_tokens = {deployment.context_tokens}: {package} has no budget of tokens; cut what comes back"
    if policy.write.mode == "none":
        yield f"write.mode: none: nothing is written, and {package} is there to write"
    if policy.write.mode in ("profile", "summary"):
        yield f"write.mode: {policy.write.mode}: {package} keeps separate memories; the same instructions make facts"
    if policy.write.mode not in ("none", "verbatim"):
        yield f"prompts.write: its slots and its reply's form; {package} has its own, so read the instructions over"
    if policy.store == "context":
        yield f"store: context: all memories are in the prompt; {package} searches, so ask for as many as there may be"
    if (policy.backend or BUILTIN) != BUILTIN or policy.knobs.values:
        yield f"backend: {policy.backend or BUILTIN}, and its knobs: {package} is another memory"
    for field, what in EVERYWHERE.items():
        value = values.get(field)
        unused = field == "buffer_share" and policy.buffer_size == 0
        if value is not None and value != usual.get(field) and not unused:
            yield f"{field}{_shown(value)}: {what}"
    for role in ("model", "embedder"):
        if _named(deployment, role, package) is None:
            yield f"{role}: {getattr(deployment, role)} is mnemotune's own; choose one of {package}'s"


def _shown(value: Any) -> str:
    return "" if (isinstance(value, str) and "\n" in value) or isinstance(value, dict) else f" = {value}"


def _instructions(deployment: Deployment) -> str | None:
    """Return the parts of the write prompt that say what to note; None where there are none."""
    prompts = deployment.policy.prompts
    text = (prompts.write or "").replace("{info_types}", prompts.info_types or "")
    parts = [part for part in text.split("\n\n") if "JSON" not in part and not any(slot in part for slot in SLOTS)]
    return "\n\n".join(parts).strip() or None


def _named(deployment: Deployment, role: str, package: str) -> tuple[str, str] | None:
    """Return a package's provider of a model or an embedder, and its name there; None where it has none."""
    provider, _, name = (getattr(deployment, role) or "").partition(":")
    there = PROVIDERS[package][role].get(provider)
    return (there, name) if there and name else None

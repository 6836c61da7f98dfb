"""Short ways to ask the embedded model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from mnemotune.policies.lm import Message, Request
from mnemotune.policies.lm.embedded import EmbeddedModel

Ask = Callable[..., str]
AskFor = Callable[..., Any]
ConversationOf = Callable[..., str]
EngineeringPrompt = Callable[..., str]


def _ask(*texts: str | Message, **options: Any) -> str:
    """Say the model's reply; plain texts are the user's messages."""
    messages = tuple(text if isinstance(text, Message) else Message("user", text) for text in texts)
    request = Request(messages, options.pop("role", "answer"), **options)
    return asyncio.run(EmbeddedModel().complete(request)).text


def _ask_for_json(*texts: str | Message) -> Any:
    reply = _ask(*texts)
    return json.loads(reply.removeprefix("```json\n").removesuffix("\n```"))


def _conversation(*user: str, assistant: str = "I see.") -> str:
    """Write down a talk as a memory does."""
    messages = [
        {"role": role, "content": content}
        for text in user
        for role, content in (("user", text), ("assistant", assistant))
    ]
    return json.dumps(messages, ensure_ascii=False, indent=2)


def _engineering_prompt(
    prompts: Mapping[str, str], failures: Sequence[str] | str, numbers: Mapping[str, str] | None = None
) -> str:
    """Put prompts, numbers and failures as the reflective proposer does."""
    values = {
        "purposes": dict.fromkeys(prompts, "A test."),
        "current_prompts": prompts,
        "current_numbers": numbers or {},
    }
    sections = {name: json.dumps(value, ensure_ascii=False) for name, value in values.items()}
    sections["failures"] = failures if isinstance(failures, str) else json.dumps(list(failures), ensure_ascii=False)
    body = "\n\n".join(f"[[ ## {name} ## ]]\n{text}" for name, text in sections.items())
    return (
        f"{body}\n\nRespond with a JSON object in the following order of fields: `analysis`, then `improved_prompts`."
    )


@pytest.fixture(scope="session")
def ask() -> Ask:
    return _ask


@pytest.fixture(scope="session")
def ask_for_json() -> AskFor:
    return _ask_for_json


@pytest.fixture(scope="session")
def conversation() -> ConversationOf:
    return _conversation


@pytest.fixture(scope="session")
def engineering_prompt() -> EngineeringPrompt:
    return _engineering_prompt

"""MemGym's compaction strategies as points of the space, beside which all that was there before stays as it is.

Invariant: policies and spaces that name none of the newer knobs are what they were without them.
"""

from __future__ import annotations

from typing import Any

import pytest

from mnemotune.policies import PolicyError, dump_policy, load_policy
from mnemotune.policies.files import parse_policy
from mnemotune.policies.knob import Choices, Range
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates
from mnemotune.policies.space import Space

KEYS = {
    "awe": "9e29277d1b7c",
    "awi": "4fc10b1faf8b",
    "awi_complete": "5f65bba43d37",
    "awi_oracle": "0b32b59439f8",
    "awi_question_only": "cebe76cd24dd",
    "native": "fa4688d11171",
    "rag": "4886e479460a",
    "window": "fa4688d11171",
}
LIMITS = {
    "modes": ("none", "verbatim", "facts", "profile"),
    "windows": ("all", "last"),
    "buffer_size": (0, 32),
    "update_every": (2, 16),
    "roles": ("user", "both"),
    "stores": ("context", "external"),
    "top_k": (2, 60),
    "order": ("time", "relevance"),
    "diversity": (0, 100),
    "recency": (0, 100),
}
NAMED: dict[str, Any] = {"keep_first": [0, 4], "mask": [0, 20], "summary_tokens": [100, 400]}
SUMMARY: dict[str, Any] = {"write": {"mode": "summary"}, "update_every": 2, "buffer_size": 8}
SCHEMA: dict[str, Any] = {
    "write": {"mode": "profile", "labels": ["wishes", "done so far"]},
    "update_every": 2,
    "buffer_size": 8,
    "store": "context",
}


@pytest.mark.parametrize("name", KEYS)
def test_the_keys_of_the_presets_stay_the_same_from_release_to_release(name: str) -> None:
    assert load_policy(name).key == KEYS[name]


def test_the_default_space_is_this_one() -> None:
    assert Space().limits == LIMITS
    assert Space.within({}) == Space.within(LIMITS) == Space()
    assert len(Space().coordinates({})) == 18


def test_a_summary_lies_outside_of_a_space_that_does_not_name_it() -> None:
    assert Space().point_of(MemoryPolicy.model_validate(SUMMARY)) is None


def test_domains_of_which_only_a_part_is_searched_say_so() -> None:
    domain = Space().knob("mode").domain
    assert isinstance(domain, Choices)
    assert ("summary" in domain, domain.allows("summary"), domain.allows("dreams")) == (False, True, False)
    assert str(domain) == "none or verbatim or facts or profile; summary where a limit names it"
    for name in NAMED:
        assert isinstance(Space.within(NAMED).knob(name).domain, Range)
        assert Space().knob(name).domain is None


def test_a_summary_starts_from_its_own_prompts() -> None:
    texts, policy = Templates.bundled(), MemoryPolicy.model_validate(SUMMARY)
    assert (policy.prompts.write, policy.prompts.reply) == (texts.write_summary, texts.reply_summary)
    assert policy.prompt_kinds == {"write": "write_summary", "reply": "reply_summary"}
    assert not policy.searches


def test_a_profile_with_a_schema_starts_from_a_prompt_that_shows_it() -> None:
    policy = MemoryPolicy.model_validate(SCHEMA)
    assert policy.prompts.write == Templates.bundled().write_profile_labels
    assert parse_policy(dump_policy(policy), where="test") == policy
    assert not {"tokens:", "mask:", "keep_first:"} & set(dump_policy(policy).split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{write: {mode: summary}, update_every: 2, buffer_size: 4, store: context}", "store: has no effect"),
        ("{write: {mode: facts, labels: [a]}, update_every: 2, buffer_size: 4, store: context}", "write.labels: has"),
        ("{write: {mode: none, tokens: 50}}", "write.tokens: has no effect with write.mode: none; leave it out"),
        ("{write: {mode: summary, tokens: 3}, update_every: 2, buffer_size: 4}", "write.tokens: Input should be"),
        ("{write: {mode: profile, labels: []}, update_every: 2, buffer_size: 4, store: context}", "write.labels: "),
        (
            "{write: {mode: profile, labels: [To do, to_do]}, update_every: 2, buffer_size: 4, store: context}",
            "write.labels: name each once",
        ),
        (
            "{write: {mode: profile, labels: ['a: b']}, update_every: 2, buffer_size: 4, store: context}",
            "write.labels.0: ",
        ),
        (
            "{write: {mode: profile, labels: [a]}, update_every: 2, buffer_size: 4, store: context, "
            "prompts: {write: '{memories}{conversation}'}}",
            "prompts.write: holds {labels} where write.labels is given, and only there",
        ),
        ("{write: {mode: none}, keep_first: -1}", "keep_first: "),
        ("{write: {mode: none}, mask: -1}", "mask: "),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, where="mine.yaml")
    assert str(caught.value).startswith(f"mine.yaml: {said}")

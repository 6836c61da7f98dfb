"""Policies as text: presets and files.

Invariant: a policy that was written to a file and read back is the same policy (for any policy: ``test_policy``).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mnemotune.policies import MemoryPolicy, PolicyError, dump_policy, load_policy, presets
from mnemotune.policies.files import RetiredField, parse_policy, without_retired
from mnemotune.policies.policy import Prompts, Read, Write

PRESETS = ("awe", "awi", "awi_complete", "awi_oracle", "awi_question_only", "native", "rag", "window")
COMPACTION = {
    "adaptive_token_budget": "summary(2,8,keep_first=2)",
    "llm_summarizing": "summary(summary_tokens=1000,27,73,keep_first=1)",
    "masking_then_summarizing": "summary(summary_tokens=1000,27,73,keep_first=1,mask=20)",
    "observation_masking": "none(keep_first=1,mask=100)",
    "sliding_window_summary": "summary(summary_tokens=2500,2,20,keep_first=1)",
    "structured_summary": "profile+context(27,73,keep_first=1)",
}


PEERS = {
    "a-mem": "linked-notes:facts+external(2,4,30)",
    "ace": "playbook:facts+context(2,4)",
    "letta": "core-and-archive:facts+external(2,4,30)",
    "mem0-g": "graph:facts+external(2,4,30)",
    "mem0": "linked-facts:facts+external(2,4,30)",
    "nemori": "episodes:facts+external(8,4,20)",
}


def test_the_presets_are_amemgyms_agents_the_window_peers_and_memgyms_compaction_strategies() -> None:
    assert presets() == sorted([*PRESETS, *COMPACTION, *PEERS])
    assert {name: load_policy(name).label for name in PEERS} == PEERS
    assert {name: load_policy(name).label for name in COMPACTION} == COMPACTION
    assert [load_policy(name).label for name in PRESETS] == [
        "facts+external(2,4,30)",
        "profile+context(2,4)",
        "profile+context(2,4) evolving",
        "profile+context(2,4) oracle",
        "profile+context(2,4) evolving",
        "none",
        "verbatim+external(2,4,30)",
        "none",
    ]


def test_the_presets_are_the_points_that_the_papers_name() -> None:
    awe, awi, native, rag = map(load_policy, ("awe", "awi", "native", "rag"))
    for policy, mode, store, top_k in (
        (awe, "facts", "external", 30),
        (awi, "profile", "context", None),
        (rag, "verbatim", "external", 30),
    ):
        assert (policy.write.mode, policy.write.roles) == (mode, "both")
        assert (policy.update_every, policy.buffer_size) == (2, 4)
        assert (policy.store, policy.top_k) == (store, top_k)
        assert policy.read == Read(order="time")
    assert native == MemoryPolicy(write=Write(mode="none"))
    assert (native.update_every, native.buffer_size, native.store, native.top_k) == (None, None, None, None)


@pytest.mark.parametrize(
    "odd", ["\x85", "\u2028", "\n\x85", "\r", "\r\n", "\ufeff", "\x00", "\x7f", "\t\n", " \n ", "---\n", "#\n", "🌱\n"]
)
def test_odd_characters_in_a_prompt_come_back_from_a_file(odd: str) -> None:
    for text in (odd, f"{odd}a", f"a{odd}", f"a\n{odd}b\n"):
        prompts = Prompts(reply=f"{text}{{memories}}{text}")
        policy = load_policy("rag").model_copy(update={"prompts": prompts})
        assert parse_policy(dump_policy(policy), where="here") == policy


@pytest.mark.parametrize("name", presets())
def test_a_preset_reads_back_from_a_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "best_policy.yaml"
    path.write_text(dump_policy(load_policy(name)), encoding="utf-8")
    assert load_policy(path) == load_policy(str(path)) == load_policy(name)


def test_a_written_policy_can_be_read_by_people() -> None:
    text = dump_policy(load_policy("awi"))
    assert "null" not in text
    assert "  write: |-\n    You keep a profile of the user." in text
    assert "\\n" not in text
    assert text.startswith("write:\n")


def test_how_memories_are_ranked_is_written_where_it_is_not_the_default() -> None:
    plain = load_policy("rag")
    ranked = plain.model_copy(update={"read": Read(diversity=50, recency=30)})
    assert "diversity" not in dump_policy(plain)
    assert parse_policy(dump_policy(ranked), where="here") == ranked
    assert ranked.key != plain.key


def test_a_policy_may_be_written_as_json(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"write": {"mode": "none"}}), encoding="utf-8")
    assert load_policy(path) == load_policy("native")


def test_a_file_of_a_presets_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rag").write_text("write: {mode: none}", encoding="utf-8")
    assert load_policy("rag") == load_policy("native")


def test_a_policy_that_is_nowhere_is_refused_with_what_there_is() -> None:
    with pytest.raises(
        PolicyError,
        match=r"^ragg: no such file or preset; the nearest is rag; presets: a-mem, .*, window$",
    ):
        load_policy("ragg")


def test_a_file_that_is_not_yaml_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("write: {mode: none", encoding="utf-8")
    with pytest.raises(PolicyError, match=r"mine\.yaml: is not YAML: "):
        load_policy(path)


def test_a_file_that_is_not_text_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"write: {mode: none}  # caf\xe9")
    with pytest.raises(PolicyError, match=r"mine\.yaml: "):
        load_policy(path)


@pytest.mark.parametrize("text", ["", "- write", "native", "7"])
def test_what_is_no_policy_at_all_is_refused_by_name(text: str) -> None:
    with pytest.raises(PolicyError, match=r"^mine\.yaml: "):
        parse_policy(text, where="mine.yaml")


# Fields of older versions


RAG = """
write: {mode: verbatim}
update_every: 2
buffer_size: 4
store: external
top_k: 30
"""


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ("prompts: {answer: 'Choose! {query} {choices}'}", "prompts.answer"),
        ("prompts: {answer: 'without slots'}", "prompts.answer"),
        ("read: {budget_tokens: 400}", "read.budget_tokens"),
        ("read: {budget_tokens: 400, order: time}", "read.budget_tokens"),
    ],
)
def test_a_field_of_an_older_version_is_left_out_with_a_warning_that_names_file_and_field(
    tmp_path: Path, extra: str, field: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(RAG + extra, encoding="utf-8")
    with pytest.warns(RetiredField) as caught:
        policy = load_policy(path)
    (warning,) = caught
    assert str(warning.message).startswith(f"{path}: {field} is left out: ")
    assert policy == load_policy("rag")
    assert policy.key == load_policy("rag").key


def test_each_field_of_an_older_version_has_a_warning_of_its_own() -> None:
    text = f"{RAG}\nread: {{budget_tokens: 400}}\nprompts: {{answer: 'x', reply: 'Mine: {{memories}}'}}"
    with pytest.warns(RetiredField) as caught:
        policy = parse_policy(text, where="mine.yaml")
    assert sorted(str(warning.message).split(" is ")[0] for warning in caught) == [
        "mine.yaml: prompts.answer",
        "mine.yaml: read.budget_tokens",
    ]
    assert policy.prompts.reply == "Mine: {memories}", "what stands beside it stays"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("extra", ["prompts: {answer: null}", "read: {budget_tokens: null}"])
def test_a_field_of_an_older_version_without_a_value_is_left_out_in_silence(extra: str) -> None:
    assert parse_policy(RAG + extra, where="mine.yaml") == load_policy("rag")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ("prompts: {answers: 'x'}", "prompts.answers"),
        ("read: {budget: 400}", "read.budget"),
        ("answer: 'x'", "answer"),
        ("budget_tokens: 400", "budget_tokens"),
    ],
)
def test_a_field_that_never_was_is_still_refused(extra: str, field: str) -> None:
    with pytest.raises(PolicyError, match=f"^mine\\.yaml: {field}: no such field$"):
        parse_policy(RAG + extra, where="mine.yaml")


def test_what_is_given_is_not_changed_when_fields_are_left_out() -> None:
    given = {"write": {"mode": "none"}, "prompts": {"answer": "x"}, "read": {"budget_tokens": None}}
    with pytest.warns(RetiredField):
        kept = without_retired(given, where="here")
    assert kept == {"write": {"mode": "none"}, "prompts": {}, "read": {}}
    assert given["prompts"] == {"answer": "x"}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("top_k: 30", "p.yaml: is not YAML: 'top_k' is there twice"),
        ("backend: linked-facts\nknobs: {neighbours: true}", "p.yaml: knobs: neighbours: true is no number"),
        ("backend: ''", "p.yaml: backend: String should have at least 1 character"),
    ],
)
def test_what_would_mean_something_else_than_it_says_is_refused(more: str, problem: str) -> None:
    text = f"write: {{mode: facts}}\nupdate_every: 2\nbuffer_size: 2\nstore: external\ntop_k: 3\n{more}\n"
    with pytest.raises(PolicyError, match=re.escape(problem)):
        parse_policy(text, where="p.yaml")


def test_a_name_that_stands_twice_in_json_is_refused_too() -> None:
    with pytest.raises(PolicyError, match="'mode' is there twice"):
        parse_policy('{\n\t"write": {"mode": "none", "mode": "facts"}}', where="p.json")

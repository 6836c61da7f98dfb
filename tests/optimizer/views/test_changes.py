"""What one policy has that another has not."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mnemotune.optimizer.views.changes import compare_knobs, compare_prompts, compare_texts
from mnemotune.policies.files import load_policy
from mnemotune.policies.prompts import Templates

TEMPLATES = Templates.bundled()
WORDS = st.lists(st.sampled_from(["keep", "drop", "all", "\n", "facts. ", "  "]), max_size=12).map(" ".join)


def pieces(before: str, after: str) -> list[tuple[str, str]]:
    return list(compare_texts(before, after))


def changed(before: Any, after: Any) -> dict[str, tuple[str, str]]:
    return {c.knob.name: (c.before, c.after) for c in compare_knobs(before, after) if c.changed}


@given(WORDS, WORDS)
def test_the_new_text_is_what_is_the_same_and_what_was_added(before: str, after: str) -> None:
    assert "".join(text for kind, text in pieces(before, after) if kind != "removed") == after


def test_a_word_that_was_changed_is_shown_alone() -> None:
    assert pieces("Keep all that the user says.", "Keep all that the friend says.") == [
        ("same", "Keep all that the "),
        ("removed", "user says."),
        ("added", "friend says."),
    ]


def test_texts_that_share_little_are_shown_one_after_the_other() -> None:
    assert pieces("Note every fact.", "Write a short poem about it.") == [
        ("removed", "Note every fact.\n"),
        ("added", "Write a short poem about it."),
    ]


def test_equal_texts_are_the_same() -> None:
    assert pieces("Keep all.", "Keep all.") == [("same", "Keep all.")]


def test_what_has_no_effect_in_either_policy_is_not_listed() -> None:
    names = [change.knob.name for change in compare_knobs(load_policy("native"), load_policy("native"))]
    assert "top_k" not in names
    assert "mask" not in names
    assert "mode" in names


def test_what_has_an_effect_in_the_new_policy_alone_has_a_dash_before() -> None:
    differences = changed(load_policy("awi"), load_policy("awe"))
    assert differences["top_k"] == ("-", "30 memories")
    assert differences["mode"] == ("profile", "facts")
    assert "recency" in changed(load_policy("awe"), load_policy("awi"))


def test_a_named_knob_is_listed_where_a_policy_sets_it() -> None:
    masked = load_policy("awe").model_copy(update={"mask": 8})
    assert changed(load_policy("awe"), masked) == {"mask": ("0 messages", "8 messages")}


def test_a_prompt_of_another_kind_is_compared_with_the_text_that_it_starts_from() -> None:
    (write, *others) = compare_prompts(load_policy("awi"), load_policy("awe"), TEMPLATES, owner="trial 3's")
    assert (write.slot, write.origin, write.changed) == ("write", "the text that facts starts from", False)
    (same, *_) = compare_prompts(load_policy("awe"), load_policy("awe"), TEMPLATES, owner="trial 3's")
    assert same.origin == "trial 3's"
    assert others


def test_what_lies_far_from_every_change_is_left_out_of_a_shortened_text() -> None:
    text = " ".join(f"word{n}" for n in range(200))
    policy = load_policy("awe")
    edited = policy.model_copy(
        update={"prompts": policy.prompts.model_copy(update={"write": f"{text} once more {text}"})}
    )
    before = policy.model_copy(update={"prompts": policy.prompts.model_copy(update={"write": f"{text} {text}"})})
    (write, *_) = compare_prompts(before, edited, TEMPLATES, owner="trial 3's")
    shortened = write.shortened
    assert [kind for kind, _ in shortened] == ["same", "added", "same"]
    assert [len(text) < 80 for _, text in shortened] == [True, True, True]
    assert shortened[0][1].endswith("word198 word199 ")
    assert shortened[2][1].startswith("word0 word1")

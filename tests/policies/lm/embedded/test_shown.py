"""What a prompt shows as JSON, told from forms, examples and what is only mentioned.

Invariants:

1. What is found are pieces of the text that do not overlap, in order; without them the text is what stands between.
2. What is to be read is found wherever it stands, and whatever else the prompt shows.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.policies.lm.embedded.shown import (
    MOST_TRIES,
    blocks_in,
    conversation_shown,
    facts_shown,
    in_order,
    memories_shown,
    without,
)

TALK = [{"role": "user", "content": "I own a boat."}]
KNOWN = {"3": "I ski."}


def shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


@given(
    st.lists(
        st.sampled_from(["{", "}", "[", "]", '"', ": ", ",", "\n", "like ", "a", "{}", '{"a": "b"}', '["c"]', "{x: 1}"])
    ).map("".join)
)
def test_blocks_are_pieces_of_the_text_in_order_invariant_1(text: str) -> None:
    blocks = blocks_in(text)
    ends = [0, *(block.start + len(block.source) for block in blocks)]
    assert all(end <= block.start for end, block in zip(ends, blocks, strict=False))
    assert all(text[block.start :].startswith(block.source) for block in blocks)
    assert len(without(text, blocks)) == len(text) - sum(len(block.source) for block in blocks)


@pytest.mark.parametrize("mark", ["", ": ", '"""', "'", "**", "<talk>", "\u2014", "`", "| ", "(", "```json\n", "=> "])
def test_json_is_found_behind_any_mark(mark: str) -> None:
    (block,) = blocks_in(f"Read this {mark}{shown(TALK)} and note it.")
    assert block.value == TALK


@pytest.mark.parametrize("text", ["f[0] = {x}", "words[1]", "{conversation}", "a {b} c", r"\{", "[12]", "[see: this]"])
def test_brackets_are_not_json_for_themselves(text: str) -> None:
    assert blocks_in(text) == []


@pytest.mark.parametrize(
    "form",
    [
        '{"facts": [{"text": "..."}, ...]}',
        '{{"facts": [{{"text": "..."}}]}}',
        "{'facts': [{'text': '...'}]}",
        '{facts: [{"text": "..."}]}',
        '{"facts": [{"text": "..."}]  // one for each\n}',
        '{"facts": [{"text": "..."},]}',
    ],
)
def test_a_form_need_not_be_strictly_json(form: str) -> None:
    (block,) = blocks_in(f"Reply like this: {form}")
    assert block.value == {"facts": [{"text": "..."}]}


def test_a_text_with_more_brackets_than_a_prompt_has_is_not_looked_through() -> None:
    assert len(blocks_in('{"a": "b"} ' * (2 * MOST_TRIES))) == MOST_TRIES
    assert blocks_in('{"a": ' * 50_000) == []


@pytest.mark.parametrize(
    "around",
    [
        "{real}\nReply like {{}}.",
        'For example {{"home": "a very long example of a memory that is told nowhere else"}}.\n{real}',
        '{real}\nReturn the labels that changed, such as {{"home": "a flat in the north of the town"}}.',
        '{real}\nA step: {{"event": "ADD", "text": "this is a long text of a step"}}',
        'Labels: {{"home": "<where the user lives, in a few words>"}}\n{real}',
        '{{"input": {{"profile": {real}, "talk": {talk}}}}}',
        'Example\nMemories: {{"0": "Likes tea"}}\nAnswer: {{"0": "Likes coffee"}}\n\nMemories (JSON):\n{real}\nAnswer:',
        'Sample file:\n{{\n"a": "b"\n}}\nSample reply:\n{{\n"a": "c"\n}}\nActual file:\n{real}',
        'The profile so far, in JSON format:\n{real}\n\nExample output:\n{{\n"home": "a flat in the north"\n}}',
        'file: {{"a": "b"}}\ntalk: [{{"role": "user", "content": ""}}]\nout: {{"a": "c"}}\nfile: {real}\ntalk: {talk}',
    ],
)
@pytest.mark.parametrize("known", [KNOWN, {}], ids=["some", "none"])
def test_memories_are_told_from_forms_and_examples_invariant_2(around: str, known: dict[str, str]) -> None:
    text = around.format(real=shown(known), talk=shown(TALK))
    blocks = blocks_in(text)
    block = memories_shown(blocks, conversation_shown(blocks))
    assert block is not None
    assert block.value == known


def test_where_a_prompt_shows_nothing_else_an_example_is_what_it_shows() -> None:
    block = memories_shown(blocks_in(f"Reply to this:\n{shown(KNOWN)}"))
    assert block is not None
    assert block.value == KNOWN
    assert memories_shown(blocks_in("Reply.")) is None


@pytest.mark.parametrize(
    "around", ["{real}", 'Events: ["ADD", "UPDATE", "DELETE", "NONE"]\n{real}', '{real}\nas ["...", "..."]']
)
@pytest.mark.parametrize("facts", [["I ski."], ["<b>I ski.</b>"], ["[Ann] I ski [now]"], ["..."]], ids=str)
def test_new_facts_are_told_from_names_of_events_and_places(around: str, facts: list[str]) -> None:
    block = facts_shown(blocks_in(around.format(real=shown(facts))))
    assert block is not None
    assert block.value == facts


def test_of_several_talks_the_last_is_read_that_is_no_example() -> None:
    other = shown([{"role": "user", "content": "no"}])
    for text in (
        f"{other}\n{shown(TALK)}",
        f"{shown(TALK)}\nFor example {other}.",
        f"Example:\n{other}\n{shown(TALK)}",
    ):
        block = conversation_shown(blocks_in(text))
        assert block is not None
        assert block.value == TALK


@pytest.mark.parametrize("order", [("Known", "New"), ("New", "Known"), ("What we have", "What has just come in")])
def test_what_is_new_comes_behind_what_is_known(order: tuple[str, str]) -> None:
    known, new = {"7": {"text": "I ski."}}, {"1": {"text": "I sing."}}
    values = (new, known) if order[0] == "New" else (known, new)
    text = "\n".join(f"{lead}: {shown(value)}" for lead, value in zip(order, values, strict=True))
    assert in_order(blocks_in(text), lambda value: isinstance(value, dict)) == [known, new]


def test_what_a_sentence_goes_on_with_is_only_mentioned() -> None:
    (mentioned,) = blocks_in('I also use {"a": "b"} here.')
    (told,) = blocks_in('I also use this: {"a": "b"}')
    assert (mentioned.is_apart, told.is_apart) == (False, True)

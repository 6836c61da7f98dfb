"""Writes: the model notes what the prompt in front of it asks for.

Invariants:

1. Only what the user said is noted, and never a question.
2. The more a prompt asks for, the more of it is noted; but never more than the model can write in one go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm.embedded.writing import MOST_NOTES, merge_facts, write_facts, write_profile

if TYPE_CHECKING:
    from .conftest import AskFor, ConversationOf

FACTS = 'Note facts as {"facts": [...]}.\n%s\n\nConversation:\n%s'
LONG = (
    "I keep two old cats in a tiny flat in the old town near the harbour and on Sundays they watch the ferries "
    "from a blue cushion."
)


def user(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in texts]


def facts(instructions: str, *texts: str) -> list[str]:
    noted: list[str] = json.loads(write_facts(instructions, user(*texts)))["facts"]
    return noted


def profile(instructions: str, *texts: str, memories: dict[str, str] | None = None) -> dict[str, str]:
    changed: dict[str, str] = json.loads(write_profile(instructions, memories or {}, user(*texts)))
    return changed


def merged(memories: dict[str, str], *new: str, instructions: str = "") -> list[dict[str, str]]:
    events: list[dict[str, str]] = json.loads(merge_facts(instructions, memories, new))["memory"]
    return events


# What is noted


def test_only_what_the_user_says_is_noted_and_no_question(ask_for_json: AskFor, conversation: ConversationOf) -> None:
    talk = conversation("I own two cats. Which food is best? Hm.", assistant="I would buy expensive salmon.")
    assert ask_for_json(FACTS % ("", talk)) == {"facts": ["I own two cats."]}


def test_the_time_of_a_message_is_no_part_of_what_was_said() -> None:
    assert facts("", "[Current Time: 2021-05-04 20:11:00]\nI own two cats.") == ["I own two cats."]


def test_no_more_is_noted_than_can_be_written_in_one_go_and_in_the_order_of_the_talk() -> None:
    said = [f"I own {animal} and love them." for animal in ("cats", "dogs", "ponies", "geese", "bees", "trout")]
    noted = facts("", " ".join(said))
    assert len(noted) == MOST_NOTES
    assert noted == [line for line in said if line in noted]


def test_a_kind_of_information_that_is_asked_for_goes_first() -> None:
    said = [f"I own {animal} and love them." for animal in ("cats", "dogs", "ponies", "geese", "bees")]
    assert said[4] not in facts("", " ".join(said))
    assert said[4] in facts("- bees and honey", " ".join(said))


def test_talk_about_others_is_noted_unless_the_prompt_forbids_it() -> None:
    talk = "My sister keeps a loud parrot. I own two cats."
    assert facts("", talk) == ["My sister keeps a loud parrot.", "I own two cats."]
    assert facts("Note only what is true of the users themselves.", talk) == ["I own two cats."]


def test_details_are_cut_unless_the_prompt_asks_for_them() -> None:
    (cut,) = facts("", LONG)
    assert cut == " ".join(LONG.split()[:14])
    assert facts("Keep every detail.", LONG) == [LONG]
    assert facts("Be brief.", LONG) == [" ".join(LONG.split()[:8])]


def test_the_day_is_noted_where_the_prompt_asks_for_it() -> None:
    said = "[Current Time: 2021-05-04 20:11:00]\nI own two cats."
    assert facts("Include the date of each fact.", said) == ["I own two cats. (2021-05-04)"]
    assert facts("Include the date of each fact.", "I own two cats.") == ["I own two cats."]


def test_nothing_worth_noting_is_an_empty_note() -> None:
    assert facts("", "Hello? Yes.") == []
    assert facts("") == []
    assert profile("", "Hello? Yes.") == {}


# Labels


def test_a_note_is_filed_under_the_kind_that_it_belongs_to() -> None:
    assert profile("1. Pets, cats and dogs\n2. Boats", "I own two cats and dogs.") == {
        "pet_cat_dog": "I own two cats and dogs."
    }


def test_a_note_of_no_kind_is_filed_under_its_words() -> None:
    assert profile("1. Boats", "I bake bread.") == {"bake_bread": "I bake bread."}


def test_news_of_the_same_matter_go_under_the_label_that_is_there() -> None:
    known = {"pets": "I own two cats.", "work": "I am a baker."}
    assert profile("", "I own three cats now.", memories=known) == {"pets": "I own three cats now."}
    (label,) = profile("", "I swim in the lake.", memories=known)
    assert label not in known


def test_the_prompts_bullets_change_what_memory_holds(ask_for_json: AskFor, conversation: ConversationOf) -> None:
    """What the whole search is about: a more specific write prompt writes something else."""
    talk = conversation(
        "I tried the new cinema. I saw a comedy with friends of mine. I ate too much popcorn. I lost my umbrella. "
        "My knee hurts on stairs."
    )
    vague = f"Note what matters.\nThe profile now:\n{{}}\n\nConversation:\n{talk}"
    specific = vague.replace("Note what matters.", "Note:\n- health, pains of knee or back")
    assert "knee" not in str(ask_for_json(vague))
    assert "knee" in str(ask_for_json(specific))


# Merging


def test_a_new_fact_is_added_a_changed_one_updated_and_a_known_one_left_alone() -> None:
    known = {"0": "I own two cats.", "7": "I live in Rome."}
    assert merged(known, "I bake bread.", "I own three cats.", "I live in Rome.") == [
        {"event": "ADD", "text": "I bake bread."},
        {"event": "UPDATE", "id": "0", "text": "I own three cats."},
        {"event": "NONE", "id": "7"},
    ]


def test_a_known_fact_is_replaced_once() -> None:
    events = merged({"0": "I own two cats."}, "I own three cats.", "I own four cats.")
    assert [event["event"] for event in events] == ["UPDATE", "ADD"]


def test_a_prompt_can_ask_for_more_to_be_replaced() -> None:
    known, new = {"0": "I paint small boats."}, "I sell large boats."
    firm = "A new fact about the same matter replaces the old one."
    assert merged(known, new) == [{"event": "ADD", "text": new}]
    assert merged(known, new, instructions=firm) == [{"event": "UPDATE", "id": "0", "text": new}]


@settings(deadline=None)
@given(
    known=st.dictionaries(st.integers(0, 9).map(str), st.text(max_size=20), max_size=5),
    new=st.lists(st.text(max_size=20) | st.sampled_from(["I own cats.", "I own dogs."]), max_size=5),
)
def test_each_new_fact_gets_one_event_that_names_only_what_is_known(known: dict[str, str], new: list[str]) -> None:
    events = merged(known, *new)
    assert len(events) == len(new)
    for event, fact in zip(events, new, strict=True):
        assert event["event"] in {"ADD", "UPDATE", "NONE"}
        assert event.get("id") in {None, *known}
        assert event.get("text", fact) == fact


@settings(deadline=None)
@given(
    instructions=st.text(),
    memories=st.dictionaries(st.text(), st.text(), max_size=3),
    talk=st.lists(st.text() | st.sampled_from(["I own a cat. ", "My sister has a dog. "]), max_size=4),
)
def test_any_talk_under_any_instructions_gives_a_map_of_texts(
    instructions: str, memories: dict[str, str], talk: list[str]
) -> None:
    changed = profile(instructions, *talk, memories=memories)
    assert all(isinstance(label, str) and isinstance(text, str) for label, text in changed.items())
    assert len(changed) <= MOST_NOTES
    assert len(facts(instructions, *talk)) <= MOST_NOTES


@pytest.mark.parametrize("content", [None, 7, ["I own a cat."], {"a": "b"}])
def test_a_message_that_is_no_text_does_no_harm(content: Any) -> None:
    json.loads(write_facts("", [{"role": "user", "content": content}, {"role": None}, {}]))

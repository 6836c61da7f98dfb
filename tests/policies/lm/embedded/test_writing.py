"""Writes: the model notes what the prompt in front of it asks for.

Invariants:

1. Only what the user said is noted, and a question only of a user who states nothing.
2. The more a prompt asks for, the more of it is noted; but never more than the model can write in one go.
3. A list of too many kinds gets each of them less attention.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies.lm.embedded.instructions import (
    MOST_KINDS,
    WORDS_PER_BRIEF_NOTE,
    WORDS_PER_NOTE,
    read_instructions,
)
from mnemotune.policies.lm.embedded.wording import split_sentences
from mnemotune.policies.lm.embedded.writing import WORDS_PER_CALL, likeness, merge_facts, write_facts, write_profile
from mnemotune.policies.prompts import Templates, render

if TYPE_CHECKING:
    from .conftest import AskFor, ConversationOf

WORDS = st.frozensets(st.sampled_from("abcdefgh"), max_size=5)
FACTS = 'Note facts as {"facts": [...]}.\n%s\n\nConversation:\n%s'
LONG = (
    "I keep cats, and these cats of mine are old cats that watch the ferries in the harbour on Sundays from a "
    "blue cushion."
)
ANIMALS = tuple(
    "cats dogs ponies geese bees rabbits hens goats sheep ducks pigs swans mice frogs toads newts eels crabs snails "
    "slugs ants moths owls trout".split()
)
SMALL_TALK = (
    "I tried the new cinema. I saw a comedy with friends of mine. I ate too much popcorn. I lost my umbrella. "
    "I missed the last train home. I met my old teacher. I bought a blue scarf. I burnt the soup. I watered my roses. "
    "I wrote a letter to the council. I painted my garden gate. I heard a brass band. I found a coin in the gutter. "
    "I slept through my alarm. I mended my kettle. I sold two chairs. I borrowed a ladder. I swept my cellar. "
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
    (fact,) = ask_for_json(FACTS % ("", talk))["facts"]
    assert fact.endswith("I own two cats.")


def test_a_user_who_only_asks_is_noted_by_the_question_where_a_kind_fits() -> None:
    asked = "How do I keep bees in a shed?"
    assert facts("", asked) == []
    assert facts("- bees and other animals", asked) == [asked]


def test_the_time_of_a_message_is_no_part_of_what_was_said() -> None:
    assert facts("", "[Current Time: 2021-05-04 20:11:00]\nI own two cats.") == ["I own two cats."]


def test_no_more_is_noted_than_can_be_written_in_one_go_and_in_the_order_of_the_talk() -> None:
    said = [f"I own {animal} and love them." for animal in ANIMALS]
    noted = facts("", " ".join(said))
    assert 1 < len(noted) < len(said)
    assert sum(len(note.split()) for note in noted) <= WORDS_PER_CALL
    assert [line for line in said if any(line in note for note in noted)] == [note.split(": ")[-1] for note in noted]


def test_a_note_that_is_cut_ends_with_a_word_of_content() -> None:
    (note,) = facts(
        "", "My toddler climbs on chairs, tables, shelves and a wardrobe, so cushions line the walls and doors."
    )
    assert note.endswith("so cushions line")


def test_a_fact_inside_a_request_is_noted_and_an_empty_request_is_not() -> None:
    telling = "How do I store boards and clamps in the garage so that my wife still gets her car in after woodworking?"
    assert facts("Write everything in full.", telling)[0].endswith(telling)
    assert facts("", "Which toys should I get?") == []


def test_a_kind_of_information_that_is_asked_for_goes_first() -> None:
    said = [f"I own {animal} and love them." for animal in ANIMALS]
    assert not any("trout" in note for note in facts("", " ".join(said)))
    assert any("trout" in note for note in facts("- trout and salmon", " ".join(said)))


def test_a_kind_is_understood_in_other_words() -> None:
    said = [f"I own {animal} and love them." for animal in ANIMALS]
    said.append("We live in an apartment.")
    assert not any("apartment" in note for note in facts("", " ".join(said)))
    assert any("apartment" in note for note in facts("- flat", " ".join(said)))


def test_talk_about_others_is_not_noted_unless_a_kind_fits_and_never_where_the_prompt_forbids_it() -> None:
    talk = "My sister keeps a loud parrot. I own two cats."
    assert facts("", talk) == ["sister: I own two cats."]
    assert len(facts("- parrots", talk)) == 2
    (own,) = facts("Note only what is true of the users themselves.\n- parrots", talk)
    assert own.endswith("I own two cats.")


def test_a_prompt_can_ask_for_other_peoples_doings_as_well() -> None:
    talk = "My sister keeps a loud parrot. I own two cats."
    assert len(facts("Note what other people do, too.", talk)) == 2
    assert len(facts("Do not leave out other people.", talk)) == 2
    assert len(facts("Do not note what other people do.\n- parrots", talk)) == 1


def test_a_prompt_can_ask_for_the_assistants_words_as_well(ask_for_json: AskFor, conversation: ConversationOf) -> None:
    talk = conversation("I own two cats.", assistant="Buy expensive salmon.")
    for rule, noted in (("Note what both speakers say.", 2), ("", 1), ("Ignore the assistant's advice.", 1)):
        assert len(ask_for_json(FACTS % (rule, talk))["facts"]) == noted, rule


PEOPLE: list[dict[str, Any]] = [
    {"role": "user", "content": "Ada: The trip to Lisbon was a dream. Did you like it?"},
    {"role": "assistant", "content": f"Bo: {LONG}"},
]


def test_where_two_people_talk_both_are_noted_in_full_by_name() -> None:
    noted = json.loads(write_facts(FACTS % ("", ""), PEOPLE))["facts"]
    assert noted == ["Ada: The trip to Lisbon was a dream. Did you like it?", f"Bo: {LONG}"]
    asked = [PEOPLE[1], {"role": "user", "content": "Ada: How many? Are they old?"}]
    assert json.loads(write_facts(FACTS % ("", ""), asked))["facts"] == [f"Bo: {LONG}"], "who only asks tells nothing"
    neither = [{**message, "role": "user"} for message in PEOPLE]
    assert json.loads(write_facts(FACTS % ("", ""), neither))["facts"] == noted, "nobody here is the assistant"
    timed = [{**message, "content": f"[Current Time: 2024-05-08]\n{message['content']}"} for message in PEOPLE]
    assert json.loads(write_facts(FACTS % ("", ""), timed))["facts"] == noted


def test_where_one_message_has_no_name_before_it_the_assistant_is_no_person() -> None:
    talk = [*PEOPLE, {"role": "user", "content": "I see."}]
    assert not any("cats" in fact for fact in json.loads(write_facts(FACTS % ("", ""), talk))["facts"])


def test_what_one_person_says_replaces_nothing_of_the_others() -> None:
    known = {"0": "Ada: I have a dog."}
    assert merged(known, "Bo: I have a dog now.") == [{"event": "ADD", "text": "Bo: I have a dog now."}]
    [event] = merged(known, "Ada: I have a cat and a dog now.")
    assert event["event"] == "UPDATE"


def test_a_matter_that_is_not_wanted_is_not_noted() -> None:
    talk = "I own two cats. I bake dark bread."
    assert len(facts("", talk)) == 2
    for rule in ("Ignore cats and dogs.", "Leave out:\n- cats and other pets"):
        (noted,) = facts(rule, talk)
        assert "bread" in noted, rule


def test_details_are_cut_unless_the_prompt_asks_for_them() -> None:
    (cut,) = facts("", LONG)
    assert cut == " ".join(LONG.split()[:WORDS_PER_NOTE])
    assert facts("Keep every detail.", LONG) == [LONG]
    assert facts("Be brief.", LONG) == [" ".join(LONG.split()[:WORDS_PER_BRIEF_NOTE])]


@pytest.mark.parametrize(
    "case", yaml.safe_load((Path(__file__).parent / "paraphrases.yaml").read_text(encoding="utf-8"))["negated"], ids=str
)
def test_a_negated_prompt_turns_its_effect_round(
    ask_for_json: AskFor, conversation: ConversationOf, case: dict[str, str]
) -> None:
    """With what a prompt adds notes get longer than with the plain prompt, and with its negation shorter."""
    prompt = (
        Templates.bundled().starting(f"write_{case['kind']}_minimal").replace("each with a short text", "with a text")
    )
    lengths = []
    for rule in (case["turned"], "", case["add"]):
        filled = render(f"{rule}\n{prompt}", memories="{}", conversation=conversation(LONG))
        lengths.append(len(str(ask_for_json(filled)).split()))
    assert lengths[0] < lengths[1] < lengths[2]


def test_what_a_list_asks_for_says_nothing_about_how_to_note_it() -> None:
    assert facts("- personal details", LONG) == facts("", LONG)


def test_the_day_is_noted_where_the_prompt_asks_for_it() -> None:
    said = "[Current Time: 2021-05-04 20:11:00]\nI own two cats."
    assert facts("Include the date of each fact.", said) == ["I own two cats. (2021-05-04)"]
    assert facts("Include the date of each fact.", "I own two cats.") == ["I own two cats."]


def test_a_fact_can_be_understood_on_its_own() -> None:
    (fact,) = facts("", "I do it on the balcony. Which tomatoes would you plant?")
    assert fact == "tomato: I do it on the balcony."


def test_nothing_worth_noting_is_an_empty_note() -> None:
    assert facts("", "Hello? Yes.") == []
    assert facts("") == []
    assert profile("", "Hello? Yes.") == {}


def test_a_list_of_too_many_kinds_gets_each_of_them_less_attention() -> None:
    kinds = [f"- matter number {i} of some importance" for i in range(4 * MOST_KINDS)]
    few, many = "\n".join(kinds[: MOST_KINDS // 2]), "\n".join(kinds)
    talk = "I bake bread on Sundays."
    assert facts(few, talk) == [talk]
    assert facts(many, talk) == []
    assert facts(f"- bread and Sundays\n{many}", talk) == []


# Labels


def test_a_note_is_filed_under_the_kind_that_it_belongs_to() -> None:
    talk = "I own two cats and dogs. What do cats eat?"
    assert profile("1. Pets: cats and dogs\n2. Boats", talk) == {"pet": "I own two cats and dogs"}


def test_a_note_of_no_kind_is_filed_under_other_where_the_prompt_names_kinds() -> None:
    assert profile("1. Boats", "I bake bread. Which bread is best?") == {"other": "I bake bread"}


def test_a_note_is_filed_under_the_topic_of_the_talk_where_the_prompt_names_no_kinds() -> None:
    assert profile("", "I bake bread. Which bread is best?") == {"bread": "I bake bread"}


def test_two_matters_of_one_topic_stand_under_one_label_unless_the_prompt_keeps_them_apart() -> None:
    first, second = "I do it at dawn. How do I bake bread?", "My oven is small. How do I bake bread?"
    for instructions, labels in (
        ("", 1),
        ("Give each matter a label of its own.", 2),
        ("- time: dawn, morning, evening\n- equipment: oven, fridge", 2),
    ):
        known = profile(instructions, first)
        together = known | profile(instructions, second, memories=known)
        assert len(together) == labels, instructions
        assert {"dawn", "oven"} <= set(" ".join(together.values()).replace(";", "").split()), instructions


def test_what_is_noted_in_one_go_under_one_label_stands_together() -> None:
    (text,) = profile("", "I bake bread at dawn. My bread is dark. Which bread is best?").values()
    assert text == "I bake bread at dawn; My bread is dark"


@pytest.mark.parametrize("length", ["", "Note everything in full detail.", "Keep each note brief."])
def test_the_oldest_notes_of_a_label_fall_out_where_its_text_grows_too_long(length: str) -> None:
    instructions = f"1. Boats\n\n{length}"
    most = read_instructions(instructions).words_per_label
    known: dict[str, str] = {}
    for sentence in split_sentences(SMALL_TALK):
        known |= profile(instructions, sentence, memories=known)
    noted = [profile(instructions, sentence)["other"] for sentence in split_sentences(SMALL_TALK)]
    kept = known["other"].split("; ")
    assert kept == noted[-len(kept) :]
    assert len(" ".join(kept).split()) <= most
    assert kept == noted or len(" ".join(noted[-len(kept) - 1 :]).split()) > most


def test_a_note_that_is_longer_than_a_labels_text_may_be_stands_alone() -> None:
    known = {"other": "I own a cat and a dog"}
    assert profile("1. Boats\n\nUse 1 word.", "I bake bread.", memories=known) == {"other": "I"}


def test_news_of_the_same_matter_go_under_the_label_that_is_there() -> None:
    known = {"pets": "I own two cats.", "work": "I am a baker."}
    assert profile("", "I own three cats now.", memories=known) == {"pets": "I own three cats now"}
    (label,) = profile("", "I swim in the lake.", memories=known)
    assert label not in known


def test_a_prompt_can_ask_to_keep_what_was_known_beside_the_news() -> None:
    known = {"pets": "I own two cats."}
    news = profile("Never overwrite a note.", "I own three cats now.", memories=known)
    assert news == {"pets": "I own two cats; I own three cats now"}


def test_the_prompts_bullets_change_what_memory_holds(ask_for_json: AskFor, conversation: ConversationOf) -> None:
    """What the whole search is about: a more specific write prompt writes something else."""
    talk = conversation(f"{SMALL_TALK}My knee hurts on stairs.")
    vague = f"Note what matters.\nThe profile now:\n{{}}\n\nConversation:\n{talk}"
    specific = vague.replace("Note what matters.", "Note:\n- health, pains of knee or back")
    assert "knee" not in str(ask_for_json(vague))
    assert "knee" in str(ask_for_json(specific))


# Likeness


@given(words=WORDS, others=WORDS)
def test_likeness_is_symmetric_between_zero_and_one(words: frozenset[str], others: frozenset[str]) -> None:
    assert likeness(words, others) == likeness(others, words)
    assert 0 <= likeness(words, others) <= 1.000001
    assert (likeness(words, others) > 0) == bool(words & others)
    assert not words or likeness(words, words) == pytest.approx(1)


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


def test_a_fact_that_tells_of_a_change_replaces_what_is_most_like_it() -> None:
    known = {"0": "bird: I watch from my kitchen window.", "1": "bread: I bake at dawn."}
    news = "bird: These days I go to the estuary."
    assert merged(known, news) == [{"event": "UPDATE", "id": "0", "text": news}]
    assert merged(known, "estuary: I like rain and quiet.")[0]["event"] == "ADD"


def test_a_prompt_can_ask_to_keep_what_was_known() -> None:
    events = merged({"0": "I own two cats."}, "I own three cats now.", instructions="Never replace a fact.")
    assert [event["event"] for event in events] == ["ADD"]


def test_a_prompt_can_ask_for_more_to_be_replaced() -> None:
    known, new = {"0": "I like zorple quib gromps."}, "I sell gromp flarns in Rome."
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
    assert all(isinstance(fact, str) for fact in facts(instructions, *talk))


@pytest.mark.parametrize("content", [None, 7, ["I own a cat."], {"a": "b"}])
def test_a_message_that_is_no_text_does_no_harm(content: Any) -> None:
    json.loads(write_facts("", [{"role": "user", "content": content}, {"role": None}, {}]))

"""Talk: the assistant's replies and the simulated user's follow-ups.

Invariants:

1. A follow-up is made of the assistant's last reply and of what the user had asked, never of a secret.
2. The assistant rests on one statement of the user: what was just said, or what was said before where that is louder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mnemotune.policies.lm import Message
from mnemotune.policies.prompts import Templates, render

if TYPE_CHECKING:
    from .conftest import Ask

ROLE_PLAY = "Please play the role of the user.\n{profile}\n\nThe last messages:\n{exchange}\n\nNever tell:\n{schema}"
SCHEMA = '"secret_pet": ["axolotl", "tarantula"]'


def exchange(said: str, replied: str) -> str:
    return render(ROLE_PLAY, profile="name: Ann", exchange=f"User: {said}\nAssistant: {replied}", schema=SCHEMA)


# The assistant


def test_the_assistant_takes_up_what_was_said_in_the_second_person(ask: Ask) -> None:
    reply = ask("I swim in my lake every day and I'm fond of it. What should I eat?", role="reply")
    assert reply.startswith("I'll keep in mind that you swim in your lake every day and you're fond of it.")


def test_the_assistant_names_things_as_the_user_does(ask: Ask) -> None:
    """With their article and their owner, in the second person: nobody speaks of "easier" as of a thing."""
    told = [ask(f"How do I train my old dog more easily by the canal, week {week}?", role="reply") for week in range(9)]
    assert all("your old dog" in reply for reply in told)
    assert any("the canal" in reply for reply in told)
    assert not any(word in reply for reply in told for word in ("easily", "my old dog"))


def test_the_time_and_the_question_are_not_what_was_said(ask: Ask) -> None:
    reply = ask("[Current Time: 2021-01-01 20:00:00]\nWhich food is best?", role="reply")
    assert "2021" not in reply
    assert "keep in mind" not in reply
    assert reply


def test_the_assistant_brings_back_what_the_user_said_before_on_the_matter(ask: Ask) -> None:
    reply = ask("I own an old cat.", Message("assistant", "I see."), "I bake bread.", "What does a cat eat?")
    assert "As you said before, you own an old cat." in reply
    assert "As you said before" not in ask("I bake bread.", "What does a cat eat?")


def test_the_assistant_does_not_bring_back_its_own_words(ask: Ask) -> None:
    reply = ask("Hello.", Message("assistant", "I own a cat and my cat is old."), "What does a cat eat?")
    assert "As you said before" not in reply


def test_memories_in_the_system_prompt_are_brought_back(ask: Ask) -> None:
    memories = Message(
        "system", render(Templates.bundled().reply_context, memories="- I own an old cat.\n- I bake bread.")
    )
    assert "you own an old cat" in ask(memories, "What does a cat eat?")


def test_what_was_just_said_is_taken_up_unless_something_before_is_louder(ask: Ask) -> None:
    memories = "Memories of the user:\n- pets: My old cat eats fish and rice"
    on_the_matter = ask(Message("system", memories), "I bake bread on Sundays. What does my cat eat?", role="reply")
    assert on_the_matter.startswith("As you said before, your old cat eats fish and rice. ")
    other_matter = ask(Message("system", memories), "I bake bread on Sundays. Which flour is best?", role="reply")
    assert other_matter.startswith("I'll keep in mind that you bake bread on Sundays. ")


@pytest.mark.parametrize("text", ["Hello", "?", "...", "", "[Current Time: 2021-01-01 20:00:00]\n"])
def test_to_next_to_nothing_there_is_a_reply_as_well(ask: Ask, text: str) -> None:
    assert ask(text).endswith(".")


# The simulated user


def test_a_follow_up_is_about_the_assistants_last_reply(ask: Ask) -> None:
    follow_up = ask(exchange("I own a secret axolotl.", "Good. Consider a larger aquarium and gravel."), role="user")
    assert "aquarium" in follow_up
    assert follow_up.endswith("?")


def test_a_follow_up_gives_nothing_away(ask: Ask) -> None:
    for replied in ("Consider an aquarium.", "What do you own?", "Which pet?", ""):
        follow_up = ask(exchange("I own a secret axolotl in Rome.", replied), role="user")
        for secret in ("axolotl", "tarantula", "Rome", "secret", "Ann", "{"):
            assert secret not in follow_up


def test_a_forgetful_reply_leads_the_talk_elsewhere(ask: Ask) -> None:
    """What is remembered wrongly changes what the user says next: talks differ from policy to policy."""
    said = "I fish on Sundays. Which bait should I take?"
    mindful = ask(exchange(said, "You fish on Sundays. Take worms and patience."), role="user")
    forgetful = ask(
        exchange(said, "As you said before, your piano needs tuning. Take worms and patience."), role="user"
    )
    assert "piano" not in mindful
    assert forgetful == "Why do you bring up my piano? I was asking about bait."


@pytest.mark.parametrize(
    ("said", "replied"),
    [
        ("Which bait should I take?", "As you said before, you fish in a lake. Take worms."),
        ("I fish on Sundays. Which bait should I take?", "I'll keep in mind that you fish on Sundays. Take worms."),
        ("I fish on Sundays. Which bait should I take?", "Some anglers swear by bread. Take worms."),
    ],
)
def test_a_reply_that_takes_up_what_was_told_or_claims_nothing_is_followed(ask: Ask, said: str, replied: str) -> None:
    """Where the user has told nothing, what is brought back is welcome."""
    assert "worms" in ask(exchange(said, replied), role="user")


def test_not_even_a_reply_that_says_it_makes_the_user_tell_a_secret(ask: Ask) -> None:
    for replied in ("Your axolotl is fine. Feed the axolotl.", "You own a tarantula, I think. Buy a tarantula house."):
        follow_up = ask(exchange("What should I buy?", replied), role="user")
        assert "axolotl" not in follow_up
        assert "tarantula" not in follow_up


def test_a_question_of_the_assistant_is_left_open(ask: Ask) -> None:
    follow_up = ask(exchange("Hello.", "Sure. Which aquarium do you have?"), role="user")
    assert follow_up.startswith(("I have not decided", "Hard to say"))


def test_a_follow_up_depends_on_the_reply_alone(ask: Ask) -> None:
    replied = "Consider a larger aquarium."
    assert ask(exchange("I own an axolotl.", replied)) == ask(exchange("I own nothing at all.", replied))
    different = {ask(exchange("Hi.", f"Consider aquarium number {i}.")) for i in range(20)}
    assert len(different) > 1


def test_only_the_first_message_alone_makes_it_play_the_user(ask: Ask) -> None:
    talk = "I act in a play; my role: playing the part of the user of a phone. What should I wear?"
    assert "keep in mind" in ask("Hello.", talk)

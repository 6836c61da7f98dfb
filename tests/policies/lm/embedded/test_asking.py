"""The embedded model asks how a sentence of a conversation goes on, and sees nothing but the prompt."""

from __future__ import annotations

import json

import pytest

from mnemotune.policies.lm.embedded.asking import asked_for_question
from mnemotune.policies.prompts import Templates, render


def asked(*messages: str) -> str:
    excerpt = "\n".join(f"{number}. {text}" for number, text in enumerate(messages, 1))
    reply = asked_for_question(render(Templates.bundled().make_question, excerpt=excerpt))
    assert reply is not None
    return reply


def test_it_asks_for_the_end_of_the_sentence_that_tells_a_name_or_a_number() -> None:
    summer, ladder = (
        "user: I spent a summer in the garden. (8 May 2023)",
        "user: I moved my ladder to Lisbon. (9 May 2023)",
    )
    assert json.loads(asked(summer, ladder)) == {
        "question": 'How does it go on, what I said: "I moved my ladder to ..."?',
        "answer": "Lisbon",
        "evidence": [2],
    }


def test_speakers_are_named_and_days_and_pictures_are_not_asked_for() -> None:
    question = json.loads(asked("Ada: My violin was stolen in\nthe old town of Porto. [picture: a case] (3 July 2023)"))
    assert (question["answer"], question["evidence"]) == ("Porto", [1])
    assert question["question"].startswith("How does it go on, what Ada said:")


@pytest.mark.parametrize(
    "said",
    ["assistant: I moved my ladder to Lisbon.", "user: Where did I put my ladder?", "user: Hello there.", "user: "],
)
def test_what_the_assistant_says_questions_and_short_sentences_are_not_asked_for(said: str) -> None:
    assert "{" not in asked(said)


def test_other_prompts_are_none_of_its_business() -> None:
    texts = Templates.bundled()
    assert asked_for_question(render(texts.recollect, query="Where?", today="")) is None
    assert asked_for_question(texts.judge) is None

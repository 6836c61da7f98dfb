"""Relations between things, by the names of their parts."""

from __future__ import annotations

import json

import pytest

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.linking import settle
from mnemotune.policies.lm.embedded.readers import READERS
from mnemotune.policies.lm.embedded.relating import related
from mnemotune.policies.lm.embedded.tasks import read_and_reply


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        ("I have a dog that barks.", ("user", "have", "a dog that barks")),
        ("We've moved to Lisbon.", ("user", "has moved to", "Lisbon")),
        ("job: I switched from coffee to tea.", ("user", "switched from", "coffee to tea, job")),
        ("Lately I've been baking bread.", ("user", "has been baking", "bread, Lately")),
        ("My sister lives in Porto.", ("user's sister", "lives in", "Porto")),
        ("The gym closes at nine.", ("The gym", "closes at", "nine")),
        ("", ("", "", "")),
    ],
)
def test_a_sentence_is_taken_apart_and_no_word_is_lost(said: str, parts: tuple[str, str, str]) -> None:
    assert tuple(related({"source": "", "relation": "", "target": ""}, said).values()) == parts


def test_its_parts_have_the_names_of_the_form() -> None:
    form = '{"facts": [{"destination": "...", "relationship": "...", "subject": "...", "colour": "..."}]}'
    talk = json.dumps([{"role": "user", "content": "I moved to Lisbon."}])
    prompt = f"Note the facts.\n\nReturn:\n{form}\n\nConversation:\n{talk}"
    (fact,) = json.loads(read_and_reply([Message("user", prompt)], next(iter(READERS.values()))))["facts"]
    assert fact == {"destination": "Lisbon", "relationship": "moved to", "subject": "user"}


def relation(source: str, said: str, target: str) -> dict[str, str]:
    return {"subject": source, "predicate": said, "object": target}


KNOWN = {"4": relation("user", "lives in", "a flat in Porto"), "5": relation("Bo", "lives in", "a flat in Porto")}
NEW = {"1": relation("user", "now lives in", "a flat in Lisbon"), "2": relation("user", "bakes", "bread")}


def test_a_relation_of_the_same_matter_and_of_the_same_thing_is_obsolete() -> None:
    form = '{"obsolete": [{"id": "1", "because_of": "2"}]}'
    prompt = f"Old:\n{json.dumps(KNOWN)}\nYoung:\n{json.dumps(NEW)}\nSo:\n{form}"
    reply = read_and_reply([Message("user", prompt)], next(iter(READERS.values())))
    assert json.loads(reply) == {"obsolete": [{"id": "4", "because_of": "1"}]}


def test_what_is_to_be_kept_beside_the_news_is_not_obsolete() -> None:
    prompt = "Never replace what is known: keep the old beside the new."
    assert json.loads(settle(prompt, KNOWN, NEW, "outdated", {"id": "", "by": ""})) == {"outdated": []}

"""Facts with more fields than a text, by the fields' names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.describing import described, entities, keywords
from mnemotune.policies.lm.embedded.readers import READERS
from mnemotune.policies.lm.embedded.tasks import read_and_reply

TOLD = "I moved to Lisbon with my brother."


def facts(form: str, *, known: str = "{}") -> list[Any]:
    talk = json.dumps([{"role": "user", "content": TOLD}])
    prompt = f"Note the facts.\n\nKnown:\n{known}\n\nReturn JSON:\n{form}\n\nConversation:\n{talk}"
    reply = read_and_reply([Message("user", prompt)], next(iter(READERS.values())))
    listed: list[Any] = json.loads(reply)["facts"]
    return listed


def test_a_fact_has_the_fields_of_the_form_in_their_order() -> None:
    (fact,) = facts('{"facts": [{"context": "...", "note": "...", "keywords": ["..."], "colour": "..."}]}')
    assert [*fact] == ["context", "note", "keywords"]
    assert {"Lisbon", "brother"} <= {*fact["keywords"]}


def test_plain_facts_stay_texts() -> None:
    assert all(isinstance(fact, str) for fact in facts('{"facts": ["...", "..."]}'))


def test_what_is_known_is_not_told_again() -> None:
    form = '{"facts": [{"text": "...", "entities": ["..."]}]}'
    (fact,) = facts(form)
    assert facts(form, known=json.dumps({"3": fact["text"]})) == []


def test_steps_are_called_as_the_form_calls_them() -> None:
    added, replaced = {"event": "PUT", "text": "..."}, {"event": "SWAP", "id": "1", "text": "..."}
    form = json.dumps({"lines": [added, replaced, {"event": "SINK", "text": "..."}]})
    known = json.dumps({"4": "I live in Porto."})
    talk = json.dumps([{"role": "user", "content": "I have moved, and now I live in Lisbon. I own two cats."}])
    prompt = f"Note the facts.\n\nKnown:\n{known}\n\nReturn:\n{form}\n\nConversation:\n{talk}"
    reply = json.loads(read_and_reply([Message("user", prompt)], next(iter(READERS.values()))))
    moved, cats = reply["lines"]
    assert (moved["event"], moved["id"], "Lisbon" in moved["text"]) == ("SWAP", "4", True)
    assert (cats["event"], "cats" in cats["text"]) == ("PUT", True)


@pytest.mark.parametrize(
    "steps",
    [
        '{"event": "APPEND|REPLACE|ARCHIVE", "id": "1", "text": "..."}',
        '{"event": "ARCHIVE", "text": "..."}, {"event": "REPLACE", "id": "1", "text": "..."}, '
        '{"event": "APPEND", "text": "..."}',
    ],
)
def test_steps_are_known_by_their_names_too(steps: str) -> None:
    talk = json.dumps([{"role": "user", "content": "I own two cats."}])
    prompt = f'Note the facts.\n\nKnown:\n{{}}\n\nReturn:\n{{"core": [{steps}]}}\n\nConversation:\n{talk}'
    reply = json.loads(read_and_reply([Message("user", prompt)], next(iter(READERS.values()))))
    assert [step["event"] for step in reply["core"]] == ["APPEND"]


def test_names_are_entities_before_long_words() -> None:
    assert entities("Yesterday I met Bo in Lisbon, unfortunately.")[:2] == ["Bo", "Lisbon"]
    assert entities("") == keywords("") == []


def test_keywords_keep_the_order_of_the_text() -> None:
    assert keywords("The dog barks at visitors.") == ["dog", "barks", "visitors"]
    assert described({"text": "", "tags": []}, "A dog barks.", "dog") == {"text": "A dog barks.", "tags": ["dog"]}

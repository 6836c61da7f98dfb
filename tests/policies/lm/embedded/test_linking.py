"""Links between notes."""

from __future__ import annotations

import json

import pytest

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.linking import MOST_KEYWORDS, MOST_LINKS, link_notes
from mnemotune.policies.lm.embedded.readers import READERS
from mnemotune.policies.lm.embedded.tasks import read_and_reply

KNOWN = {
    "3": {"text": "My dog barks at night.", "keywords": ["dog", "barks"]},
    "5": {"text": "I bake bread.", "keywords": ["bread"]},
}
NEW = {"1": {"text": "My dog barks at visitors.", "keywords": ["dog", "visitors"]}}


def test_notes_that_share_words_are_linked_and_those_of_one_matter_share_keywords() -> None:
    reply = json.loads(link_notes(KNOWN, NEW))
    assert reply["links"] == [{"note": "1", "to": ["3"]}]
    assert reply["changes"] == [{"id": "3", "keywords": ["dog", "barks", "visitors"]}]


def test_links_and_keywords_have_an_end() -> None:
    known = {str(i): KNOWN["3"] | {"keywords": [f"word {i} {k}" for k in range(20)]} for i in range(9)}
    reply = json.loads(link_notes(known, NEW))
    assert [len(link["to"]) for link in reply["links"]] == [MOST_LINKS]
    assert {len(change["keywords"]) for change in reply["changes"]} == {MOST_KEYWORDS}


@pytest.mark.parametrize("keywords", [None, 3, [["odd"]]])
def test_a_note_whose_keywords_are_odd_is_linked_too(keywords: object) -> None:
    odd = {"1": {"text": "I live in Porto.", "keywords": keywords}}
    assert json.loads(link_notes(odd, odd))["links"] == [{"note": "1", "to": ["1"]}]


def test_they_are_found_in_a_prompt_of_any_words() -> None:
    form = '{"links": [{"note": "1", "to": ["2"]}], "changes": []}'
    prompt = f"Old:\n{json.dumps(KNOWN)}\nYoung:\n{json.dumps(NEW)}\nSo:\n{form}"
    assert read_and_reply([Message("user", prompt)], next(iter(READERS.values()))) == link_notes(KNOWN, NEW)

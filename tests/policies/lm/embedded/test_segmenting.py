"""Parts of a talk, by the names of a form's fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.readers import READERS
from mnemotune.policies.lm.embedded.tasks import read_and_reply

FORM = {"parts": [{"headline": "...", "story": "...", "until": "2", "colour": "..."}]}


def said(*texts: str, day: str = "") -> list[dict[str, Any]]:
    time = f"[Current Time: {day} 10:00:00]\n" if day else ""
    return [
        each
        for text in texts
        for each in ({"role": "user", "content": time + text}, {"role": "assistant", "content": "I see, and will do."})
    ]


def parts(*talk: dict[str, Any], form: object = FORM) -> list[dict[str, str]]:
    numbered = json.dumps([{"number": i, **message} for i, message in enumerate(talk, 1)])
    prompt = f"Divide the talk.\n\nReturn:\n{json.dumps(form)}\n\nConversation:\n{numbered}"
    reply = read_and_reply([Message("user", prompt)], next(iter(READERS.values())))
    told: list[dict[str, str]] = json.loads(reply)["parts"]
    return told


DOG = "I have a dog that barks all night."
MORE = "My dog barks at the neighbours, too."
WORK = "I work as a nurse in Lisbon."


def test_another_matter_begins_another_part_with_its_own_notes() -> None:
    first, second = parts(*said(DOG, MORE, WORK))
    assert [*first] == ["headline", "story", "until"]
    assert (first["until"], second["until"]) == ("4", "6")
    assert (first["story"], second["story"]) == (f"{DOG} {MORE}", WORK)
    assert "dog" in first["headline"]


def test_another_day_begins_another_part() -> None:
    assert len(parts(*said(DOG, day="2026-01-01"), *said(MORE, day="2026-01-01"))) == 1
    assert len(parts(*said(DOG, day="2026-01-01"), *said(MORE, day="2026-01-02"))) == 2


def test_a_part_of_which_nothing_is_noted_has_a_story_too() -> None:
    (part,) = parts(*said("Hm."))
    assert part["story"]


@pytest.mark.parametrize("form", [{"parts": [{"headline": "..."}]}, {"facts": ["..."]}])
def test_a_form_without_parts_is_another_task(form: object) -> None:
    with pytest.raises(KeyError):
        parts(*said(DOG), form=form)


def test_what_is_known_of_the_topic_is_expected() -> None:
    known = json.dumps({"1": DOG, "2": WORK})
    talk = json.dumps(said(DOG, MORE))
    form = '{"prediction": "...", "facts": [{"text": "..."}]}'
    prompt = f"Note what is new.\n\nKnown:\n{known}\n\nReturn:\n{form}\n\nConversation:\n{talk}"
    reply = json.loads(read_and_reply([Message("user", prompt)], next(iter(READERS.values()))))
    assert reply == {"prediction": DOG, "facts": [{"text": MORE}]}

"""Prompt texts.

Invariants:

1. What fills a slot is never read as a slot itself, and no other brace is touched.
2. A text without its slots is refused where it is read, naming the text and the slot.
"""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mnemotune.policies.prompts import Templates, render

NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=4)
BRACES = st.sampled_from(["{", "}", "{{", "}}", "{}", "{0}", "{a.b}", "{a!r}", "%s", "\\1", "\\g<0>"])
FILLINGS = st.one_of(st.text(max_size=8), BRACES, NAMES.map(lambda name: f"{{{name}}}"))
SLOTS = st.dictionaries(NAMES, FILLINGS, min_size=1)


def test_a_slot_is_filled_wherever_it_stands() -> None:
    assert render("{a} and {b}, {a}", a="x", b="y") == "x and y, x"


def test_only_named_slots_are_filled() -> None:
    assert render('{a} {b} {"a": {a}} {{a}} { a } {A}', a="x") == 'x {b} {"a": x} {x} { a } {A}'


def test_what_fills_a_slot_is_not_read_again() -> None:
    assert render("{a}{b}", a="{b}", b="{a}") == "{b}{a}"
    assert render("{a}", a="{a}{a}") == "{a}{a}"
    assert render("{{a}}", a="b", b="no") == "{b}"


def test_backslashes_in_what_fills_a_slot_are_kept() -> None:
    assert render("{a}", a=r"\1 \g<0> \n") == r"\1 \g<0> \n"


@given(slots=SLOTS, pieces=st.lists(st.one_of(st.text(max_size=8), BRACES)))
def test_a_text_is_its_pieces_with_the_slots_between_them_filled(slots: dict[str, str], pieces: list[str]) -> None:
    plain = [piece for piece in pieces if not any(f"{{{name}}}" in "".join(pieces) for name in slots)]
    names = list(slots)
    template = "|".join([*plain, *(f"{{{name}}}" for name in names)])
    assert render(template, **slots) == "|".join([*plain, *(slots[name] for name in names)])


@given(text=st.text() | BRACES)
def test_a_text_without_slots_is_left_as_it_is(text: str) -> None:
    assert render(text) == text


def test_the_slots_that_a_text_lacks_are_listed() -> None:
    assert Templates.missing_slots("merge", "{memories}") == ["facts"]
    assert Templates.missing_slots("merge", "memories facts { facts }") == ["memories", "facts"]
    assert Templates.missing_slots("write_facts", "{conversation}") == []


# The bundled texts


def test_the_bundled_texts_have_their_slots_and_nothing_that_looks_like_another() -> None:
    texts = Templates.bundled()
    assert set(type(texts).model_fields) == set(Templates.slots())
    known = {slot for slots in Templates.slots().values() for slot in slots.required} | {"start_date", "current_date"}
    for kind in Templates.slots():
        text = getattr(texts, kind)
        assert Templates.missing_slots(kind, text) == []
        filled = render(text, **dict.fromkeys(known, "x"))
        assert not [name for name in known if f"{{{name}}}" in filled]


def test_a_bundled_text_lacking_a_slot_would_be_refused() -> None:
    texts = Templates.bundled().model_dump()
    for kind, slots in Templates.slots().items():
        for slot in slots.required:
            damaged = texts | {kind: texts[kind].replace(f"{{{slot}}}", "")}
            with pytest.raises(ValidationError, match=rf"{kind}: lacks \{{{slot}\}}"):
                Templates.model_validate(damaged)


# Texts of one's own


def test_texts_of_ones_own_replace_the_bundled_ones_and_leave_the_others(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("answer: 'Q {query} C {choices}'", encoding="utf-8")
    texts = Templates.load(path)
    assert texts.answer == "Q {query} C {choices}"
    assert texts == Templates.bundled().model_copy(update={"answer": texts.answer})


def test_an_empty_file_is_the_bundled_texts(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("# nothing yet\n", encoding="utf-8")
    assert Templates.load(path) == Templates.bundled()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("answer: 'Q {query}'", r"answer: lacks \{choices\}"),
        ("greeting: hello", "greeting"),
        ("probe: 7", "probe"),
        ("- answer", r"mine\.yaml"),
        ("answer: {", r"mine\.yaml"),
    ],
)
def test_a_wrong_text_is_refused_with_file_and_text(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=said) as caught:
        Templates.load(path)
    assert str(caught.value).startswith(f"{path}: ")

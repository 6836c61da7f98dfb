"""When two literals are the same, and when a text holds one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data.codeqa.literals import holds_literal, same_literal, type_name


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("16", "0x10"),
        ("`30`", "30"),
        ('"utf-8"', "'utf-8'"),
        ("utf-8", "'utf-8'"),
        ("0.4", '"0.4"'),
        (" ( 1,2 ) ", "(1, 2)"),
        ("ValueError", "ValueError"),
        ("codecs.Codec", " codecs.Codec "),
    ],
)
def test_spacing_quotes_and_notation_make_no_difference(text: str, literal: str) -> None:
    assert same_literal(text, literal)


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("1", "True"),
        ("1.0", "1"),
        ("'5'", "5"),
        ("(1, True)", "(1, 1)"),
        ("Codec", "codecs.Codec"),
        ("'ValueError'", "ValueError"),
        ("30 seconds", "30"),
        ("", "0"),
        ("utf", "'utf-8'"),
    ],
)
def test_another_type_or_another_text_is_another_literal(text: str, literal: str) -> None:
    assert not same_literal(text, literal)


@given(
    st.one_of(st.integers(), st.text(), st.binary(), st.floats(allow_nan=False), st.tuples(st.integers(), st.text()))
)
def test_a_literal_is_the_same_as_itself(value: object) -> None:
    assert same_literal(repr(value), repr(value))


def test_a_text_that_could_never_be_parsed_is_no_literal() -> None:
    assert not same_literal("-" * 100_000 + "1", "1")
    assert not same_literal("(" * 900, "1")


@pytest.mark.filterwarnings("error")
def test_an_escape_that_means_nothing_is_no_warning() -> None:
    assert same_literal(r"'\d'", r'"\d"')


def test_a_text_holds_a_literal_as_a_word_of_its_own() -> None:
    assert holds_literal("def f(limit=30, x=1)", "30")
    assert not holds_literal("def f(limit=300, x=1.30)", "30")
    assert not holds_literal("class MyError(Exception)", "Error")


def test_a_text_holds_a_string_with_and_without_its_quotes() -> None:
    assert holds_literal("mode='strict'", '"strict"'.replace('"', "'"))
    assert holds_literal("What is `CDATA`?", "'CDATA'")
    assert not holds_literal("restricted", "'strict'")


def test_what_is_no_literal_is_a_name() -> None:
    assert [type_name(text) for text in ("3", "'a'", "ValueError", "(1,)")] == ["int", "str", "name", "tuple"]

"""Literals of Python as text: whether two are the same, and whether a text holds one."""

from __future__ import annotations

import ast
import re
import warnings
from functools import lru_cache
from typing import Any

LONGEST_TEXT = 1_000
"""Characters of a literal; a longer text is none, as parsing it could take too much."""


def same_literal(text: str, literal: str) -> bool:
    """Tell whether a text is a literal, or a name, whatever its spacing and quotes.

    A text without quotes is also the string of these characters.
    """
    text, literal = text.strip().strip("`").strip(), literal.strip()
    value, right = _value(text), _value(literal)
    if right == (str, text):
        return True
    return _spaced(text) == _spaced(literal) if value is None or right is None else value == right


def holds_literal(text: str, literal: str) -> bool:
    """Tell whether a text holds a literal as it is written, or the characters of a string as words of their own."""
    value = _value(literal)
    written = [literal, *([value[1]] if value is not None and value[0] is str and value[1].strip() else [])]
    return any(re.search(_bounded(each), text, re.IGNORECASE) for each in written)


def type_name(literal: str) -> str:
    """Return the name of a literal's type; ``name`` for what is none, as a class's name."""
    value = _value(literal)
    return "name" if value is None else value[0].__name__


@lru_cache(maxsize=16_384)
def _value(text: str) -> tuple[type, Any] | None:
    """Return a literal's type and value, the types within a tuple too; None where it is no literal."""
    if len(text) > LONGEST_TEXT:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes that mean nothing
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return type(value), repr(value) if isinstance(value, tuple) else value


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _bounded(text: str) -> str:
    """Return a pattern of a text that neither begins nor ends within a word or a number."""
    before = r"(?<![\w.])" if text[0].isalnum() or text[0] == "_" else ""
    after = r"(?!\w|\.\d)" if text[-1].isalnum() or text[-1] == "_" else ""
    return before + re.escape(text) + after

"""Words in a text."""

from __future__ import annotations

import re


def has_words(text: str, words: str) -> bool:
    """Tell whether these words stand in a text, in the same letters, and are no part of a longer word."""
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None

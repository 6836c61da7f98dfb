"""Kindred words: a little of what everybody knows about people's circumstances."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files

from ...text import stem, words_in_order

KIN_SIGN = "\u2248"
"""The first character of a group's name as a word; no stem has it."""
LONGEST_PHRASE = 3
"""Words of a phrase at most."""


@lru_cache(maxsize=1 << 15)
def kin(text: str) -> frozenset[str]:
    """Return the names of the groups of kindred words that a text touches, each with a sign that no stem has.

    Where phrases overlap, the longest from the left counts: "not too expensive" is not "expensive".
    """
    words = words_in_order(text)
    stemmed = tuple(stem(word) for word in words)
    groups, exact = _groups("lexicon.json"), _groups("lexicon_exact.json")
    longest = _longest("lexicon.json")
    touched: set[str] = set()
    place = 0
    while place < len(words):
        step, names = 1, exact.get((words[place],), ())
        for length in range(min(longest.get(stemmed[place], 0), len(words) - place), 0, -1):
            if found := groups.get(stemmed[place : place + length]):
                step, names = length, found
                break
        touched.update(names)
        place += step
    return frozenset(touched)


def family(group: str) -> str:
    """Return the family of a group: groups of one family are alternatives, as a small and a large budget."""
    return group.removeprefix(KIN_SIGN).split("_")[0]


@cache
def examples(name: str) -> tuple[str, ...]:
    """Return one word of each group of a family, the plainest."""
    members = [phrases for group, phrases in _phrases("lexicon.json").items() if family(group) == name]
    single = [[phrase for phrase in phrases if " " not in phrase] for phrases in members]
    return tuple(min(words, key=lambda word: (len(word), word)) for words in single if words)


@cache
def _phrases(name: str) -> Mapping[str, Sequence[str]]:
    phrases: Mapping[str, Sequence[str]] = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return phrases


@cache
def _groups(name: str) -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Return the groups of each phrase, by its words; by their stems unless the file is of exact words."""
    form = str if "exact" in name else stem
    names_of: dict[tuple[str, ...], set[str]] = {}
    for group, phrases in _phrases(name).items():
        for phrase in phrases:
            names_of.setdefault(tuple(form(word) for word in words_in_order(str(phrase))), set()).add(KIN_SIGN + group)
    return {words: tuple(sorted(names)) for words, names in names_of.items() if words}


@cache
def _longest(name: str) -> Mapping[str, int]:
    """Return the words of the longest phrase that begins with each word."""
    longest: dict[str, int] = {}
    for phrase in sorted(_groups(name), key=len):
        longest[phrase[0]] = min(len(phrase), LONGEST_PHRASE)
    return longest

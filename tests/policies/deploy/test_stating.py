"""Which texts state a fact that is to be forgotten, in any script."""

from __future__ import annotations

import pytest

from mnemotune.policies.deploy.stating import stating


@pytest.mark.parametrize(
    ("fact", "text", "states"),
    [
        ("Я живу в Berlin", "user: Да, я живу в Berlin.", True),
        ("Я живу в Berlin", "Мой брат ненавидит Berlin", False),
        ("我住在上海,用 iPhone", "user: 我住在上海,用的是 iPhone", True),
        ("मेरा बेटा डॉक्टर है", "मेरी बेटी डॉक्टर है", False),
        ("मेरा बेटा डॉक्टर है", "user: मेरा बेटा अब डॉक्टर है", True),
        ("我住在上海,用 iPhone", "我的老板送了我一部 iPhone", False),
        ("likes 🎸", "She likes tea", False),
        ("likes 🎸", "She likes the 🎸 most", True),
        ("Writes C++", "Writes C", False),
        ("Writes C++", "user: I write C++ at work", True),
    ],
)
def test_words_of_other_scripts_count_too(fact: str, text: str, states: bool) -> None:
    assert stating(fact)(text) is states

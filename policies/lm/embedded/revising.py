"""The model rewrites its own memory prompts when a call wants that: it adds what a few questions ask about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...text import stem, stems
from .blocks import ITEM, WORD, fenced

MOST_QUESTIONS = 4
"""Questions that the model reads."""
MOST_ADDED = 3
"""Types of information that it adds in one go."""
WORDS_PER_TYPE = 5

_WANTED = re.compile(r'"(new_types|new_prompt)"')

_QUESTION = re.compile(r"^Question: (.*?);?$", re.MULTILINE)
_CHOICE = re.compile(r"^\(([A-Z])\) (.*?);?$", re.MULTILINE)


def revise(text: str, blocks: Sequence[tuple[str, Any]]) -> str | None:
    """Return a JSON object with a rewritten text and what was changed, as a prompt with feedback asks for it.

    The prompt asks for ``new_types`` or ``new_prompt``; None when it asks for neither. ``blocks`` are its JSON values
    with their sources. What is to be rewritten stands between the first line and the feedback.
    """
    wanted = _WANTED.search(text)
    feedback = next((block for block in blocks if _is_feedback(block[1])), None)
    if wanted is None or feedback is None:
        return None
    source, value = feedback
    given = value if isinstance(value, dict) else {"question_answer_history": value}
    present = _between(text[: text.index(source)])
    known = {word for line in present.splitlines() for word in stems(line)}
    added: list[str] = []
    updates = given.get("user_information_updates")
    names = updates if isinstance(updates, dict) else ()
    updated = ([word for word in name.split("_") if stems(word)] for name in names)
    for words in (*updated, *_words_of_questions(given["question_answer_history"])):
        fresh = [word for word in dict.fromkeys(words) if stem(word.lower()) not in known]
        if len(fresh) >= 2 and len(added) < MOST_ADDED:
            added.append(", ".join(fresh[:WORDS_PER_TYPE]))
            known.update(stem(word.lower()) for word in fresh)
    return fenced({wanted[1]: _with_items(present, added), "changes": [f"added: {item}" for item in added]})


def _is_feedback(value: Any) -> bool:
    items = value.get("question_answer_history") if isinstance(value, dict) else value
    return isinstance(items, list) and any(isinstance(item, dict) and "question" in item for item in items)


def _between(text: str) -> str:
    """Return what stands between a prompt's first line and the line that leads to the feedback."""
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(paragraphs[1:-1] if len(paragraphs) > 2 else paragraphs[1:])


def _words_of_questions(history: Sequence[Any]) -> Iterator[list[str]]:
    """Yield the words of questions and of the right answers that are given; questions answered wrongly come first."""
    questions = [item for item in history if isinstance(item, dict)]
    ranked = sorted(questions, key=lambda item: item.get("ground_truth", "") == item.get("assistant_response"))
    for item in ranked[:MOST_QUESTIONS]:
        text = str(item.get("question", ""))
        choices = dict(_CHOICE.findall(text))
        words = " ".join([*_QUESTION.findall(text), choices.get(str(item.get("ground_truth")), "")])
        yield [word.lower() for word in WORD.findall(words) if stems(word)]


def _with_items(text: str, added: Sequence[str]) -> str:
    """Put items after the last one of a list, in its form; at the end where there is no list."""
    lines = text.split("\n")
    items = [(i, match) for i, line in enumerate(lines) if (match := ITEM.match(line))]
    place = items[-1][0] + 1 if items else len(lines)
    number = items[-1][1][1] if items else None
    marks = [f"{int(number) + n}. " for n in range(1, len(added) + 1)] if number else ["- "] * len(added)
    return "\n".join([*lines[:place], *(mark + item for mark, item in zip(marks, added, strict=True)), *lines[place:]])

"""Episodes and what they tell beyond what was to be expected, in the forms of Nemori's own prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ...text import stems
from .blocks import json_blocks, value_of
from .instructions import Instructions, read_manual
from .segmenting import as_part, parts_of
from .sentences import words_of
from .writing import SAME_MATTER, SAME_NOTE, facts_in, likeness, noted, topic_of

LEAST = 2
"""Messages of an episode; fewer are no episode for who asks, and are lost."""
HOUR = 3600.0
"""Seconds between two talks from which on they are not the same."""
_SECTION = r"^(?:#+ |\*\*)?{}(?:\*\*)?:?[^\n]*\n(.*?)(?=^(?:#+ )?(?:{})|\Z)"
_NEXT = {
    "Conversation content": "Boundary detection reason:",
    "Input Messages": "Your Task",
    "Relevant Knowledge Statements": "Your Task",
    "Original Conversation": "Predicted Summary",
    "Predicted Summary": "Your Task",
    "Episodes to analyze": "HIGH-VALUE Knowledge Criteria|Output Format",
    "Original Episode": "New Episode to Merge",
    "New Episode to Merge": "Combined Event Details",
    "New Episode": "Candidate Episodes to Merge With",
    "Candidate Episodes to Merge With": "Your Task",
}
"""Headings, and those that follow them."""
_SECTIONS = {
    heading: re.compile(_SECTION.format(heading, following), re.MULTILINE | re.DOTALL)
    for heading, following in _NEXT.items()
}
_TURN = re.compile(
    r"^(?:(?P<number>\d+)\. )?(?:\[(?P<time>\d{4}-\d\d-\d\d[^\]\n]*)\] )?(?P<role>user|assistant|system|tool): ", re.M
)
_DAY = re.compile(r"^\[Current Time: (\d{4}-\d\d-\d\d)")
_TIME = re.compile(r"^\s*Time(?: Range)?: (.*?)(?: \(\d+ messages\))?$", re.MULTILINE)
_TITLE = re.compile(r"^\s*Title: (.*)$", re.MULTILINE)
_CONTENT = re.compile(r"^\s*Content: (.*)\Z", re.MULTILINE | re.DOTALL)
_CANDIDATE = re.compile(r"^\d+\. Candidate ID: (\S+)$", re.MULTILINE)
_TITLE_TO_FORETELL = re.compile(r"^\*\*Episode Title/Summary\*\*: (.*)$", re.MULTILINE)
Talk = list[dict[str, Any]]


def episodic(text: str) -> str | None:
    """Return the reply to a prompt that makes or merges episodes, or asks what they tell; None for any other."""
    for heading, answer in _ANSWERS.items():
        if (part := _section(text, heading)) is not None:
            return answer(text, part)
    return None


def _episode(text: str, part: str) -> str | None:
    """Tell a talk as an episode with the time at which it began."""
    talk = _talk_in(part)
    if not talk or '"timestamp"' not in text:
        return None
    title, tale = as_part(talk, noted(_manual(text, part), talk))
    return _as_json({"title": title, "content": tale, "timestamp": _began(talk[0])})


def _segments(text: str, part: str) -> str | None:
    """Divide a talk where the day or the words change."""
    talk = _talk_in(part)
    if not talk or '"indices"' not in text:
        return None
    parts: list[Talk] = [[]]
    for said in parts_of(talk):
        if len(parts[-1]) < LEAST:
            parts[-1] += said
        else:
            parts.append(said)
    if len(parts) > 1 and len(parts[-1]) < LEAST:
        last = parts.pop()
        parts[-1] += last
    told = [{"indices": [message["number"] for message in said], "topic": topic_of(said, {})} for said in parts]
    return _as_json({"episodes": told})


def _foretold(text: str, part: str) -> str | None:
    """Tell what known statements lead to expect of a title, one in a line."""
    title = _TITLE_TO_FORETELL.search(text)
    if title is None:
        return None
    known = [line[2:] for line in part.splitlines() if line.startswith("- ")]
    about = {*stems(title[1])}
    return "\n".join([statement for statement in known if about & {*stems(statement)}]) or title[1]


def _gap(text: str, part: str) -> str | None:
    """Return what a talk tells that was not foretold."""
    talk, foretold = _talk_in(part), _section(text, "Predicted Summary") or ""
    if not talk:
        return None
    known = [words_of(line).all for line in foretold.splitlines()]
    told = facts_in(_manual(text, part), talk)
    return _statements(
        [fact for fact in told if all(likeness(words_of(fact).all, words) < SAME_NOTE for words in known)]
    )


def _told(text: str, part: str) -> str | None:
    """Return what an episode tells."""
    content = _CONTENT.search(part)
    if content is None:
        return None
    return _statements(facts_in(_manual(text, part), [{"role": "user", "content": content[1].strip()}]))


def _decision(text: str, part: str) -> str | None:
    """Merge a new episode with the candidate that is most alike, where both are of the same talk."""
    candidates = _section(text, "Candidate Episodes to Merge With")
    if candidates is None:
        return None
    _, *fields = _CANDIDATE.split(candidates)
    alike = {
        name: likeness(_words(part), _words(candidate))
        for name, candidate in zip(fields[::2], fields[1::2], strict=True)
        if _seconds_between(part, candidate) <= HOUR
    }
    best = max(alike, key=alike.__getitem__, default="")
    merge = bool(best) and alike[best] >= SAME_MATTER
    reason = "They tell of the same talk." if merge else "They tell of different talks."
    decision = {"decision": "merge" if merge else "new", "merge_target_id": best if merge else None}
    return _as_json({**decision, "reason": reason})


def _merged(text: str, part: str) -> str | None:
    """Put two episodes together: what the new one tells besides follows."""
    new = _section(text, "New Episode to Merge")
    if new is None:
        return None
    known = [words_of(sentence).all for sentence in _sentences_of(part)]
    more = [s for s in _sentences_of(new) if all(likeness(words_of(s).all, words) < SAME_NOTE for words in known)]
    title, time = _TITLE.search(part), _TIME.search(part)
    merged = {"title": title[1] if title else "", "content": " ".join([*_sentences_of(part), *more])}
    return _as_json({**merged, "timestamp": _iso(time[1] if time else "")})


_ANSWERS: Mapping[str, Callable[[str, str], str | None]] = {
    "Conversation content": _episode,
    "Input Messages": _segments,
    "Relevant Knowledge Statements": _foretold,
    "Original Conversation": _gap,
    "Episodes to analyze": _told,
    "Original Episode": _merged,
    "New Episode": _decision,
}
"""What is asked under each heading."""


def _section(text: str, heading: str) -> str | None:
    found = _SECTIONS[heading].search(text) if heading in text else None
    return found[1] if found else None


def _manual(text: str, part: str) -> Instructions:
    """Read how things are to be noted from what the form of the reply says of its fields."""
    forms = (source for source, value in json_blocks(text.replace(part, "", 1)) if isinstance(value, dict))
    return read_manual(next(forms, ""))


def _talk_in(part: str) -> Talk:
    """Return the talk of a part, each message with its number and its time; a message may be a JSON text."""
    turns = [*_TURN.finditer(part)]
    ends = [*(turn.start() for turn in turns[1:]), *([len(part)] if turns else ())]
    talk: Talk = []
    for place, (turn, end) in enumerate(zip(turns, ends, strict=True), 1):
        said = part[turn.end() : end].strip()
        quoted = value_of(said) if said.startswith('"') else None
        content = quoted if isinstance(quoted, str) else said
        number = int(turn["number"] or place)
        talk.append({"role": turn["role"], "content": content, "number": number, "time": turn["time"] or ""})
    return talk


def _began(message: Mapping[str, Any]) -> str:
    day = _DAY.match(message["content"])
    return _iso(day[1] if day else message["time"])


def _iso(time: str) -> str:
    """Return a time as ISO has it; empty where it is none."""
    try:
        return datetime.fromisoformat(time.strip()).isoformat()
    except ValueError:
        return ""


def _seconds_between(part: str, other: str) -> float:
    times = [_iso(found[1]) if (found := _TIME.search(text)) else "" for text in (part, other)]
    if not all(times):
        return float("inf")
    first, second = (datetime.fromisoformat(time).replace(tzinfo=None) for time in times)
    return abs((first - second).total_seconds())


def _words(part: str) -> frozenset[str]:
    content = _CONTENT.search(part)
    return words_of(content[1] if content else "").all


def _sentences_of(part: str) -> Sequence[str]:
    content = _CONTENT.search(part)
    return re.split(r"(?<=[.!?])\s+", content[1].strip()) if content else []


def _statements(told: Sequence[str]) -> str:
    return _as_json({"statements": [*told]})


def _as_json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False)

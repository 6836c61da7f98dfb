"""Running summaries: the model keeps what carries a value, each under the lines that it belongs to."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...text import sentences
from ..base import BYTES_PER_TOKEN
from .blocks import texts_in, value_of
from .instructions import Instructions, read_instructions, read_labels
from .lengths import limits
from .meaning import limits_labels
from .sentences import ASKS, OWN, TIME_LINE, message_sentences, words_of
from .values import lines_of, names_value
from .wording import split_sentences
from .writing import likeness, same_from

TOKENS = 300
"""Length of a summary where the prompt says none."""
BYTES_PER_WORD = 6
WORDS_OF_TALK = 25
"""Words of what is said that a summary takes up in one call, at least one sentence."""
LONGEST_LINE = 360
"""Characters of a line that are kept."""
LONGEST_HEAD = 160
"""Characters of a line that may stand above others."""
NAMED, OWN_TALK, SAID, ASSISTANTS = 1.0, 0.8, 0.4, -0.3
"""Worth of a line in which something names a value, of the user's word about the user, and of any other sentence; what
is taken off where it is the assistant's."""
PLAIN = 0.2
"""What is added where a line ends with the value as it is, and not with what it is made of."""
DEEPEST = 9
"""Names before a value's own in JSON that is taken apart."""
CROWD = 0.05
"""What a line loses for each newer one under the same lines, so that one long list does not take all the room."""
STRUCTURED = 1 / 4
"""Share of a user's lines that name values, two at least, above which they are no talk but something shown."""
PER_DETAIL, MOST_DETAILS = 0.1, 4
"""Worth of each name, number or quotation of a sentence, and how many of them count."""
ENOUGH = 0.5
"""Worth from which on a line is kept."""

_ITEMS = re.compile(r"(?:^[ \t>]*- .+(?:\n|\Z))+", re.MULTILINE)
_MARKS = re.compile(r"^\s*(?:```\w*|~~~\w*|</?[\w-]+>)\s*$", re.MULTILINE)
"""Fences and tags on lines of their own."""
_ENDS_PLAIN = re.compile(
    r"""(?:[=:]|\b(?:return|raise))\s*(?:[rbf]?(["']).*\1|-?[\w.+]+|\([^()]*\)|\[[^][]*\])[,;]?$|\):$"""
)
_DETAIL = re.compile(
    r"\b\w*\d[\w.,:/-]*|\"[^\"]+\"|\u201c[^\u201d]+\u201d|\b\w+_\w+|\b[a-z]+[A-Z]\w*|(?<=[\w,;:] )[A-Z][\w-]+|\S+/\S+"
)
_DEFINES = re.compile(r"^(?:(?:async\s+)?def|class)\s")
_NATURES = {
    re.compile(r"^class\s"): "class base",
    re.compile(r"^(?:async\s+)?def\s"): "function argument default",
    re.compile(r"\braise\b|\w(?:Error|Exception)\b"): "exception error",
    re.compile(r"\breturn\b"): "return result",
    re.compile(r"^[A-Z][A-Z0-9_]+\s*[:=]"): "constant setting",
    re.compile(r"(?:\b|_)id\b|\b[A-Z]+\d+\b"): "id",
    re.compile(r"\b\d{4}-\d\d\b|\b(?:1[5-9]|20)\d\d\b"): "date",
    re.compile(r"\d"): "number",
}
"""Words for what a line is, by how it looks."""


@dataclass(frozen=True, slots=True)
class _Note:
    """A line worth keeping."""

    path: tuple[str, ...]
    """The lines that it belongs to, outermost first, and then itself."""
    worth: float
    key: tuple[str, ...] = ()
    """What a later value of the same thing has too; empty for what is said."""
    own: bool = False
    """Whether it is the user's own word."""


def only_labels(prompt: str) -> str:
    """Return the lines with the only labels that a prompt allows notes; nothing where it allows any.

    They stand beside a sentence that speaks of labels, and of these alone; a fence or a tag may be between.
    """
    for match in _ITEMS.finditer(prompt):
        above, below = prompt[: match.start()], prompt[match.end() :]
        beside = (*split_sentences(_MARKS.sub("", above))[-1:], *split_sentences(_MARKS.sub("", below))[:1])
        if any(map(limits_labels, beside)):
            return re.sub(r"^[ \t>]+", "", match[0], flags=re.MULTILINE)
    return ""


def write_summary(prompt: str, so_far: str, conversation: Sequence[Mapping[str, Any]]) -> str:
    """Return a JSON object with the summary so far and what the conversation adds, within the prompt's length."""
    instructions = read_instructions(prompt)
    kept = _merged([*_known(so_far, instructions), *_notes(instructions, conversation)], instructions)
    return json.dumps({"summary": _fitted(kept, _most_bytes(prompt))}, ensure_ascii=False)


def write_labels(prompt: str, memories: Mapping[str, str], conversation: Sequence[Mapping[str, Any]]) -> str:
    """Return a JSON object of a prompt's labels to overwrite; what fits none of them comes under the last."""
    instructions, labels = read_instructions(prompt), read_labels(only_labels(prompt))
    new: dict[str, list[_Note]] = {}
    for note in _notes(instructions, conversation):
        said = " ".join([*note.path, *_natures(note.path[-1], own=note.own)])
        kind, _ = labels.kind_of(words_of(said))
        new.setdefault((kind or labels.kinds[-1]).text, []).append(note)
    written: dict[str, str] = {}
    for label, notes in new.items():
        kept = _merged([*_known(memories.get(label, ""), instructions), *notes], instructions)
        written[label] = _fitted(kept, _most_bytes(prompt))
    return json.dumps(written, ensure_ascii=False)


def _most_bytes(prompt: str) -> int:
    """Return the bytes of the first limit that a prompt states for a text."""
    sizes = (
        (BYTES_PER_TOKEN if unit.startswith("token") else BYTES_PER_WORD, most) for unit, _, most in limits(prompt)
    )
    return next((each * most for each, most in sizes if most is not None), TOKENS * BYTES_PER_TOKEN)


def _known(text: str, instructions: Instructions) -> Iterator[_Note]:
    """Yield the lines of a summary that stand above no others, and those that define something."""
    above: list[tuple[int, str]] = []
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line.strip()]
    for place, (depth, line) in enumerate(lines):
        above = [(other, head) for other, head in above if other < depth]
        heads = tuple(head for _, head in above)
        is_head = place + 1 < len(lines) and lines[place + 1][0] > depth
        if not is_head or _DEFINES.match(line):
            own = any(sentence.voice == OWN for sentence in message_sentences("user", line))
            yield _note((*heads, line), instructions, own=own)
        above.append((depth, line))


def _notes(instructions: Instructions, conversation: Sequence[Mapping[str, Any]]) -> list[_Note]:
    """Return what a conversation has that is worth keeping, in its order: all values, and some of what is said."""
    calls: dict[str, str] = {}
    noted: list[_Note] = []
    for message in conversation:
        role, content = str(message.get("role", "")), TIME_LINE.sub("", str(message.get("content") or ""))
        calls |= _calls(message.get("tool_calls"))
        above = calls.get(str(message.get("tool_call_id")), "")
        notes = _said(role, content, instructions) if _is_talk(role, content) else _seen(content, above, instructions)
        noted += [note for note in notes if note.worth >= ENOUGH]
    left, written = WORDS_OF_TALK, set[int]()
    said = [place for place, note in enumerate(noted) if not note.key]
    for place in sorted(said, key=lambda place: -noted[place].worth):
        left -= len(noted[place].path[-1].split())
        if written and left < 0:
            break
        written.add(place)
    return [note for place, note in enumerate(noted) if note.key or place in written]


def _calls(value: Any) -> dict[str, str]:
    """Return tool calls by id."""
    calls = [call for call in value if isinstance(call, dict)] if isinstance(value, list) else []
    asked = {str(call.get("id")): texts_in(call.get("function")) for call in calls}
    return {key: f"{call.get('name', '')}({call.get('arguments', '')})" for key, call in asked.items()}


def _is_talk(role: str, content: str) -> bool:
    if role == "assistant":
        return True
    lines = [line[:LONGEST_LINE] for line in content.splitlines() if line.strip()]
    named = sum(bool(names_value(line)) for line in lines)
    if role != "user" or named > max(1, STRUCTURED * len(lines)):
        return False
    return any(sentence.voice in (OWN, ASKS) for sentence in message_sentences("user", content))


def _said(role: str, content: str, instructions: Instructions) -> Iterator[_Note]:
    """Yield what somebody says in a talk."""
    less = ASSISTANTS * (1.0 - instructions.speakers) if role == "assistant" else 0.0
    said = message_sentences("assistant" if role == "assistant" else "user", content)
    for sentence in said:
        if not sentence.text.endswith("?") or len(said) == 1:
            yield _note((sentence.text,), instructions, less, own=role != "assistant" and sentence.voice == OWN)


def _seen(content: str, above: str, instructions: Instructions) -> Iterator[_Note]:
    """Yield what an observation holds: lines, sentences, and the values of JSON."""
    outer = (above,) if above else ()
    value = value_of(content) if content.lstrip()[:1] in ("{", "[") else None
    if value is not None:
        yield from (_note((*outer, line), instructions) for line in _flat(value))
        return
    lines = lines_of("user", content)
    above_others = {head for line in lines for head in line.heads}
    for line in lines:
        if line.text in above_others and not _DEFINES.match(line.text.strip()):
            continue
        heads = (*outer, *(head.strip() for head in line.heads if len(head.strip()) <= LONGEST_HEAD))
        for text in [line.text.strip()] if names_value(line.text[:LONGEST_LINE]) else sentences(line.text):
            yield _note((*heads, text), instructions)


def _flat(value: Any, name: str = "") -> Iterator[str]:
    """Yield each value of JSON under its name, which those around it precede; what lies deep stays together."""
    if isinstance(value, dict | list) and name.count(".") < DEEPEST:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in inner:
            yield from _flat(each, f"{name}.{key}" if name else f"{key}")
    else:
        yield f"{name}: {json.dumps(value, ensure_ascii=False)}"


def _note(path: tuple[str, ...], instructions: Instructions, less: float = 0.0, *, own: bool = False) -> _Note:
    text = path[-1][:LONGEST_LINE]
    key = names_value(text)
    details = min(len(_DETAIL.findall(text)), MOST_DETAILS) * PER_DETAIL
    worth = NAMED + PLAIN * bool(_ENDS_PLAIN.search(text)) if key else OWN_TALK if own else SAID + details
    _, fit = instructions.kind_of(words_of(" ".join([text, *_natures(text, own=own)])))
    return _Note((*path[:-1], text), worth + less + fit, key, own)


def _natures(text: str, *, own: bool) -> list[str]:
    """Return words for what a line is, where its own words do not say it."""
    return ["wish goal preference"] * own + [words for pattern, words in _NATURES.items() if pattern.search(text)]


def _merged(notes: Iterable[_Note], instructions: Instructions) -> list[_Note]:
    """Return notes, oldest first, of which the later stands for an earlier about the same."""
    kept: dict[tuple[str, ...], _Note] = {}
    for note in notes:
        same = (*note.path[:-1], *note.key) if note.key else note.path
        kept.pop(same, None)
        if note.own and not instructions.appends:
            words, limit = words_of(note.path[-1]).all, same_from(note.path[-1], instructions)
            for other in [key for key, known in kept.items() if known.own]:
                if likeness(words, words_of(kept[other].path[-1]).all) > limit:
                    del kept[other]
        kept[same] = note
    return [*kept.values()]


def _fitted(notes: Sequence[_Note], most: int) -> str:
    """Return the notes that are worth most, the newer of equals, as an outline of at most so many bytes."""
    chosen, lines, left = list[int](), set[tuple[str, ...]](), most
    worth, newer = dict[int, float](), Counter[tuple[str, ...]]()
    for place in reversed(range(len(notes))):
        above = notes[place].path[:-1]
        worth[place] = notes[place].worth - CROWD * newer[above] * bool(above)
        newer[above] += 1
    for place in sorted(worth, key=lambda place: (-worth[place], -place)):
        path = notes[place].path
        new = {path[:depth] for depth in range(1, len(path) + 1)} - lines
        size = sum(len(each[-1].encode("utf-8", "surrogatepass")) + len(each) for each in new)
        if size <= left:
            chosen.append(place)
            lines |= new
            left -= size
    tree: dict[str, Any] = {}
    for place in sorted(chosen):
        inner = tree
        for line in notes[place].path:
            inner = inner.setdefault(line, {})
    return "\n".join(_outline(tree))


def _outline(tree: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    for line, inner in tree.items():
        yield " " * depth + line
        yield from _outline(inner, depth + 1)

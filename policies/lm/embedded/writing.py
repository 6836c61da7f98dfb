"""Memory writes: the model notes what the prompt in front of it asks for."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...text import stems
from .describing import Events, described
from .instructions import WORDS_PER_FULL_NOTE, Instructions, Kind, read_instructions, slug
from .sentences import OWN, TIME_LINE, Sentence, is_others, message_sentences, tells_change, words_of

WORDS_PER_CALL = 90
"""Words that the model writes in one call, at least one note."""
WORDS_OF_A_LABEL = 2
"""Words that a note's label counts for."""
CLEAR_FIT = 0.35
"""Fit from which on a note is filed under its kind."""
PLAIN_TALK, OWN_TALK = 0.35, 0.25
"""Interest of anything that the user says, and what is added for what the user says of the user."""
OTHERS_OUT, OTHERS_IN = 2.0, 0.25
"""What other people's doings lose in interest where a prompt wants the user's own only, and win where it wants all."""
ENOUGH = 0.42
"""Interest from which on a sentence is noted."""
EMPTY_REQUEST, PER_WORD, MOST_BY_WORDS = 6, 0.025, 0.15
"""Content words of a request that tells nothing of the user; what each more adds to interest, and how much at most."""
SAME_MATTER = 0.33
"""Likeness from which on two notes are taken to be about the same matter."""
CHANGED_MATTER = 0.04
"""The same for a note that says that something has changed: it must have been something."""
EAGER = 0.25
"""Share by which that is less where a prompt asks for what is known to be replaced."""
SAME_NOTE = 0.95
"""Likeness from which on a note tells nothing new."""
NOTE_END = "; "
"""What stands between the notes of one label."""
OTHER = "other"
"""The label of what fits none of the kinds that a prompt names."""
SPEAKER = re.compile(r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)?: ")
"""A name before what somebody says. Where all messages have one, and not the same, people talk to each other: all are
heard like users, and notes are in full, as they have to be understood without the talk."""
FAMILIAR = 10
"""What a word counts for as the topic where labels use it already, beside a mention by the user."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth remembering."""

    text: str
    words: frozenset[str]
    kind: Kind | None
    """The kind of information that it clearly belongs to."""
    interest: float


def write_profile(prompt: str, memories: dict[str, str], conversation: Sequence[dict[str, Any]]) -> str:
    """Return a JSON object of the labels to add or overwrite."""
    instructions = read_instructions(prompt)
    topic = topic_of(conversation, memories)
    changed: dict[str, str] = {}
    new: dict[str, tuple[Note, ...]] = {}
    for note in _notes(instructions, conversation, besides=WORDS_OF_A_LABEL):
        label = _label(note, instructions, topic, memories | changed)
        new[label] = (*new.get(label, ()), note)
        changed[label] = _rewritten(memories.get(label, ""), new[label], instructions)
    return json.dumps(changed, ensure_ascii=False)


def _rewritten(text: str, new: Sequence[Note], instructions: Instructions) -> str:
    """Return a label's text with new notes.

    A new note takes the place of known ones of the same matter; the oldest fall out where the text grows too long.
    """
    known = [note.rstrip(".") for note in text.split(NOTE_END) if note]
    if not instructions.appends:
        known = [note for note in known if not any(_is_news_of(note, one, instructions) for one in new)]
    kept = [*known, *(note.text.rstrip(".") for note in new)]
    while len(kept) > 1 and sum(len(note.split()) for note in kept) > instructions.words_per_label:
        kept.pop(0)
    return NOTE_END.join(kept)


def _is_news_of(known: str, note: Note, instructions: Instructions) -> bool:
    return likeness(note.words, words_of(known).all) > same_from(note.text, instructions)


def write_facts(
    prompt: str,
    conversation: Sequence[dict[str, Any]],
    *,
    form: Mapping[str, Any] | None = None,
    known: Sequence[str] = (),
    expected: str = "",
) -> str:
    """Return a JSON object with a list of facts, each with the topic of the talk where it does not say it.

    They have the fields of a ``form``; without one they are texts. What is ``known`` is not told again; under the name
    ``expected``, where there is one, stands what is known of the talk's topic.
    """
    facts, topic = _facts(read_instructions(prompt), conversation)
    if known:
        heard = [words_of(text).all for text in known]
        facts = [fact for fact in facts if all(likeness(words_of(fact).all, words) <= SAME_NOTE for words in heard)]
    told = facts if form is None else [described(form, fact, topic) for fact in facts]
    ahead = {expected: " ".join(text for text in known if topic in stems(text))} if expected else {}
    return json.dumps({**ahead, "facts": told}, ensure_ascii=False)


def edit_memory(prompt: str, memories: dict[str, str], conversation: Sequence[dict[str, Any]], events: Events) -> str:
    """Return a JSON object with the steps by which a talk changes memories."""
    instructions = read_instructions(prompt)
    return _changed(instructions, memories, facts_in(instructions, conversation), events)


def facts_in(instructions: Instructions, conversation: Sequence[dict[str, Any]]) -> list[str]:
    """Return what a talk tells, each fact with the topic where it does not say it."""
    return _facts(instructions, conversation)[0]


def _facts(instructions: Instructions, conversation: Sequence[dict[str, Any]]) -> tuple[list[str], str]:
    """Return what a talk tells, each fact with the topic where it does not say it, and the topic."""
    topic = topic_of(conversation, {})
    notes = [note.text for note in _notes(instructions, conversation)]
    return [text if SPEAKER.match(text) or topic in stems(text) else f"{topic}: {text}" for text in notes], topic


def noted(instructions: Instructions, conversation: Sequence[dict[str, Any]]) -> list[str]:
    """Return what the model notes of a talk, in the order in which it was said."""
    return [note.text for note in _notes(instructions, conversation)]


def most_telling_note(instructions: Instructions, conversation: Sequence[dict[str, Any]]) -> list[str]:
    """Return what is most interesting in a talk, however little that is; nothing where it tells nothing at all."""
    notes = list(_candidates(instructions, conversation))
    return [max(notes, key=lambda note: note.interest).text] if notes else []


def merge_facts(prompt: str, memories: dict[str, str], facts: Sequence[str]) -> str:
    """Decide what each new fact does to the known ones."""
    return _changed(read_instructions(prompt), memories, facts, Events())


def _changed(instructions: Instructions, memories: dict[str, str], facts: Sequence[str], events: Events) -> str:
    notes = {key: _speaker(text) for key, text in memories.items()}
    known = {key: (speaker, words_of(said).all) for key, (speaker, said) in notes.items()}
    steps: list[dict[str, str]] = []
    for fact in facts:
        speaker, said = _speaker(fact)
        words = words_of(said).all
        theirs = ((likeness(words, others), key) for key, (who, others) in known.items() if who == speaker)
        like, key = max(theirs, default=(0.0, ""))
        if like > SAME_NOTE:
            steps += [{"event": events.none, "id": key}] if events.none else []
        elif like > same_from(fact, instructions) and not instructions.appends:
            steps.append({"event": events.replace, "id": key, "text": fact})
            known.pop(key)
        else:
            steps.append({"event": events.add, "text": fact})
    return json.dumps({events.name: steps}, ensure_ascii=False)


def same_from(text: str, instructions: Instructions) -> float:
    """Return the likeness from which on something said is taken to be about the same matter as what was said before."""
    like = CHANGED_MATTER if tells_change(text) else SAME_MATTER
    return like * (1.0 - EAGER * instructions.replaces)


def _notes(instructions: Instructions, conversation: Sequence[dict[str, Any]], *, besides: int = 0) -> list[Note]:
    """Return the most interesting notes that the model can write in one go, in the order they were said.

    ``besides`` are words that each note takes besides its own.
    """
    notes = [note for note in _candidates(instructions, conversation) if note.interest >= ENOUGH]
    chosen: list[int] = []
    left = WORDS_PER_CALL
    for place in sorted(range(len(notes)), key=lambda place: -notes[place].interest):
        left -= len(notes[place].text.split()) + besides
        if chosen and left < 0:
            break
        chosen.append(place)
    return [notes[place] for place in sorted(chosen)]


def _candidates(instructions: Instructions, conversation: Sequence[dict[str, Any]]) -> Iterator[Note]:
    texts = [str(message.get("content", "")) for message in conversation]
    named = [_speaker(text) for text in texts]
    speakers = {speaker for speaker, _ in named}
    are_two = len(speakers) > 1 and "" not in speakers
    spoken = named if are_two else [("", text) for text in texts]
    for message, (speaker, text) in zip(conversation, spoken, strict=True):
        if message.get("role") != "user" and not speaker:
            yield from _assistants(instructions, message)
            continue
        said = message_sentences("user", text)
        if speaker:
            yield from _turn(instructions, speaker, said)
            continue
        states_something = any(sentence.voice == OWN for sentence in said)
        for sentence in said:
            if states_something and sentence.text.endswith("?") and len(sentence.said.plain) <= EMPTY_REQUEST:
                continue
            lost = OTHERS_OUT if instructions.own > 0 else OTHERS_IN
            more = -lost * instructions.own if is_others(sentence.text) else _told(sentence)
            yield from _note(instructions, sentence, sentence.voice, more)


def _turn(instructions: Instructions, speaker: str, said: Sequence[Sentence]) -> Iterator[Note]:
    """Yield what a person says in one turn as one note, in full and by name, unless it only asks."""
    if all(sentence.text.endswith("?") for sentence in said):
        return
    text = " ".join(sentence.text for sentence in said)
    whole = Sentence(text, words_of(text), OWN, said[0].day)
    yield from _note(instructions, whole, OWN, speaker=speaker)


def _speaker(text: str) -> tuple[str, str]:
    """Return the name before what somebody says, with its colon, and what is said with its time."""
    time = TIME_LINE.match(text)
    start = time.end() if time else 0
    name = SPEAKER.match(text, start)
    return (name[0], text[:start] + text[name.end() :]) if name else ("", text)


def _told(sentence: Sentence) -> float:
    """Return by how much a request is more interesting than one that tells nothing; 0 for a statement."""
    if not sentence.text.endswith("?"):
        return 0.0
    told = PER_WORD * (len(sentence.said.plain) - EMPTY_REQUEST)
    return max(-MOST_BY_WORDS, min(MOST_BY_WORDS, told))


def _assistants(instructions: Instructions, message: Mapping[str, Any]) -> Iterator[Note]:
    """Yield the assistant's statements where a prompt asks for them: at most as interesting as the user's."""
    if message.get("role") == "assistant" and instructions.speakers > 0:
        for sentence in message_sentences("assistant", str(message.get("content", ""))):
            if not sentence.text.endswith("?"):
                yield from _note(instructions, sentence, instructions.speakers)


def _note(
    instructions: Instructions, sentence: Sentence, voice: float, more: float = 0.0, *, speaker: str = ""
) -> Iterator[Note]:
    """Yield a sentence as a note, with ``more`` interest than its voice and its kind give it; it says who spoke."""
    if len(sentence.words) > 1:
        kind, fit = instructions.kind_of(sentence.said)
        interest = (PLAIN_TALK + OWN_TALK * voice) * instructions.care + fit + more
        text = _shorten(sentence.text, instructions, sentence.day, at_least=WORDS_PER_FULL_NOTE if speaker else 0)
        yield Note(speaker + text, sentence.words, kind if fit >= CLEAR_FIT else None, interest)


def _shorten(text: str, instructions: Instructions, day: str, *, at_least: int) -> str:
    """Cut a note where it has more words than the prompt wants, and than ``at_least``."""
    words = text.split()
    kept = words[: max(at_least, instructions.words_per_note)]
    while 1 < len(kept) < len(words) and not stems(kept[-1]):  # nobody ends a note with "the"
        kept.pop()
    short = " ".join(kept)
    return f"{short} ({day})" if instructions.dated and day else short


def likeness(words: frozenset[str], others: frozenset[str]) -> float:
    """Return the cosine of two sets of words, in [0, 1]."""
    return len(words & others) / math.sqrt(len(words) * len(others)) if words and others else 0.0


def topic_of(conversation: Sequence[dict[str, Any]], memories: dict[str, str]) -> str:
    """Return the word that a talk is most about: what is asked counts most, and words that labels use already."""
    used = {word for label in memories for word in stems(label)}
    counts: Counter[str] = Counter()
    for message in conversation:
        role = "user" if message.get("role") == "user" else "assistant"
        for sentence in message_sentences(role, str(message.get("content", ""))):
            weight = (3 if sentence.text.endswith("?") else 2) if role == "user" else 1
            for word in dict.fromkeys(stems(sentence.text)):
                counts[word] += weight + (FAMILIAR if word in used else 0)
    return max(counts, key=counts.__getitem__, default="note")


def _label(note: Note, instructions: Instructions, topic: str, memories: dict[str, str]) -> str:
    """Return the label that the note belongs under.

    Where a prompt lists kinds, it is the kind; elsewhere, and where each matter is to have its own, it is that of the
    same matter, or a new one by the topic of the talk.
    """
    if instructions.lists_kinds and not instructions.separate:
        return OTHER if note.kind is None else slug(note.kind.text)
    like, label = max(
        ((likeness(note.words, words_of(f"{key} {text}").all), key) for key, text in memories.items()),
        default=(0.0, ""),
    )
    if like > same_from(note.text, instructions):
        return label
    return f"{topic}_{_most_telling(note, memories)}" if instructions.separate else topic


def _most_telling(note: Note, memories: dict[str, str]) -> str:
    """Return the note's word that is rarest in memory, the longest of those."""
    known = Counter(word for text in memories.values() for word in stems(text))
    return min(stems(note.text), key=lambda word: (known[word], -len(word), word), default="note")

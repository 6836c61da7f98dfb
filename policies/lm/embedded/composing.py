"""The model as an author: it makes up a person's life, one small JSON reply after another.

It knows which reply is wanted from its form in the prompt, takes from there what is said about the person, and adds a
few sides of a pastime that can change. It writes English only. It is for trying things out, not for good stories.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...text import sentences, stems
from ..base import Message
from .answering import fill_probe, find_schema
from .blocks import json_blocks
from .phrases import PHRASES, Facet, hashed, pick
from .reading import Reading

MOST_IN_A_MESSAGE = 3
"""States that one message tells."""

_MESSAGE = re.compile(r"\bmessage:\n(.+?)\n\n", re.DOTALL)
_FIELD = re.compile(r"^(hobbies[ _]and[ _]interests(?:[ _]list)?|occupation): (.+)$", re.MULTILINE)
_NAME = re.compile(r"\b[A-Z][a-z]+ [A-Z][a-z]+\b")
_VARIANT = re.compile(r"^(\d+): (\{.*\})$", re.MULTILINE)
_WORDS = re.compile(r"[A-Za-z][A-Za-z'-]*")


def compose(messages: Sequence[Message], reading: Reading) -> str | None:
    """Return a piece of a made-up life, or what a message in it tells; None when neither is asked for.

    After a reply that could not be used the piece is composed once more, in other words.
    """
    if [message.role for message in messages] not in (["user"], ["user", "assistant", "user"]):
        return None
    text, salt = messages[0].content, messages[-1].content
    for form, composer in _FORMS.items():
        if form in text:
            try:
                return json.dumps(composer(text, salt), ensure_ascii=False)
            except (StopIteration, LookupError, ArithmeticError, TypeError, ValueError, AttributeError, RecursionError):
                return None  # the form alone does not make it such a prompt
    message = _MESSAGE.search(text)
    if message is not None and '{"<property>": "<value>"}' in text:
        return fill_probe(find_schema(text), "", [Message("user", message[1])], reading)
    return None


def _person(text: str, salt: str) -> dict[str, str]:
    named = _NAME.search(text.split(": ", 1)[-1])
    said = [line.split(": ", 1)[-1] for line in text.splitlines() if re.match(r"[a-z ]*persona: ", line)]
    firsts = [pieces[0] for line in said if (pieces := sentences(line))]
    return {
        "name": named[0] if named else pick(PHRASES.names, text, salt),
        "profile": " ".join(firsts[:3]) or "Likes a friendly chat.",
    }


def _questions(text: str, salt: str) -> dict[str, Any]:
    wanted = _number_in(text, r"(\d+) different questions", most=100)
    states = _number_in(text, r"(\d+) info types", most=len(PHRASES.facets))
    choices = _number_in(text, r"(\d+) choices", most=20)
    topics = _topics(text)
    names = sorted(PHRASES.facets, key=lambda name: hashed(name, text))
    questions = []
    for q in range(wanted):
        topic = topics[q % len(topics)]
        facets = [names[(q * states + i) % len(names)] for i in range(states)]
        keys = {f"{re.sub('[^a-z]+', '_', topic)}_{facet}": facet for facet in facets}
        infos = [{"info_type": key, "info_choices": _values(facet, key, choices)} for key, facet in keys.items()]
        question = PHRASES.questions[(q + hashed(text)) % len(PHRASES.questions)]
        questions.append({"question": question.replace("{topic}", topic), "required_info": infos})
    return {"questions": questions}


def _merge(text: str, salt: str) -> dict[str, list[str]]:
    questions = _first(text, lambda value: isinstance(value, list))
    return {info: [info] for question in questions for info in question["info_types"]}


def _unify(text: str, salt: str) -> dict[str, list[str]]:
    types = _first(text, lambda value: isinstance(value, dict))
    return {info: sources[0]["choices"] for info, sources in types.items()}


def _initial(text: str, salt: str) -> dict[str, str]:
    return {info: pick(choices, info, text) for info, choices in _mapping_to(list, text).items()}


def _update(text: str, salt: str) -> dict[str, Any]:
    schema, state = _mapping_to(list, text), _mapping_to(str, text)
    counts = _mapping_to(int, text)
    wanted = _number_in(text, r"\b[Cc]hange (\d+)", most=len(schema))
    seldom = sorted(schema, key=lambda info: (counts[info], hashed(info, text, salt)))[:wanted]
    updated = {info: pick([v for v in schema[info] if v != state[info]], info, text) for info in seldom}
    changed = ", ".join(dict.fromkeys(_facet(info)[1] for info in updated))
    return {"period_summary": f"A time of change: {changed}.", "updated": updated}


def _events(text: str, salt: str) -> dict[str, Any]:
    updates = _mapping_to(dict, text)
    events = []
    for group in _groups(updates):
        changes = (f"from {_words(updates[info]['old'])} to {_words(updates[info]['new'])}" for info in group)
        events.append({"states": group, "event": f"A change in {_facet(group[0])[1]}: {' and '.join(changes)}."})
    return {"events": events}


def _answers(text: str, salt: str) -> dict[str, Any]:
    variants = ((int(number), json.loads(state)) for number, state in _VARIANT.findall(text))
    return {"answers": [{"variant": number, "answer": _answer(state, salt)} for number, state in variants]}


def _new_answer(text: str, salt: str) -> dict[str, str]:
    return {"new_answer": _answer(_mapping_to(str, text), salt)}


def _answer(state: Mapping[str, str], salt: str) -> str:
    sentences_ = []
    for info, value in state.items():
        first, second = _hints(value)
        advice = pick(_facet(info)[0].advice, info, salt)
        sentences_.append(advice.replace("{first}", first).replace("{second}", second))
    return " ".join(sentences_)


def _hints(value: str) -> tuple[str, str]:
    """Return a value's words, to be used apart; where there is only one, another form of it."""
    words = value.replace("-", " ").replace("_", " ").split()
    if len(words) > 1:
        return words[0], " and ".join(reversed(words[1:]))
    word = "".join(words)
    other = word[:-1] if word.endswith("s") and stems(word[:-1]) == stems(word) else f"{word}s"
    return other, other


def _first_queries(text: str, salt: str) -> dict[str, Any]:
    state = _mapping_to(str, text)
    exposed = [{info: state[info] for info in group} for group in _groups(state)]
    return {"queries": [{"exposed_states": states, "query": _query(states, salt)} for states in exposed]}


def _update_queries(text: str, salt: str) -> dict[str, Any]:
    events = _first(text, lambda value: isinstance(value, list) and bool(value) and "now" in value[0])
    return {"queries": [{"event": event["number"], "query": _query(event["now"], salt)} for event in events]}


def _new_query(text: str, salt: str) -> dict[str, str]:
    return {"new_query": _query(_mapping_to(str, text), salt)}


def _query(states: Mapping[str, str], salt: str) -> str:
    topic = _facet(next(iter(states)))[1]
    lines = [_say(info, value, salt) for info, value in states.items()]
    chat, ask = pick(PHRASES.chat, *states, salt), pick(PHRASES.ask, *states, salt)
    return " ".join([chat, *lines, ask.replace("{topic}", topic)])


def _say(info: str, value: str, salt: str) -> str:
    facet, topic = _facet(info)
    line = pick(facet.say, info, value, salt)
    if _words(value)[:1].lower() in "aeiou":
        line = line.replace(" a {value}", " an {value}")
    return line.replace("{topic}", topic).replace("{value}", _words(value))


_FORMS: Mapping[str, Callable[[str, str], object]] = {
    '"profile": "<': _person,
    '"info_choices": [': _questions,
    '["<old info type>"': _merge,
    '["<unified value>"': _unify,
    '"<initial value>"': _initial,
    '"period_summary": "<': _update,
    '"events": [{"states"': _events,
    '"answers": [{"variant"': _answers,
    '"new_answer": "<': _new_answer,
    '"queries": [{"exposed_states"': _first_queries,
    '"queries": [{"event"': _update_queries,
    '"new_query": "<': _new_query,
}
"""What the reply's form in a prompt asks for."""


def _topics(profile: str) -> list[str]:
    """Return what the profile names first, each in a few words and once."""
    named = [
        f"{part} work" if field == "occupation" else part
        for field, given in _FIELD.findall(profile)
        for part in given.split(",")
        if part.strip() != "N/A"
    ]
    topics = (" ".join(_WORDS.findall(part)[:4]).lower() for part in (*named, *PHRASES.topics))
    return list(dict.fromkeys(topic for topic in topics if stems(topic)))


def _values(name: str, key: str, count: int) -> list[str]:
    """Return values of a facet; where more are wanted than it has, they have no better name than a number."""
    known, start = PHRASES.facets[name].values, hashed(key)
    own = [known[(start + i) % len(known)] for i in range(min(count, len(known)))]
    return own + [f"variant_{name}{n}" for n in range(len(own) + 1, count + 1)]


def _facet(info: str) -> tuple[Facet, str]:
    """Return the facet that an info type is about, and its topic in words."""
    topic, _, name = info.rpartition("_")
    return (PHRASES.facets[name], _words(topic)) if topic and name in PHRASES.facets else (PHRASES.other, _words(info))


def _groups(infos: Mapping[str, object]) -> list[list[str]]:
    """Put info types of the same topic together, as many as one message tells."""
    by_topic: dict[str, list[str]] = {}
    for info in infos:
        by_topic.setdefault(_facet(info)[1], []).append(info)
    most = MOST_IN_A_MESSAGE
    return [group[i : i + most] for group in by_topic.values() for i in range(0, len(group), most)]


def _first(text: str, is_wanted: Callable[[Any], bool]) -> Any:
    return next(value for _, value in json_blocks(text) if is_wanted(value))


def _mapping_to(kind: type, text: str) -> dict[str, Any]:
    """Return the first mapping of names to values of a type, such as a state or a schema."""

    def is_wanted(value: Any) -> bool:
        return isinstance(value, dict) and bool(value) and all(isinstance(inner, kind) for inner in value.values())

    mapping: dict[str, Any] = _first(text, is_wanted)
    return mapping


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number_in(text: str, pattern: str, *, most: int) -> int:
    match = re.search(pattern, text)
    if match is None:
        raise LookupError(pattern)
    return min(int(match[1]), most)

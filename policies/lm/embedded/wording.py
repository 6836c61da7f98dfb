"""The words of instructions: sentences as rows of phrases, each with the groups of one meaning that it belongs to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ...text import stem

SPOKEN_OF = 6
"""Words between "when" and "it was said"."""
LONGEST = 6
"""Words of a phrase at most."""

_EVENT = r"\b(?:ADD|UPDATE|DELETE|NONE)\b"
_OF_AN_EVENT = re.compile(
    rf"[\W\d_]*{_EVENT}(?:[\"'`*)\]]*\s*(?:[:=|,.;\u2192\u2013\u2026\u2014-]|$|(?:when|if|where|for|means|says|signifies|stands)\b)|\")"
)
FIELDS = frozenset(
    "title heading headline tag keyword catchword entity label name key topic".split()
    + "titles headings headlines tags keywords catchwords entities labels names keys topics".split()
)
"""What a reply may have beside a note's text."""
STOPS = frozenset(",;:.!?()\n\u2013\u2014-")

_TOKEN = re.compile(r"[a-z0-9]+(?:'[a-z]+)?|[,;:.!?()\n\u2013\u2014]|(?<=\s)-+(?=\s)")
_INLINE = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]")
_SENTENCE = re.compile(
    r"(?<=[.!?])[\"')\]*_`]*\s+|\n\s*\n|\n(?=\s*(?:[-*\u2022]|\d{1,2}[.)])\s)|\n(?![a-z0-9{(\"'])|(?<=:)\n"
)
_BEGUN = re.compile(r"(?:\S+ ){0,2}\S+:")
"""A few words that the next line goes on with."""
_CONTRACTED = re.compile(r"\b(?:(\w+)n't|(are|could|did|do|does|had|has|have|is|must|need|should|was|were|would)nt)\b")
_FULL_FORMS = {"ca": "can", "wo": "will", "sha": "shall"}
_SPLIT_OUT = re.compile(
    r"\b(leave|leaves|leaving|cut|cutting|strip|throw|throwing|weed|weeding|filter|keep|keeping|take|takes|taking|took|"
    r"put|edit|boil|trim|pare|slim|whittle|set|lay|push|brush|cast|sift|screen|rule)"
    r"((?: (?!(?:and|or|but|to|out)\b)[\w']+){1,5}) "
    r"(out|aside|away|off|down|apart|behind|into (?:account|consideration))\b"
)
_SPLIT_UP = re.compile(r"\b(make|making|made|think|thinking|dream|sum)((?: (?!(?:and|or|but|to)\b)[\w']+){1,4}) (up)\b")
_OF_A_REPLY = re.compile(
    r"\b(?:exactly|exact|complete|full|whole|entire|short|brief|detailed)(?= (?:\w+ ){0,3}"
    r"(?:json|object|dictionary|format|form|structure|schema|keys|array)\b)"
)
"""Words that say how the form of a reply is to be kept, and nothing of what it tells."""
_HEADING = re.compile(r"#+ .*|<[\w /-]+>|\*\*[^*]+\*\*:?|__[^_]+__:?")
_RELATIVE = re.compile(
    r" (?:that|which) (?:is|are|was|were|seems?) (?:not )?(?:(?:in|un)?essential|(?:un)?important|(?:un)?necessary|"
    r"(?:un)?needed|(?:ir)?relevant|required|superfluous|useful)\b"
)


@dataclass(frozen=True, slots=True)
class Thing:
    """A pole of an ability that words speak for."""

    ability: str
    pole: float
    how: str
    """What else has to stand in the sentence for it to count, or that it is a verb."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The phrases of ``meaning.json``."""

    groups: Mapping[tuple[str, ...], frozenset[str]]
    """The groups of each phrase, by its stems; a thing is a group too, by its number."""
    exact: Mapping[tuple[str, ...], frozenset[str]]
    """The groups of phrases that count in just this form, by their words."""
    things: Mapping[str, Thing]
    pairs: Mapping[tuple[str, str], tuple[str, ...]]
    """The things that two groups make together."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A phrase of a sentence, another word, or a stop."""

    place: int
    """Of its first word in the sentence."""
    words: str
    groups: frozenset[str]


def split_sentences(text: str) -> tuple[str, ...]:
    """Split a prompt into sentences; a line that goes on in the next one stays whole, an item of a list does too."""
    pieces: list[str] = []
    for piece in filter(None, map(str.strip, filter(None, _SENTENCE.split(text)))):
        if pieces and _BEGUN.fullmatch(pieces[-1]) and piece[0].islower():
            pieces[-1] += f"\n{piece}"
        else:
            pieces.append(piece)
    return tuple(pieces)


def names_events(sentence: str) -> bool:
    """Tell whether a sentence names the events of a reply, or says what one of them stands for: it wishes for none."""
    return len(set(re.findall(_EVENT, sentence))) > 2 or _OF_AN_EVENT.match(sentence) is not None


@cache
def vocabulary() -> Vocabulary:
    """Read the phrases: acts and words that turn, parts of things (after ``~``) and things (after ``#``)."""
    content = json.loads(files(__package__).joinpath("meaning.json").read_text(encoding="utf-8"))
    groups: dict[tuple[str, ...], set[str]] = {}
    exact: dict[tuple[str, ...], set[str]] = {}
    things: dict[str, Thing] = {}
    pairs: dict[tuple[str, str], list[str]] = {}
    listed = [*content["operators"].items(), *(("~" + name, words) for name, words in content["parts"].items())]
    for number, each in enumerate(content["objects"]):
        name = f"#{number}"
        things[name] = Thing(each["ability"], float(each["pole"]), each["how"])
        if "pair" in each:
            first, second = (part if part in content["operators"] else "~" + part for part in each["pair"])
            pairs.setdefault((first, second), []).append(name)
        else:
            listed.append((name, each["words"]))
    for name, phrases in listed:
        for phrase in phrases:
            words = _normal(phrase.removeprefix("=")).split()
            if phrase.startswith("="):
                exact.setdefault(tuple(words), set()).add(name)
            else:
                groups.setdefault(tuple(map(stem, words)), set()).add(name)
    return Vocabulary(
        {words: frozenset(names) for words, names in groups.items()},
        {words: frozenset(names) for words, names in exact.items()},
        things,
        {parts: tuple(names) for parts, names in pairs.items()},
    )


def _normal(text: str) -> str:
    """Return a text in lower case, with its short forms written out and its particles beside their verbs."""
    lower = text.lower().replace("\u2019", "'").replace("_", " ")
    lower = _CONTRACTED.sub(_in_full, lower)
    lower = _RELATIVE.sub(" ", lower)
    lower = re.sub(r"(?<=\w)-(?=\w)", " ", lower)
    return _SPLIT_UP.sub(r"\1 \3\2", _SPLIT_OUT.sub(r"\1 \3\2", lower))


def _in_full(short: re.Match[str]) -> str:
    verb = short[1] or short[2]
    return f"{_FULL_FORMS.get(verb, verb)} not"


def is_heading(sentence: str) -> bool:
    """Tell whether a sentence is marked as a heading."""
    return _HEADING.fullmatch(sentence.strip()) is not None


def without_places(sentence: str) -> str:
    """Return a sentence without what stands in braces and brackets: places to be filled, and forms of a reply."""
    return _INLINE.sub(" ", sentence)


def hits_of(sentence: str) -> list[Hit]:
    """Return a sentence's phrases, the longest from the left, other words and stops; where its lines end is no stop."""
    groups, exact = vocabulary().groups, vocabulary().exact
    tokens = _TOKEN.findall(_OF_A_REPLY.sub(" ", _normal(" ".join(without_places(sentence).split()))))
    stemmed = [stem(token) for token in tokens]
    hits: list[Hit] = []
    place = 0
    while place < len(tokens):
        for length in range(min(LONGEST, len(tokens) - place), 0, -1):
            span = slice(place, place + length)
            names = groups.get(tuple(stemmed[span]), frozenset()) | exact.get(tuple(tokens[span]), frozenset())
            if names or length == 1:
                hits.append(Hit(place, " ".join(tokens[span]), names))
                place += length
                break
    return [_as_date(hit, hits) if hit.words == "when" else hit for hit in hits]


def _as_date(hit: Hit, hits: Sequence[Hit]) -> Hit:
    """Return the word "when" as a day where it asks when something was said, and else as a condition."""
    near = [other for other in hits if hit.place < other.place <= hit.place + SPOKEN_OF]
    after = [other for other in near if other.words.strip()]  # a line may break behind it
    is_void = bool(after) and after[0].words.split()[0] in ("nothing", "no", "there")
    is_day = hit.place > 0 and not is_void and any("~said" in other.groups for other in after)
    return Hit(hit.place, hit.words, frozenset({"~when"} if is_day else {"condition"}))

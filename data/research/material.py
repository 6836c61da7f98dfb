"""What dossiers are made of: the installed distributions, or a folder of documents, as subjects with prose."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parseaddr
from functools import cache, lru_cache
from importlib.metadata import Distribution, distributions
from itertools import count, pairwise
from pathlib import Path

from ..task import TaskError
from ..values import Values
from .relations import bundled_relations

SUFFIXES = (".md", ".txt", ".rst")
MOST_PASSAGES = 200
"""Sentences that are kept of one subject's text."""
SHORTEST, LONGEST = 40, 240
"""Characters of a sentence that is kept."""

_MARK = re.compile("\x02([0-9]+)\x03")
_WORD = re.compile(r"[A-Za-z0-9]+")
_JOINED = re.compile(r"[-_. ]+")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_HEADING = re.compile(r"^#+ +(.+?) *#*$|^([^\n]+)\n[=~#*-]{3,}$", re.MULTILINE)
_BLOCK = re.compile(r"\n\s*\n")
_REQUIRED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class _Writing:
    """What words and sentences are made of."""

    word: re.Pattern[str]
    sentence_end: re.Pattern[str]
    prose: re.Pattern[str]
    """A whole sentence."""

    def key(self, name: str) -> str:
        """Return a name's words in lower case."""
        return " ".join(self.word.findall(name.lower()))


_ASCII = _Writing(_WORD, re.compile(r"(?<=[.!?])\s+(?=[A-Z])"), re.compile(r"[A-Z][A-Za-z0-9 ,;:'()./\"-]+[.!?]"))
"""That of the installed distributions: dossiers were made of its sentences, and stay what they are."""
_MARKS = (
    "\u2010-\u2027\u00ab\u00bb\u00b7\u2039\u203a\u3001\u3002\u3008-\u3011\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f"
)
"""Dashes, quotation marks and other typographic marks, also Chinese and Japanese ones."""


@cache
def _any_script() -> _Writing:
    """Return the writing of documents: letters of any script, and typographic marks."""
    firsts = "".join(each for each in map(chr, range(0x10000)) if each.isalpha() and not each.islower())
    return _Writing(
        re.compile(r"[^\W_]+"),
        re.compile(rf"(?<=[.!?\u2026])\s+(?=[{firsts}])|(?<=[\u3002\uff01\uff1f])\s*"),
        re.compile(rf"[{firsts}](?:[^\W_]|[ ,;:'()./\"{_MARKS}-])+[.!?\u2026\u3002\uff01\uff1f]"),
    )


@dataclass(frozen=True, slots=True)
class Subject(Values):
    """A thing that the material is about."""

    name: int
    """The place of its name among the material's names."""
    author: int | None
    """That of its author's name; None where nobody is named."""
    links: tuple[int, ...]
    """Those of the subjects that it leads to."""
    passages: tuple[str, ...]
    """Sentences about it; names stand in them as marks, which ``renamed`` fills."""


@dataclass(frozen=True, slots=True)
class Material(Values):
    """Subjects, and the names that occur nowhere in what is made of them."""

    subjects: tuple[Subject, ...]
    names: tuple[str, ...]

    @property
    def words(self) -> frozenset[str]:
        """All words of names and passages, in lower case."""
        texts = (*self.names, *(text for subject in self.subjects for text in subject.passages))
        return frozenset(word.lower() for text in texts for word in _WORD.findall(text))


def marks_in(passage: str) -> frozenset[int]:
    """Return the places of the names that stand in a passage."""
    return frozenset(int(place) for place in _MARK.findall(passage))


def renamed(passage: str, names: Mapping[int, str]) -> str:
    """Return a passage with other names in the places of its marks."""
    return _MARK.sub(lambda mark: names[int(mark[1])], passage)


@lru_cache(maxsize=4)
def installed() -> Material:
    """Return the installed distributions: their names, authors, requirements and descriptions."""
    by_key: dict[str, Distribution] = {}
    for distribution in distributions():
        by_key.setdefault(_ASCII.key(_said(distribution, "Name")), distribution)
    by_key.pop("", None)
    found = [by_key[key] for key in sorted(by_key)]
    texts = [_description(distribution) for distribution in found]
    names = [_said(distribution, "Name") for distribution in found]
    authors, required = [_author(each) for each in found], [_required(each) for each in found]
    return _material(names, authors, required, texts, _ASCII)


def folder(path: Path) -> Material:
    """Return the documents of a folder; a document leads to those whose titles it names. Raises TaskError.

    A document whose title another has already, or whose title is none, such as "Overview", is numbered.
    """
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        raise TaskError(f"{path}: holds no {', '.join(SUFFIXES)} file to make dossiers of")
    texts = [_read(file) for file in files]
    titles = [_title(text) or file.stem for file, text in zip(files, texts, strict=True)]
    names = _numbered(titles, _any_script())
    material = _material(names, [""] * len(files), [()] * len(files), texts, _any_script())
    if not any(subject.passages for subject in material.subjects):
        raise TaskError(f"{path}: no file holds a whole sentence of {SHORTEST} to {LONGEST} characters")
    return material


def _read(file: Path) -> str:
    try:
        return unicodedata.normalize("NFC", file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{file}: cannot be read as UTF-8 text ({error})") from None


def _title(text: str) -> str:
    heading = _HEADING.search(text)
    return " ".join(_any_script().word.findall(heading[1] or heading[2])) if heading else ""


def _numbered(titles: Sequence[str], writing: _Writing) -> list[str]:
    """Return titles as names that are all different; the first of several that are alike stays as it is."""
    given, names, taken = {writing.key(title) for title in titles}, list[str](), set[str]()
    for title in titles:
        name = title
        if writing.key(title) in taken or not _is_name(writing.key(title)):
            numbered = (f"{title} {number}" for number in count(1))
            name = next(each for each in numbered if writing.key(each) not in taken | given)
        names.append(name)
        taken.add(writing.key(name))
    return names


def _is_name(key: str) -> bool:
    """Tell whether a name has a word that is none of the generator's own sentences."""
    return not bundled_relations().words.issuperset(key.split())


def _author(distribution: Distribution) -> str:
    """Return the first author's name, or nothing."""
    given = _said(distribution, "Author") or parseaddr(_said(distribution, "Author-email"))[0]
    return given.split(",")[0].strip()[:60]


def _description(distribution: Distribution) -> str:
    payload = distribution.metadata.get_payload()  # type: ignore[attr-defined]
    return payload if isinstance(payload, str) and payload.strip() else _said(distribution, "Description")


def _said(distribution: Distribution, field: str) -> str:
    """Return a field of a distribution's metadata; where it is not there, some finders return None, others raise."""
    metadata = distribution.metadata
    return str(metadata[field] or "") if field in metadata else ""


def _required(distribution: Distribution) -> Sequence[str]:
    required = (_REQUIRED.match(line) for line in distribution.requires or () if "extra ==" not in line)
    return [match[0] for match in required if match]


def _material(
    names: Sequence[str],
    authors: Sequence[str],
    required: Sequence[Sequence[str]],
    texts: Sequence[str],
    writing: _Writing,
) -> Material:
    """Put subjects together; names that are equal but for case and punctuation are the same.

    A name of which every word is one of the generator's own sentences, such as "package", is none.
    """
    places: dict[str, int] = {}
    every: list[str] = []
    for name in (*names, *authors):
        key = writing.key(name)
        if key not in places and _is_name(key):
            places[key] = len(every)
            every.append(name)
    marker, subjects, met = _Marker(places, writing), list[Subject](), set[int]()
    for name, author, needs, text in zip(names, authors, required, texts, strict=True):
        place = places.get(writing.key(name))
        if place is None or place in met:
            continue
        met.add(place)
        passages = tuple(marker.marked(sentence) for sentence in _sentences(text, writing))
        named = [place for passage in passages for place in map(int, _MARK.findall(passage))]
        links = [places[key] for key in map(writing.key, needs) if key in places] if needs else named
        subjects.append(Subject(place, places.get(writing.key(author)), tuple(dict.fromkeys(links)), passages))
    own = {subject.name for subject in subjects}
    kept = [
        Subject(s.name, s.author, tuple(link for link in s.links if link in own - {s.name}), s.passages)
        for s in subjects
    ]
    return Material(tuple(kept), tuple(every))


def _sentences(text: str, writing: _Writing) -> list[str]:
    """Return the whole sentences of a text's prose, each once; code, lists, tables and links are left out."""
    text = _FENCE.sub("", text.replace("\r\n", "\n"))
    kept = dict[str, None]()
    for block in _BLOCK.split(text):
        if block.startswith(("    ", "\t", "..", ">>>", "|", "#", "$", "<")):
            continue
        joined = " ".join(_LINK.sub(r"\1", block).replace("`", "").replace("*", "").split())
        for sentence in writing.sentence_end.split(joined):
            if SHORTEST <= len(sentence) <= LONGEST and writing.prose.fullmatch(sentence) and "//" not in sentence:
                kept[sentence] = None
                if len(kept) == MOST_PASSAGES:
                    return list(kept)
    return list(kept)


class _Marker:
    """Finds names in sentences: their words in order, whatever joins them."""

    def __init__(self, places: Mapping[str, int], writing: _Writing) -> None:
        self._word = writing.word
        self._by_first: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for key, place in places.items():
            words = tuple(key.split())
            self._by_first.setdefault(words[0], []).append((words, place))
        for names in self._by_first.values():
            names.sort(key=lambda name: -len(name[0]))

    def marked(self, sentence: str) -> str:
        """Return a sentence with marks in the places of names."""
        words = list(self._word.finditer(sentence))
        parts, start, i = list[str](), 0, 0
        while i < len(words):
            place, count = self._at(sentence, words, i)
            if place is None:
                i += 1
                continue
            parts += [sentence[start : words[i].start()], f"\x02{place}\x03"]
            i += count
            start = words[i - 1].end()
        return "".join([*parts, sentence[start:]])

    def _at(self, sentence: str, words: Sequence[re.Match[str]], i: int) -> tuple[int | None, int]:
        for name, place in self._by_first.get(words[i][0].lower(), ()):
            span = words[i : i + len(name)]
            if tuple(word[0].lower() for word in span) == name and _are_joined(sentence, span):
                return place, len(name)
        return None, 0


def _are_joined(sentence: str, span: Sequence[re.Match[str]]) -> bool:
    return all(_JOINED.fullmatch(sentence, before.end(), after.start()) for before, after in pairwise(span))


def drawn(material: Material, rng: random.Random) -> Iterator[Subject]:
    """Yield subjects in the order of a draw, again and again."""
    order = rng.sample(material.subjects, len(material.subjects))
    while True:
        yield from order


def occurs(name: str, texts: Iterable[str]) -> bool:
    """Tell whether a name stands in texts: its words in order, whatever joins them, in any case."""
    words = [re.escape(word) for word in _any_script().word.findall(name)]
    pattern = re.compile(rf"(?<![^\W_]){_JOINED.pattern.join(words)}(?![^\W_])", re.IGNORECASE)
    return bool(words) and any(pattern.search(text) for text in texts)

"""What dossiers are made of: the installed distributions, or a folder of documents, as subjects with prose."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parseaddr
from functools import lru_cache
from importlib.metadata import Distribution, distributions
from itertools import pairwise
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
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_PROSE = re.compile(r"[A-Z][A-Za-z0-9 ,;:'()./\"-]+[.!?]")
_HEADING = re.compile(r"^#+ +(.+?) *#*$|^([^\n]+)\n[=~#*-]{3,}$", re.MULTILINE)
_BLOCK = re.compile(r"\n\s*\n")
_REQUIRED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
        by_key.setdefault(_key(_said(distribution, "Name")), distribution)
    by_key.pop("", None)
    found = [by_key[key] for key in sorted(by_key)]
    texts = [_description(distribution) for distribution in found]
    names = [_said(distribution, "Name") for distribution in found]
    return _material(names, [_author(each) for each in found], [_required(each) for each in found], texts)


def folder(path: Path) -> Material:
    """Return the documents of a folder; a document leads to those whose titles it names. Raises TaskError."""
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        raise TaskError(f"{path}: holds no {', '.join(SUFFIXES)} file to make dossiers of")
    texts = [_read(file) for file in files]
    titles = [_title(text) or file.stem for file, text in zip(files, texts, strict=True)]
    material = _material(titles, [""] * len(files), [()] * len(files), texts)
    if not any(subject.passages for subject in material.subjects):
        raise TaskError(f"{path}: no file holds a whole sentence of {SHORTEST} to {LONGEST} characters")
    return material


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{file}: cannot be read as UTF-8 text ({error})") from None


def _title(text: str) -> str:
    heading = _HEADING.search(text)
    return " ".join(_WORD.findall(heading[1] or heading[2])) if heading else ""


def _key(name: str) -> str:
    return " ".join(_WORD.findall(name.lower()))


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
    names: Sequence[str], authors: Sequence[str], required: Sequence[Sequence[str]], texts: Sequence[str]
) -> Material:
    """Put subjects together; names that are equal but for case and punctuation are the same.

    A name of which every word is one of the generator's own sentences, such as "package", is none.
    """
    places: dict[str, int] = {}
    every: list[str] = []
    common = bundled_relations().words
    for name in (*names, *authors):
        key = _key(name)
        if key not in places and not common.issuperset(key.split()):
            places[key] = len(every)
            every.append(name)
    marker, subjects, met = _Marker(places), list[Subject](), set[int]()
    for name, author, needs, text in zip(names, authors, required, texts, strict=True):
        place = places.get(_key(name))
        if place is None or place in met:
            continue
        met.add(place)
        passages = tuple(marker.marked(sentence) for sentence in _sentences(text))
        named = [place for passage in passages for place in map(int, _MARK.findall(passage))]
        links = [places[_key(need)] for need in needs if _key(need) in places] if needs else named
        subjects.append(Subject(place, places.get(_key(author)), tuple(dict.fromkeys(links)), passages))
    own = {subject.name for subject in subjects}
    kept = [
        Subject(s.name, s.author, tuple(link for link in s.links if link in own - {s.name}), s.passages)
        for s in subjects
    ]
    return Material(tuple(kept), tuple(every))


def _sentences(text: str) -> list[str]:
    """Return the whole sentences of a text's prose, each once; code, lists, tables and links are left out."""
    text = _FENCE.sub("", text.replace("\r\n", "\n"))
    kept = dict[str, None]()
    for block in _BLOCK.split(text):
        if block.startswith(("    ", "\t", "..", ">>>", "|", "#", "$", "<")):
            continue
        joined = " ".join(_LINK.sub(r"\1", block).replace("`", "").replace("*", "").split())
        for sentence in _SENTENCE_END.split(joined):
            if SHORTEST <= len(sentence) <= LONGEST and _PROSE.fullmatch(sentence) and "//" not in sentence:
                kept[sentence] = None
                if len(kept) == MOST_PASSAGES:
                    return list(kept)
    return list(kept)


class _Marker:
    """Finds names in sentences: their words in order, whatever joins them."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self._by_first: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for key, place in places.items():
            words = tuple(key.split())
            self._by_first.setdefault(words[0], []).append((words, place))
        for names in self._by_first.values():
            names.sort(key=lambda name: -len(name[0]))

    def marked(self, sentence: str) -> str:
        """Return a sentence with marks in the places of names."""
        words = list(_WORD.finditer(sentence))
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
    words = [re.escape(word) for word in _WORD.findall(name)]
    pattern = re.compile(rf"(?<![A-Za-z0-9]){_JOINED.pattern.join(words)}(?![A-Za-z0-9])", re.IGNORECASE)
    return bool(words) and any(pattern.search(text) for text in texts)

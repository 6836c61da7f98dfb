"""A tree of Python source files: its facts, and its text as an agent reads it, excerpt by excerpt."""

from __future__ import annotations

import ast
import sysconfig
import tokenize
import warnings
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from os.path import commonpath
from pathlib import Path, PurePosixPath

from ..chunks import BYTES_PER_TOKEN, MOST_CHUNK_TOKENS, chunks
from ..task import TaskError
from .facts import CodeFact, Kind, facts_of

HEADER_TOKENS = 40
"""Of an excerpt's tokens, those for the line that says where it stands."""
MOST_GUESSABLE = 0.05
"""Share of the facts of a kind that have one value, from which on it is guessed too often."""
LEFT_OUT = frozenset({"test", "tests", "idle_test", "site-packages", "dist-packages", "node_modules", "__pycache__"})
"""Folders that are no part of a tree, beside hidden ones."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of a file, 200 tokens at most with the line above it that says where it stands."""

    file: str
    place: int
    """0-based among the excerpts of its file."""
    text: str


@dataclass(frozen=True)
class SourceFile:
    """A file that can be parsed."""

    path: str
    """Within the tree, with ``/``."""
    text: str
    facts: tuple[CodeFact, ...]
    scopes: tuple[tuple[int, int, str], ...]
    """First and last line, and qualified name, of each class and function; outer ones before those within them."""

    @cached_property
    def lines(self) -> list[str]:
        """Its lines as Python counts them, without their ends."""
        return self.text.split("\n")

    @cached_property
    def excerpts(self) -> tuple[Excerpt, ...]:
        """The whole file."""
        return tuple(
            Excerpt(self.path, place, f"{self._header(start)}\n{piece.rstrip()}")
            for place, (start, piece) in enumerate(zip(self._starts, self._pieces, strict=False))
        )

    def excerpt_of(self, fact: CodeFact) -> Excerpt | None:
        """Return the excerpt in which a fact's value stands; None where it is cut."""
        first, last = self._line_starts[fact.line - 1 : fact.line + 1]
        line = self.text[first:last].encode()
        start = first + len(line[: fact.columns[0]].decode())
        end = start + len(line[slice(*fact.columns)].decode())
        place = bisect_right(self._starts, start) - 1
        return self.excerpts[place] if end <= self._starts[place + 1] else None

    @cached_property
    def _pieces(self) -> list[str]:
        return chunks(self.text, tokens=MOST_CHUNK_TOKENS - HEADER_TOKENS)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(map(len, self._pieces))]

    @cached_property
    def _line_starts(self) -> list[int]:
        """Where each line begins as Python counts lines, and where the next one after the last would."""
        return [0, *accumulate(len(line) + 1 for line in self.text.split("\n"))]

    def _header(self, start: int) -> str:
        line = bisect_right(self._line_starts, start)
        inside = [name for first, last, name in self.scopes if first < line <= last]
        header = f"# {self.path}, line {line}" + (f", in {inside[-1]}" if inside else "")
        return header.encode("utf-8", "replace")[: HEADER_TOKENS * BYTES_PER_TOKEN - 1].decode("utf-8", "ignore")


@dataclass(frozen=True, eq=False)
class SourceTree:
    """Files that belong together, in the order of their paths."""

    name: str
    files: Mapping[str, SourceFile]
    unread: Sequence[str] = field(default=(), repr=False)
    """Files that cannot be read, or are no Python of this version, each with the reason."""

    @classmethod
    def read(cls, folder: Path, *, name: str) -> SourceTree:
        """Read all ``*.py`` files below a folder, tests left out. Raises TaskError where there are none."""
        files, unread = {}, []
        for path in sorted(_python_files(folder)):
            relative = path.relative_to(folder).as_posix()
            try:
                files[relative] = _read_file(path, relative)
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
                unread.append(f"{path}: {error}")
        if not files:
            raise TaskError(f"{folder}: holds no Python file that can be parsed, tests left out; name a source tree")
        return cls(name, files, unread)

    def group_of(self, file: str) -> str:
        """Return a file's group: its package or module at the top of the tree."""
        return PurePosixPath(file).relative_to(self._top).parts[0].removesuffix(".py")

    @cached_property
    def facts(self) -> tuple[CodeFact, ...]:
        """All facts, file by file."""
        return tuple(fact for file in self.files.values() for fact in file.facts)

    def excerpt_of(self, fact: CodeFact) -> Excerpt | None:
        """Return the excerpt in which a fact's value stands; None where it is cut."""
        return self.files[fact.file].excerpt_of(fact)

    def alike(self, fact: CodeFact) -> Sequence[CodeFact]:
        """Return the facts of the same kind and name, this one too."""
        return self._by_name[fact.kind, fact.name]

    def share(self, kind: Kind, value: str) -> float:
        """Return which share of the facts of a kind has a value: how often a blind guess of it is right."""
        counts = self.values[kind]
        return counts[value] / max(1, counts.total())

    def is_common(self, kind: Kind, value: str) -> bool:
        """Tell whether a blind guess of a value is right too often for it to be asked for."""
        return self.values[kind][value] > 1 and self.share(kind, value) >= MOST_GUESSABLE

    @cached_property
    def values(self) -> Mapping[Kind, Counter[str]]:
        """How often each value occurs, by kind."""
        values: defaultdict[Kind, Counter[str]] = defaultdict(Counter)
        for fact in self.facts:
            values[fact.kind][fact.value] += 1
        return values

    @cached_property
    def _by_name(self) -> Mapping[tuple[Kind, str], Sequence[CodeFact]]:
        named = defaultdict(list)
        for fact in self.facts:
            named[fact.kind, fact.name].append(fact)
        return named

    @cached_property
    def _top(self) -> str:
        folders = [str(PurePosixPath(file).parent) for file in self.files]
        return commonpath(folders)


@cache
def standard_library() -> SourceTree:
    """Read the library of the running interpreter, which takes some seconds and does not change while it runs."""
    return SourceTree.read(Path(sysconfig.get_paths()["stdlib"]), name="stdlib")


def _python_files(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            if entry.name not in LEFT_OUT and not entry.name.startswith("."):
                yield from _python_files(entry)
        elif entry.suffix == ".py" and entry.is_file():
            yield entry


def _read_file(path: Path, relative: str) -> SourceFile:
    with tokenize.open(path) as file:  # in the encoding that it declares, line ends as \n
        text = file.read()
    with warnings.catch_warnings(action="ignore"):  # of escapes that mean nothing
        module = ast.parse(text)
    return SourceFile(relative, text, tuple(facts_of(text, module, relative)), tuple(_scopes(module.body, "")))


def _scopes(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[int, int, str]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.end_lineno or node.lineno, prefix + node.name
            yield from _scopes(node.body, f"{prefix}{node.name}.")

"""Load research tasks from files, a folder or the generator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..folded import FoldedTask
from ..row_files import SUFFIXES, rows_of
from ..sources import folded_of
from ..task import TaskError
from .generator import Shape, each_dossier
from .material import folder, installed
from .rows import task_of
from .task import ResearchTask

MOST_DOSSIERS = 10_000
MOST_TOKENS = 2_000_000
HOPS = range(2, 9)

_GENERATED = re.compile(
    r"generated:(?P<count>[0-9]{1,9})(?:@(?P<seed>[0-9]{1,18}))?(?P<options>(?:,\w+=\w+)*)(?::(?P<folder>.+))?"
)
_SIZES = {"": 1, "k": 1_000, "m": 1_000_000}
_SIZE = re.compile(r"([0-9]{1,9})([kKmM]?)")


def load_research(source: str | Path, *, groups: Iterable[str] | None = None) -> list[FoldedTask]:
    """Load the research tasks that ``source`` names.

    ``source`` is one of

    - ``generated:DOSSIERS``, ``generated:DOSSIERS@SEED`` and, after these, options such as ``,tokens=100k,hops=5``, and
      ``:FOLDER`` for dossiers made of a folder of documents instead of the installed distributions;
    - a ``.jsonl``, ``.json`` or ``.parquet`` file of rows, this package's own or MemGym's ``MemGymIRInstance``;
    - a folder: every such file in it.

    ``groups`` keeps these dossiers only. Raises TaskError naming the file, the row and the field.
    """
    return folded_of(str(source), each_task(str(source)), groups, noun="dossier")


def each_task(source: str) -> Iterator[ResearchTask]:
    """Yield the tasks of a source, as ``load_research`` has it, one by one."""
    if source.startswith("generated:"):
        return _generate(source)
    path = Path(source)
    files = [path] if path.is_file() else sorted(f for f in path.glob("*") if f.suffix.lower() in SUFFIXES)
    if not files:
        raise TaskError(
            f"{source}: no such file, nor a folder with {', '.join(SUFFIXES)} files; or generated:DOSSIERS@SEED"
        )
    return (task for file in files for task in _read(file))


def _generate(source: str) -> Iterator[ResearchTask]:
    match = _GENERATED.fullmatch(source)
    if match is None or int(match["count"]) < 1:
        raise TaskError(
            f"{source}: write generated:DOSSIERS@SEED, for example generated:60@7, with ,tokens=100k or ,hops=5 "
            "and :FOLDER after it where you want them"
        )
    if int(match["count"]) > MOST_DOSSIERS:
        raise TaskError(f"{source}: at most {MOST_DOSSIERS:,} dossiers are made on the spot")
    shape = _shape(source, match["options"])
    path = match["folder"]
    if path and not Path(path).is_dir():
        raise TaskError(f"{source}: {path} is no folder of documents")
    material = folder(Path(path)) if path else installed()
    return each_dossier(material, count=int(match["count"]), seed=int(match["seed"] or 0), shape=shape)


def _shape(source: str, options: str) -> Shape:
    given: dict[str, int] = {}
    for option in options.split(",")[1:]:
        name, _, text = option.partition("=")
        size = _SIZE.fullmatch(text)
        if name not in ("tokens", "hops") or size is None:
            raise TaskError(f"{source}: {option}: the options are tokens=NUMBER, also as 100k or 1M, and hops=NUMBER")
        given[name] = int(size[1]) * _SIZES[size[2].lower()]
    shape = Shape(**given)
    if shape.hops not in HOPS:
        raise TaskError(f"{source}: hops={shape.hops}: a chain has {HOPS[0]} to {HOPS[-1]} hops")
    if not 2_000 <= shape.tokens <= MOST_TOKENS:
        raise TaskError(f"{source}: tokens={shape.tokens}: a dossier has 2,000 to {MOST_TOKENS:,} tokens")
    return shape


def _read(file: Path) -> Iterator[ResearchTask]:
    for number, row in enumerate(rows_of(file)):
        yield task_of(row, where=f"{file}, row {number}")

"""The searches of an ablation, kept in a file, so that seeds can be added where run folders are gone.

python -m mnemotune.experiments.searches ROWS.jsonl [RESULTS ...]

ROWS has a line for each search: what a RESULTS file, the `results.json` of `mnemotune ablate`, says of it. The searches
of RESULTS that it lacks are added, if they are of the same ablation and users. Prints the table of all, and draws it
beside ROWS.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from ..data.record import first_problem
from ..data.row_files import rows_of
from ..data.task import TaskError
from ..data.whole_files import write_whole
from ..optimizer.search.ablation import Finished, compare_variants
from ..optimizer.views.comparison import markdown
from ..optimizer.views.plots import variants_plot
from .command import run


@dataclass(frozen=True, slots=True)
class Row:
    """One search of an ablation."""

    ablation: str
    """The name of the ablation's file."""
    variant: str
    search: Finished

    @property
    def place(self) -> str:
        """What the row is called."""
        return f"{self.variant}, seed {self.search.seed}"

    def agrees_with(self, other: Row) -> bool:
        """Tell whether both say the same of a search, its seconds aside."""
        return replace(self.search, seconds=other.search.seconds).as_json() == other.search.as_json()


ROW = TypeAdapter(Row)


def rows_kept(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a file, each with its place in it; none where there is no file."""
    for number, values in enumerate(rows_of(file) if file.exists() else ()):
        yield f"{file}: row {number}", values


def rows_told(results: Path) -> Iterator[tuple[str, Any]]:
    """Yield a row for each search of an ablation's `results.json`, the place of its folder left out.

    Raises TaskError naming a file that is no such results.
    """
    try:
        whole = json.loads(results.read_text(encoding="utf-8"))
        ablation = Path(whole["ablation"]).name
        for variant in whole["variants"]:
            for search in variant["searches"]:
                values = {"ablation": ablation, "variant": variant["name"], "search": search | {"run": ""}}
                yield f"{results}: {variant['name']}, seed {search['seed']}", values
    except (KeyError, TypeError, ValueError):
        raise TaskError(f"{results}: is no results.json of `mnemotune ablate`") from None


def added(rows: Sequence[Row], more: Iterable[tuple[str, Any]]) -> list[Row]:
    """Return rows with those of ``more`` that they lack, variants in the order that they come in, then by seed.

    Raises TaskError naming the place of what is no row, belongs to another ablation or other users, or contradicts.
    """
    known = {row.place: row for row in rows}
    for place, values in more:
        try:
            row = ROW.validate_python(values)
        except ValidationError as error:
            raise TaskError(f"{place}: {first_problem(error, whole='row')}") from None
        _check(row, list(known.values()), place)
        known.setdefault(row.place, row)
    order = list(dict.fromkeys(row.variant for row in known.values()))
    return sorted(known.values(), key=lambda row: (order.index(row.variant), row.search.seed))


def _check(row: Row, rows: Sequence[Row], place: str) -> None:
    for other in rows:
        if row.ablation != other.ablation:
            raise TaskError(f"{place}: is of {row.ablation}, the others of {other.ablation}")
        if row.search.by_group and other.search.by_group and row.search.by_group.keys() != other.search.by_group.keys():
            raise TaskError(f"{place}: has other sealed users than {other.place}")
        if row.place == other.place and not row.agrees_with(other):
            raise TaskError(f"{place}: this search is there already, and came out otherwise")


def main(
    rows: Annotated[Path, typer.Argument(help="The file of rows, NAME.jsonl.")],
    results: Annotated[list[Path] | None, typer.Argument(help="Files that `mnemotune ablate` wrote.")] = None,
) -> None:
    """Add what is new, print the table, and draw it."""
    if rows.suffix != ".jsonl":
        raise typer.BadParameter(f"{rows}: call the file of rows NAME.jsonl")
    try:
        before = every = added([], rows_kept(rows))
        for path in results or []:
            every = added(every, rows_told(path))
    except (OSError, TaskError) as error:
        raise typer.BadParameter(str(error)) from None
    if not every:
        raise typer.BadParameter(f"{rows}: there is no search in it; name a results.json")
    searches: dict[str, list[Finished]] = {}
    for row in every:
        searches.setdefault(row.variant, []).append(row.search)
    variants = compare_variants(searches)
    table, picture = markdown(variants), variants_plot(variants)
    if every != before:
        write_whole(rows, "".join(json.dumps(ROW.dump_python(row), ensure_ascii=False) + "\n" for row in every))
    write_whole(rows.with_suffix(".svg"), picture + "\n")
    print(table)


if __name__ == "__main__":
    run(main)

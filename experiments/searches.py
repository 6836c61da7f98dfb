"""The searches of ablations, kept in a file, so that seeds can be added where run folders are gone.

python -m mnemotune.experiments.searches ROWS [RESULTS ...]

ROWS has a line for each search: what a RESULTS file, the `results.json` of `mnemotune ablate`, says of it. The searches
of RESULTS that it lacks are added. Prints the table of all, and draws it beside ROWS.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..data.row_files import rows_of
from ..data.whole_files import write_whole
from ..optimizer.search.ablation import Finished, compare_variants
from ..optimizer.views.comparison import markdown
from ..optimizer.views.plots import variants_plot
from .command import run

Searches = Mapping[str, Sequence[Finished]]
"""By variant."""


def kept(rows: Path) -> Searches:
    """Return the searches of a file of rows, in their order; none where there is no file."""
    found: dict[str, list[Finished]] = {}
    for row in rows_of(rows) if rows.exists() else ():
        found.setdefault(row["variant"], []).append(Finished.from_json(row))
    return found


def told(results: Path) -> Searches:
    """Return the searches of an ablation's `results.json`, the places of their folders left out."""
    variants = json.loads(results.read_text(encoding="utf-8"))["variants"]
    return {v["name"]: [Finished.from_json(search | {"run": ""}) for search in v["searches"]] for v in variants}


def together(known: Searches, more: Searches) -> Searches:
    """Return both, variant by variant and seed by seed.

    Raises ValueError where they say different things of a search, its seconds aside.
    """
    found = {name: {search.seed: search for search in searches} for name, searches in known.items()}
    for name, searches in more.items():
        theirs = found.setdefault(name, {})
        for search in searches:
            earlier = theirs.setdefault(search.seed, search)
            if replace(earlier, seconds=search.seconds).as_json() != search.as_json():
                raise ValueError(f"{name}, seed {search.seed}: the rows say something else of this search")
    return {name: [by_seed[seed] for seed in sorted(by_seed)] for name, by_seed in found.items()}


def _lines(searches: Searches) -> Iterator[str]:
    for name, found in searches.items():
        for search in found:
            yield json.dumps({"variant": name} | search.as_json(), ensure_ascii=False) + "\n"


def main(
    rows: Annotated[Path, typer.Argument(help="The file of rows.")],
    results: Annotated[list[Path] | None, typer.Argument(help="Files that `mnemotune ablate` wrote.")] = None,
) -> None:
    """Add what is new, print the table, and draw it."""
    searches = kept(rows)
    for path in results or []:
        try:
            searches = together(searches, told(path))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise typer.BadParameter(f"{path}: {error}") from None
    if not searches:
        raise typer.BadParameter(f"{rows}: there is no search in it; name a results.json")
    variants = compare_variants(searches)
    write_whole(rows, "".join(_lines(searches)))
    write_whole(rows.with_suffix(".svg"), variants_plot(variants) + "\n")
    print(markdown(variants))


if __name__ == "__main__":
    run(main)

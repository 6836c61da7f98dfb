"""How evaluations are shown: tables, and the words and numbers in them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ...env import Summary, Track
from ...env.cost import TurnCost
from ...env.scoring import LEAST_HEADROOM
from ...env.statistics import Estimate, paired_difference
from ...env.summary import UNSCORED, from_json_number
from ...policies.files import WINDOW
from ...policies.lm import Ledger
from ...policies.lm.structured import FORMATS
from ...policies.space import limits_under
from ..search.sealed import EVOLVED

if TYPE_CHECKING:
    from ..study import Trial

Rows = Mapping[str, Summary]
"""Evaluations by the name to show."""
LONGEST_NAME = 20
"""Characters of a name that leave the figures their room in 80 columns."""
MOST_NAMED = 12
"""Groups that a note names."""
OPTIONAL = ("over\nwindow", "re-\nworded", "evi-\ndence")
"""Columns that are shown where they are known, the first of them first."""
MOST_OPTIONAL = 2
WIDEST = 10_000
"""Columns of a table at most."""
OPTIONAL_WIDTH = 6
"""Characters that each optional column takes from the names."""


def say(console: Console, *lines: str, style: str = "") -> None:
    """Print lines as they are: nothing in them is markup, and long lines stay whole."""
    for line in lines:
        console.print(Text(line, style=style), soft_wrap=True)


def plain_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Collection[str] = (),
    bold: str | None = None,
    **look: Any,
) -> Table:
    """Return a terminal's table; the first column and those in ``left`` start at the left.

    The row whose first cell is ``bold`` stands out; ``look`` is what Rich's tables take besides.
    """
    look = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "title_justify": "left", "title_style": "bold", **look}
    table = Table(**{**look, "title": None if look.get("title") is None else Text(look["title"])})
    for column in columns:
        table.add_column(column, justify="left" if column in {columns[0], *left} else "right", no_wrap=True)
    for cells in rows:
        table.add_row(*map(Text, cells), style="bold" if cells[0] == bold else None)
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table whole where nobody reads it on a terminal, else without its last columns where these do not fit."""
    folds = not all(column.no_wrap for column in table.columns)
    left_out: list[str] = []
    if not console.is_terminal and not folds:
        console = Console(file=console.file, width=max(console.width, _width(console, table)))
    while not folds and len(table.columns) > 2 and _width(console, table) > console.width:
        left_out.insert(0, " ".join(str(table.columns.pop().header).split()))
    console.print(table)
    if left_out:
        say(console, f"The terminal is too narrow for: {', '.join(left_out)}", style="dim")


def _width(console: Console, table: Table) -> int:
    return Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum


def markdown_lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, each row as it comes."""
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for cells in rows:
        escaped = (cell.replace("|", "\\|") for cell in cells)
        yield f"| {' | '.join(escaped)} |"


def score_table(rows: Rows, *, title: str) -> Table:
    """Return a table of evaluations for a terminal of 80 columns.

    The columns are the memory score with its 95% interval; the first two that are known of how far it is over the
    window's, what it is when checks are reworded, and evidence recall; accuracy and the three failure shares, which sum
    to 1; what a turn costs in use, where there are turns.
    """
    columns = {
        "policy": list(rows),
        "memory score": [with_interval(row.memory_score) for row in rows.values()],
        "over\nwindow": [signed(gain.mean) for gain in over_window(rows).values()],
        "re-\nworded": [number(row.reworded.mean) for row in rows.values()],
        "accu-\nracy": [number(row.accuracy) for row in rows.values()],
        "evi-\ndence": [number(row.evidence.mean) for row in rows.values()],
        "write": [number(row.shares["write"]) for row in rows.values()],
        "read": [number(row.shares["read"]) for row in rows.values()],
        "util.": [number(row.shares["utilisation"]) for row in rows.values()],
        "calls\n/turn": [cost_cells(row.per_turn)[0] for row in rows.values()],
        "tok.\n/turn": [cost_cells(row.per_turn)[1] for row in rows.values()],
    }
    unknown = {head for head, column in columns.items() if set(column) == {"-"}}
    optional = [head for head in OPTIONAL if head not in unknown]
    left_out = {*optional[MOST_OPTIONAL:], *(unknown & {*OPTIONAL, "calls\n/turn", "tok.\n/turn"})}
    shown = {head: column for head, column in columns.items() if head not in left_out}
    longest = LONGEST_NAME - OPTIONAL_WIDTH * len(optional[:MOST_OPTIONAL])
    shown["policy"] = [short(name, longest) for name in rows]
    cells = zip(*shown.values(), strict=True)
    look = {"title": title, "padding": 0, "show_edge": False}
    return plain_table([*shown], [*cells], left=["memory score"], bold=EVOLVED, **look)


def kinds_table(row: Summary) -> Table | None:
    """Return a table of scores and evidence by kind of question, each with its 95% interval; None without kinds."""
    kinds: Mapping[str, Any] = row.extras.get("by_kind", {})
    if not kinds:
        return None
    cells = [
        (kind, f"{each['questions']:,}", *(with_interval(_estimate_of(each[name])) for name in ("score", "evidence")))
        for kind, each in kinds.items()
    ]
    columns = ("questions", "number", "score", "evidence shown")
    title = f"{row.policy}, by kind of question"
    return plain_table(columns, cells, left=columns[2:], title=title, padding=(0, 2, 0, 0), show_edge=False)


def _estimate_of(values: Mapping[str, Any]) -> Estimate:
    mean, low, high = map(from_json_number, (values["mean"], *values["interval"]))
    return Estimate(mean, low, high, 0)


def stored_cells(row: Summary) -> list[str]:
    """Return what memory holds: lines and bytes, and the shares with their intervals, in the order of ``FIGURES``."""
    (lines, size, *shares) = row.stored.values()
    sizes = [f"{figure.mean:,.0f}" if row.stored_by_group else "-" for figure in (lines, size)]
    return [*sizes, *map(with_interval, shares)]


def train_cell(trial: Trial) -> str:
    """Return a trial's score on train groups; "lost" where it left its race before it had met them all."""
    return "lost" if trial.series and not trial.finished_race else number(trial.score)


def heading(groups: int, track: Track, *, model: str, context_tokens: int | None) -> str:
    """Say on how many groups a table's scores were measured, with which agent and model, and within which budget."""
    budget = "" if context_tokens is None else f", {context_tokens:,} context tokens"
    return f"{counted(groups, track.noun)}{acted_by(track)}, model: {model}{budget}"


def acted_by(track: Track) -> str:
    """Return who acts, as it follows the groups in a heading; nothing where the assistant alone is asked."""
    return f", {track.agent} agent" if track.agent else ""


def over_window(rows: Rows) -> dict[str, Estimate]:
    """Return how far each policy's memory score is over the window's, paired by group; NaN where nobody knows."""
    window = rows.get(WINDOW)
    return {
        name: UNSCORED if window is None or row is window else paired_difference(row.by_group, window.by_group)
        for name, row in rows.items()
    }


def readers_of(rows: Rows) -> dict[str, int]:
    """Return how many groups each reader of the model's family played with; empty where there are not several."""
    counts = Counter(next((row.readers for row in rows.values() if row.readers), {}).values())
    return dict(sorted(counts.items())) if len(counts) > 1 else {}


def by_reader(rows: Rows, name: str, other: str) -> dict[str, Estimate]:
    """Return how far a policy's memory score is over another's with each reader of the family, paired by group."""
    mine, theirs = rows[name], rows[other]
    scores = {
        reader: {group: score for group, score in mine.by_group.items() if mine.readers.get(group) == reader}
        for reader in readers_of({name: mine})
    }
    return {reader: paired_difference(scores[reader], theirs.by_group) for reader in scores}


def unscored_note(rows: Rows, track: Track) -> list[str]:
    """Say which stages have no memory score, where there are any."""
    flat = max((row.without_headroom for row in rows.values()), key=len, default={})
    if not flat:
        return []
    total = sum(map(len, flat.values()))
    named = [f"{group} ({', '.join(str(stage + 1) for stage in stages)})" for group, stages in flat.items()]
    more = f" and {len(named) - MOST_NAMED:,} {track.noun}s more" if len(named) > MOST_NAMED else ""
    where = f"By {track.noun}, with the {track.stage_noun}s from 1: {', '.join(named[:MOST_NAMED])}{more}"
    which = f"1 {track.stage_noun} has" if total == 1 else f"{total:,} {track.stage_noun}s have"
    return [
        f"{which} no memory score: the ceiling is less than {LEAST_HEADROOM} above the floor there,"
        f" so that memory cannot show. {where}"
    ]


def bound_notes(at_bounds: Mapping[str, int], *, context_tokens: int | None = None) -> list[str]:
    """Say what to do about each number of the evolved policy that lies at a bound of the search."""
    by_budget = {} if context_tokens is None else {key: high for key, (_, high) in limits_under(context_tokens).items()}
    return [
        f"The evolved policy's {key} {value} is at the bound of search.space.{key}: widen it"
        f"{', or raise context_tokens,' if by_budget.get(key) == value else ','} and search again."
        for key, value in at_bounds.items()
    ]


def reply_notes(replies: Ledger) -> list[str]:
    """Say how replies that are read were asked for, and how many replies were cut."""
    roles, spends = defaultdict[str, list[str]](list), sorted(replies.by_role.items())
    for role, spend in spends:
        for kind in spend.response_formats:
            roles[kind].append(role)
    kinds = "; ".join(f"{kind} ({', '.join(roles[kind])})" for kind in FORMATS if kind in roles)
    cut = ", ".join(f"{role} {spend.cut:,}" for role, spend in spends if spend.cut)
    notes = [f"replies that are read were asked for by {kinds}"] if kinds else []
    return notes + ([f"replies were cut at their limit: {cut}; raise endpoint.max_tokens"] if cut else [])


def cost_cells(cost: TurnCost | None) -> list[str]:
    """Return calls and tokens a turn; dashes where there is nothing to go by."""
    return ["-", "-"] if cost is None else [f"{cost.calls:.2f}", f"{cost.tokens:,.0f}"]


def with_interval(score: Estimate) -> str:
    """Write a score with its interval; the interval is left out where there is none."""
    mean, low, high = (number(value) for value in (score.mean, score.low, score.high))
    return mean if math.isnan(score.low) else f"{mean} [{low}, {high}]"


def short(name: str, longest: int) -> str:
    """Keep the end of a long name, where a path says most."""
    return name if len(name) <= longest else "\u2026" + name[1 - longest :]


def signed(value: float) -> str:
    """Write a difference; a dash where there is none."""
    return "-" if math.isnan(value) else f"{round(value, 3) + 0.0:+.3f}"


def number(value: float) -> str:
    """Write a score; a dash where there is none."""
    return "-" if math.isnan(value) else f"{round(value, 3) + 0.0:.3f}"


def count(value: int) -> str:
    """Write a large count."""
    return f"{value / 1e6:.1f}M" if value >= 999_950 else f"{value / 1e3:.1f}k" if value >= 1e3 else str(value)


def usd_cell(usd: float | None, *, times: int = 1) -> str:
    """Write what is paid so many times."""
    return "not known" if usd is None else f"${times * usd:,.2f}"


def counted(things: int, noun: str) -> str:
    """Write a number of things."""
    return f"{things:,} {noun}" if things == 1 else f"{things:,} {noun}s"

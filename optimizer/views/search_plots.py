"""The plots of a search: its trials, what they cost, and which of them nothing beats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ...env.statistics import estimate, nan_mean
from ...policies.lm.ledger import merged
from ..proposers.numbers import standing
from ..search.front import Placed, front
from ..study import Trial
from .lineage import ancestors
from .table import count, with_interval
from .vega import (
    ACCENT,
    BAD,
    FAINT,
    GOOD,
    INK,
    ROW_PIXELS,
    TIP,
    WARN,
    WIDE,
    drawn,
    layer,
    measure,
    points_of,
    row_axis,
    rule,
    wrapped,
)

LABEL_PIXELS = 16
MOST_BARS = 40
ROLES = ("#0969da", "#bf8700", "#8250df", "#1b7c83", "#bf3989", "#1a7f37", "#bc4c00", "#6e7781")
RACED, LED, LEFT, UNPLAYED = "raced to the end", "led", "left its race", "never raced"
ACCEPTED, LOOKED = "accepted", "score on validation"
FATES = {
    RACED: (FAINT, "circle"),
    LED: (GOOD, "circle"),
    LEFT: (FAINT, "cross"),
    UNPLAYED: (BAD, "triangle-down"),
    ACCEPTED: (ACCENT, "circle"),
    LOOKED: (WARN, "diamond"),
}
"""What becomes of a trial, with its colour and its shape."""
PLACES = {
    "raced": (FAINT, "circle"),
    "front": (INK, "circle"),
    "seed": (INK, "square"),
    "evolved": (ACCENT, "diamond"),
}


def search_plot(
    trials: Sequence[Trial],
    *,
    noun: str = "group",
    compared: str = "memory score",
    best: Trial | None = None,
    width: int = WIDE,
) -> str:
    """Draw what every trial is compared by on the train groups, its edge from its parent, and the best so far.

    A trial without a score stands below all others. The line from the seed policy to ``best`` stands out.
    """
    scores = {trial.number: standing(trial, trials[0]) for trial in trials}
    known = [score for score in scores.values() if not math.isnan(score)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    below = low - 0.12 * ((high - low) or 1)
    y_of = {n: below if math.isnan(score) else score for n, score in scores.items()}
    points = [{"x": t.number, "y": y_of[t.number], "what": _fate(t), "tip": tip(t, noun)} for t in trials]
    points += [
        {"x": t.number, "y": nan_mean(list(t.validation.values())), "what": LOOKED, "tip": tip(t, noun)}
        for t in trials
        if t.validation and not math.isnan(nan_mean(list(t.validation.values())))
    ]
    winning = set(ancestors(best, trials))
    edges = [
        {"x": t.parent, "y": y_of[t.parent], "x2": t.number, "y2": y_of[t.number], "wins": t.number in winning}
        for t in trials
        if t.parent in y_of and t.number != t.parent
    ]
    steps = [{"x": n, "y": score} for n, score in _best_so_far(trials)]
    x = measure("x", title="trial", axis={"tickMinStep": 1, "format": "d", "grid": False}, scale={"nice": False})
    y = measure("y", title=wrapped(f"{compared}, train {noun}s"), scale={"zero": False})
    stepped = {"type": "line", "interpolate": "step-after", "color": FAINT, "strokeDash": [5, 3], "aria": False}
    ends = {"x": x, "y": y, "x2": {"field": "x2"}, "y2": {"field": "y2"}}
    layers = [
        rule([edge for edge in edges if not edge["wins"]], FAINT, ends, opacity=0.25),
        layer(steps, stepped, x=x, y=y),
        rule([edge for edge in edges if edge["wins"]], ACCENT, ends, thick=2.5),
        points_of(points, FATES, x=x, y=y, columns=2 if width < WIDE else 6),
    ]
    return drawn(layers, width, 380)


def front_plot(
    places: Sequence[Placed],
    best: Trial,
    *,
    noun: str = "group",
    compared: str = "memory score",
    width: int = WIDE,
) -> str:
    """Draw what each raced policy is compared by, on the train groups, against its tokens a turn, and the front."""
    height, line = 320, front(places)
    costs, scores = [p.cost for p in places], [p.score for p in places]
    low, high = (min(costs) / 1.5, max(costs) * 1.5) if places else (100.0, 10_000.0)
    axis = {"values": _round_numbers(low, high), "format": ",", "grid": False, "labelOverlap": True}
    log = {"type": "log", "domain": [low, high], "nice": False}
    x = measure("x", title="tokens a turn", axis=axis, scale=log)
    y = measure("y", title=wrapped(f"{compared}, train {noun}s"), scale={"zero": False, "nice": True})
    on_line = {p.trial.number for p in line}
    points = [
        {"x": p.cost, "y": p.score, "tip": tip(p.trial, noun)}
        | {"what": _place(p, best, on_line=p.trial.number in on_line)}
        for p in places
    ]
    pixels = (width - 80) / math.log(high / low), (height - 90) / ((max(scores) - min(scores)) or 1) if places else 1.0
    labels = [
        {"x": group[-1].cost, "y": group[-1].score, "text": ", ".join(str(p.trial.number) for p in group)}
        for group in _neighbours(line, pixels)
    ]
    text = {"type": "text", "color": INK, "dy": -12, "fontSize": 12, "aria": False}
    steps = [{"x": p.cost, "y": p.score} for p in line]
    stepped = {"type": "line", "interpolate": "step-after", "color": INK, "strokeWidth": 1.5, "aria": False}
    layers = [
        layer(steps, stepped, x=x, y=y),
        points_of(points, PLACES, x=x, y=y, columns=2 if width < WIDE else 4),
        layer(labels, text, x=x, y=y, text={"field": "text"}),
    ]
    return drawn(layers, width, height)


def spend_plot(trials: Sequence[Trial], *, width: int = WIDE) -> str:
    """Draw the tokens that each role took along the trials, several of which share a bar where they are many."""
    roles = sorted({role for trial in trials for role in trial.ledger.by_role})
    each = math.ceil(len(trials) / MOST_BARS)
    values = []
    for bar in (trials[start : start + each] for start in range(0, len(trials), each)):
        spent, below = merged([trial.ledger for trial in bar]).by_role, 0
        where = f"trial {bar[0].number}" if each == 1 else f"trials {bar[0].number} to {bar[-1].number}"
        for role in (role for role in roles if role in spent):
            spend, tokens = spent[role], spent[role].input_tokens + spent[role].output_tokens
            values.append(
                {"x": bar[0].number - 0.45, "x2": bar[-1].number + 0.45, "y": below, "y2": below + tokens, "role": role}
                | {"tip": f"{role}, {where}: {spend.calls:,} calls, {count(tokens)} tokens"}
            )
            below += tokens
    color = {
        "field": "role",
        "type": "nominal",
        "scale": {"domain": roles, "range": [ROLES[i % len(ROLES)] for i in range(len(roles))]},
    }
    legend = {"columns": 3 if width < WIDE else 8, "symbolType": "square"}
    x = measure("x", title="trial", axis={"tickMinStep": 1, "format": "d", "grid": False}, scale={"nice": False})
    y = measure("y", title="tokens", axis={"format": "~s", "tickCount": 4})
    ends = {"x": x, "x2": {"field": "x2"}, "y": y, "y2": {"field": "y2"}}
    bars = layer(values, {"type": "bar"}, **ends, color=color | {"legend": legend}, description=TIP)
    return drawn([bars], width, 260)


def importance_plot(shares: Mapping[str, float], *, width: int = WIDE) -> str:
    """Draw how important each number was."""
    values = [
        {"policy": path, "share": share, "tip": f"{path}: {share:.2f} of all importance"}
        for path, share in shares.items()
    ]
    x = measure("share", title="share of importance", axis={"tickCount": 5})
    bars = {"type": "bar", "height": {"band": 0.6}, "color": FAINT}
    layers = [layer(values, bars, x=x, y=row_axis(shares, width), description=TIP)]
    return drawn(layers, width, ROW_PIXELS * len(shares) + 50)


def tip(trial: Trial, noun: str = "group") -> str:
    """Say what there is to know of a trial, in a few lines of which the first begins with its number."""
    raced = estimate(list(trial.train.values()))
    looked = estimate(list(trial.validation.values()))
    per_turn = None if trial.summary is None else trial.summary.per_turn
    lines = [
        f"Trial {trial.number}: {trial.verdict}",
        "no valid policy" if trial.policy is None else trial.policy.label,
        f"train {with_interval(raced)}, {raced.users} {noun}s" if raced.users else "",
        f"validation {with_interval(looked)}, {looked.users} {noun}s" if looked.users else "",
        f"{per_turn.tokens:,.0f} tokens a turn" if per_turn is not None else "",
        trial.reason,
    ]
    return "\n".join(filter(None, lines))


def _fate(trial: Trial) -> str:
    if trial.verdict != "dropped":
        return ACCEPTED if trial.accepted else LED
    return RACED if trial.finished_race else LEFT if trial.series else UNPLAYED


def _place(place: Placed, best: Trial, *, on_line: bool) -> str:
    if place.trial.number == 0:
        return "seed"
    return "evolved" if place.trial.policy == best.policy else "front" if on_line else "raced"


def _round_numbers(low: float, high: float) -> list[int]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [int(n * 10**power) for power in powers for n in (1, 2, 5) if low <= n * 10**power <= high and power >= 0]


def _neighbours(line: Sequence[Placed], pixels: tuple[float, float]) -> list[list[Placed]]:
    """Group places whose labels would overlap; ``pixels`` are those of a unit, that of x logarithmic."""
    groups: list[list[Placed]] = []
    for place in line:
        last = groups[-1][-1] if groups else None
        near = (
            last is not None
            and max(pixels[0] * math.log(place.cost / last.cost), pixels[1] * (place.score - last.score)) < LABEL_PIXELS
        )
        groups = [*groups[:-1], [*groups[-1], place]] if near else [*groups, [place]]
    return groups


def _best_so_far(trials: Sequence[Trial]) -> Iterator[tuple[int, float]]:
    """Yield each trial's number with the best score that could lead by then."""
    best = -math.inf
    for trial in trials:
        if trial.finished_race and not trial.over and trial.score > best:
            best = trial.score
        if best > -math.inf:
            yield trial.number, best

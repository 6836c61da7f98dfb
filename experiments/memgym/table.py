"""MemGym's strategies beside the presets, on each track, at the track's usual budget.

python -m mnemotune.experiments.memgym.table OUT [TRACK=SOURCE ...]

A strategy is scored with its published numbers, and once more with a buffer that the budget holds (`fitted`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from ...data.chunks import MOST_CHUNK_TOKENS
from ...data.task import grouped
from ...env import Evaluator, Summary, Track
from ...env.scoring import FAILURE_KINDS
from ...env.track import most_calls
from ...optimizer.config import Config, parse_config
from ...optimizer.models import open_models, track_of
from ...optimizer.views.table import markdown_lines, with_interval
from ...optimizer.workers import open_pool, runner_of
from ...policies.files import WINDOW, load_policy
from ...policies.policy import MemoryPolicy
from ..command import run

SOURCES = {
    "tools": "workshop",
    "research": "generated:60@7",
    "swe": "repairs",
    "codeqa": "generated:50@7",
    "web": "desks",
    "dialogue": "generated:10@7",
}
"""The data of each track."""
PUBLISHED = {
    "tools": "summary, 58.7% - 50.0% = +8.7 points, 288 tasks of tau2-bench",
    "research": "A-Mem, .518 - .009 = +.509, chains of 5 and 6 hops",
    "swe": "summary, 42.8% - 42.8% = 0.0 points, 1,041 tasks of SWE-Gym",
    "codeqa": "A-Mem, .75 - .20 = +.55, 2,131 questions, 500,000 tokens",
    "web": "structured summary, 38.6% - 34.3% = +4.3 points, 140 tasks of WebArena-Infinity",
}
"""The best strategy of each track on MemGym's leaderboard of 2026-05-18: its score less the one without memory."""
DIALOGUE_TOKENS = 1000
PRESETS = (WINDOW, "rag", "awe", "awi")
STRATEGIES = (
    "observation_masking",
    "llm_summarizing",
    "structured_summary",
    "sliding_window_summary",
    "adaptive_token_budget",
    "masking_then_summarizing",
)
"""MemGym's, as presets."""


def fitted(policy: MemoryPolicy, tokens: int) -> MemoryPolicy:
    """Return a strategy whose buffer takes a third of a budget, and whose summary takes half of it."""
    buffer = max(1, tokens // 3 // MOST_CHUNK_TOKENS)
    values = policy.model_dump(exclude_none=True)
    values |= {"keep_first": min(policy.keep_first, 1)}
    if policy.write.mode == "none":
        return MemoryPolicy.model_validate(values | {"mask": buffer})
    values["write"] |= {"tokens": tokens // 2} if policy.write.mode == "summary" else {}
    values |= {"update_every": 2, "buffer_size": buffer, "mask": min(policy.mask, buffer)}
    return MemoryPolicy.model_validate(values)


def policies_at(tokens: int) -> dict[str, MemoryPolicy]:
    """Return presets and strategies by name; of strategies that are the same once they are fitted, the first."""
    published = {name: load_policy(name) for name in STRATEGIES}
    by_key = {fitted(policy, tokens).key: name for name, policy in reversed(published.items())}
    again = {f"{name}, fitted": fitted(published[name], tokens) for name in reversed(by_key.values())}
    return {**{name: load_policy(name) for name in PRESETS}, **published, **again}


def config_of(track: str, source: str | None = None) -> tuple[Track, Config]:
    """Return a track and the config of its usual budget; None is its usual source."""
    splits = {"train": 1, "validation": 2, "test": 2}
    given: dict[str, object] = {"track": track, "splits": splits, "seed_policy": WINDOW, "data": source or track}
    usual = track_of(parse_config(json.dumps(given), where=track)).usual
    given["data"] = source or usual.data or track
    given["context_tokens"] = usual.context_tokens or DIALOGUE_TOKENS
    config = parse_config(json.dumps(given), where=track)
    return track_of(config), config


async def scored(track: Track, config: Config, policies: Mapping[str, MemoryPolicy]) -> dict[str, Summary]:
    """Evaluate policies on all tasks of the config's data."""
    tasks = track.load(config.data)
    with open_models(config, folder=None) as opened:
        models = opened.dealt(grouped(tasks))
        calls = most_calls(track, tasks, policies.values())
        pool = open_pool(config, models, folder=None, calls=calls, most=len(grouped(tasks)))
        async with nullcontext() if pool is None else aclosing(pool), aclosing(models.cast):
            evaluator = Evaluator(track, models.cast, runner=runner_of(pool, track, models.cast, config, budget=None))
            return {name: Summary.of(await evaluator.evaluate(p, tasks), name=name) for name, p in policies.items()}


def row(name: str, summary: Summary) -> Sequence[str]:
    """Return what the table says of a policy."""
    shown = sum(use.tokens for use in summary.context.values())
    calls = sum(use.calls for use in summary.context.values())
    written = summary.spend.by_role.get("write")
    own = 0 if written is None else (written.input_tokens + written.output_tokens) / summary.groups
    shares = (f"{summary.shares[kind]:.2f}" for kind in FAILURE_KINDS)
    return [
        name,
        with_interval(summary.memory_score),
        f"{summary.accuracy:.3f}",
        *shares,
        f"{shown / calls:,.0f}",
        f"{own:,.0f}",
    ]


def summed_up(summaries: Mapping[str, Summary]) -> Sequence[str]:
    """Return floor and ceiling of a track, and the best of the presets and of the strategies."""
    cells = [f"{summaries[WINDOW].floor:.3f}", f"{summaries[WINDOW].ceiling:.3f}"]
    strategies = [name for name in summaries if name not in PRESETS]
    for names in (PRESETS, strategies):
        best = max(names, key=lambda name: summaries[name].memory_score.mean)
        cells.append(f"{best}, {with_interval(summaries[best].memory_score)}")
    return cells


def main(
    out: Annotated[Path, typer.Argument(help="The JSON file to write.")],
    sources: Annotated[list[str] | None, typer.Argument(help="TRACK=SOURCE, of these tracks alone.")] = None,
) -> None:
    """Score presets and strategies on each track, the best first."""
    chosen = dict(given.split("=", 1) for given in sources) if sources else SOURCES
    figures, overview = dict[str, object](), list[Sequence[str]]()
    for name, source in chosen.items():
        track, config = config_of(name, source)
        tokens = config.context_tokens or DIALOGUE_TOKENS
        summaries = asyncio.run(scored(track, config, policies_at(tokens)))
        best = sorted(summaries.items(), key=lambda item: -item[1].memory_score.mean)
        window = summaries[WINDOW]
        print(f"\n## {name}: `{source}`, {window.groups} {track.noun}s, {tokens:,} context tokens\n")
        print(f"floor {window.floor:.3f}, ceiling {window.ceiling:.3f}\n")
        columns = ("policy", "memory score", "accuracy", *FAILURE_KINDS, "tokens shown", "memory's own")
        print("\n".join(markdown_lines(columns, [row(*each) for each in best])), flush=True)
        figures[name] = {policy: summary.as_json() for policy, summary in summaries.items()}
        overview.append((name, *summed_up(summaries), PUBLISHED.get(name, "")))
    print("\n## The tracks beside each other\n")
    columns = ("track", "floor", "ceiling", "best preset", "best of MemGym's strategies", "MemGym: best less no memory")
    print("\n".join(markdown_lines(columns, overview)))
    out.write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    run(main)

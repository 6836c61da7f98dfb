"""Events scored per second: candidates that share events, batched and with shared prefixes, against one by one.

One by one is the same model asked for one event at a time by our runner, and for one prompt at a time by transformers.

python -m mnemotune.experiments.memrm.throughput CHECKPOINT ROWS
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ...env.memrm.model.scoring import MemRM, Scores, load_memrm
from ...env.memrm.model.tokens import Ids
from ...env.memrm.rows.row import read_rows
from ...policies.memory import MemoryEvent
from ..command import run

CANDIDATES = 8
ROUNDS = 3


def candidates_of(event: MemoryEvent) -> list[MemoryEvent]:
    """Return writes of several candidates that meet one recorded event: lines dropped and cut in as many ways."""
    new = [line for line in event.after if line not in event.before]
    old = [line for line in event.after if line in event.before]
    words = [line.split() for line in new]
    writes = []
    for i in range(CANDIDATES):
        cut = [" ".join(line[: max(1, len(line) * (i + 1) // CANDIDATES)]) for line in words]
        writes.append(replace(event, after=(*old[i % 3 :], *cut)))
    return writes


def one_by_one(model: MemRM, events: Sequence[MemoryEvent]) -> Scores:
    """Score naively: one event at a time, and nothing is kept."""
    return np.concatenate([together(model, [event]) for event in events])


def together(model: MemRM, events: Sequence[MemoryEvent]) -> Scores:
    """Score all events at once, as if nothing had been read before."""
    model.forget()
    return model.score(events)


def in_transformers(model: MemRM, checkpoint: str) -> Callable[[Sequence[MemoryEvent]], Scores]:
    """Return how transformers scores one prompt at a time, as it comes: all logits of all places."""
    import torch
    from transformers import AutoModelForCausalLM

    causal = AutoModelForCausalLM.from_pretrained(checkpoint).eval()

    def difference(ids: Ids) -> float:
        logits = causal(torch.tensor([ids.whole])).logits[0, -1]
        return float(logits[model.tokens.safe] - logits[model.tokens.harmful])

    def alone(event: MemoryEvent) -> Scores:
        prompts = model.encode([event])
        return model.p_safe(np.array([difference(ids) for ids in prompts[0] or ()]), prompts)

    def score(events: Sequence[MemoryEvent]) -> Scores:
        with torch.inference_mode():
            return np.concatenate([alone(event) for event in events])

    return score


def measure(model: MemRM, events: Sequence[MemoryEvent], checkpoint: str) -> dict[str, Any]:
    """Time all ways in turns; a speedup is the median over rounds of a round's ratio."""
    plain = in_transformers(model, checkpoint)
    ways: dict[str, Callable[[], Scores]] = {
        "shared": lambda: together(model, events),
        "one_by_one": lambda: one_by_one(model, events),
        "transformers": lambda: plain(events),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    scores = {name: way() for name, way in ways.items()}  # caches of prompts are warm for both
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - began)
    speedup = {
        name: round(statistics.median(slow / fast for slow, fast in zip(taken, seconds["shared"], strict=True)), 2)
        for name, taken in seconds.items()
    }
    ids = [ids for prompts in model.encode(events) for ids in prompts or ()]
    return {
        "events": len(events),
        "prompts": len(ids),
        "different_prompts": len(set(ids)),
        "prefix_tokens": statistics.mean(len(i.prefix) for i in ids),
        "suffix_tokens": statistics.mean(len(i.suffix) for i in ids),
        "events_per_s": {name: round(len(events) / statistics.median(taken), 1) for name, taken in seconds.items()},
        "speedup_over": speedup,
        "largest_difference": max(float(np.nanmax(np.abs(scores["shared"] - other))) for other in scores.values()),
    }


def main(
    checkpoint: str,
    rows: Path,
    recorded: Annotated[int, typer.Option(help="Recorded events, each with eight candidates.")] = 40,
) -> None:
    """Measure with torch and with ONNX, and print JSON."""
    sample = [row.event for row in read_rows(rows)][:: max(1, 400 // recorded)][:recorded]
    events = [candidate for event in sample for candidate in candidates_of(event)]
    for torch in (True, False):
        figures = measure(load_memrm(checkpoint, torch=torch), events, checkpoint)
        print(json.dumps({"runner": "torch" if torch else "onnx", **figures}))


if __name__ == "__main__":
    run(main)

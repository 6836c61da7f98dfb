"""Events scored per second: candidates that share events, batched and with shared prefixes, against one by one.

python -m mnemotune.experiments.memrm.throughput CHECKPOINT ROWS
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...env.memrm.rows import read_rows
from ...env.memrm.scoring import MemRM, Scores, load_memrm
from ...policies.memory import MemoryEvent

CANDIDATES = 8
ROUNDS = 3


def candidates_of(event: MemoryEvent, count: int = CANDIDATES) -> list[MemoryEvent]:
    """Return writes of several candidates that meet one recorded event: lines dropped and cut in as many ways."""
    new = [line for line in event.after if line not in event.before]
    old = [line for line in event.after if line in event.before]
    words = [line.split() for line in new]
    made = []
    for i in range(count):
        cut = [" ".join(line[: max(1, len(line) * (i + 1) // count)]) for line in words]
        made.append(replace(event, after=(*old[i % 3 :], *cut)))
    return made


def one_by_one(model: MemRM, events: Sequence[MemoryEvent]) -> Scores:
    """Score naively: the whole prompt of one event at a time."""
    return np.concatenate([model.score([event]) for event in events])


def measure(model: MemRM, events: Sequence[MemoryEvent]) -> dict[str, Any]:
    """Time both ways in turns; a speedup is the median over rounds of a round's ratio."""
    seconds: dict[str, list[float]] = {"shared": [], "one_by_one": []}
    ways: dict[str, Callable[[], Scores]] = {
        "shared": lambda: model.score(events),
        "one_by_one": lambda: one_by_one(model, events),
    }
    scores = {name: way() for name, way in ways.items()}  # caches of prompts are warm for both
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - began)
    ratios = [slow / fast for slow, fast in zip(seconds["one_by_one"], seconds["shared"], strict=True)]
    return {
        "events": len(events),
        "tokens": sum(len(ids.whole) for ids in model.encode(events) if ids is not None),
        "events_per_s": {name: round(len(events) / statistics.median(taken), 1) for name, taken in seconds.items()},
        "speedup": round(statistics.median(ratios), 2),
        "largest_difference": float(np.nanmax(np.abs(scores["shared"] - scores["one_by_one"]))),
    }


def main() -> None:
    """Measure with torch and with ONNX, and print JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("checkpoint")
    arguments.add_argument("rows", type=Path)
    arguments.add_argument("--recorded", type=int, default=40, help="recorded events, each with eight candidates")
    given = arguments.parse_args()
    recorded = [row.event for row in read_rows(given.rows)][:: max(1, 400 // given.recorded)][: given.recorded]
    events = [candidate for event in recorded for candidate in candidates_of(event)]
    for torch in (True, False):
        figures = measure(load_memrm(given.checkpoint, torch=torch), events)
        print(json.dumps({"runner": "torch" if torch else "onnx", **figures}))


if __name__ == "__main__":
    main()

"""The four published arms, run with the embedded model, beside what AMemGym's authors published."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from ...data.dialogue.load import load_scenarios
from ...env import Cast, DialogueTrack, Evaluation, Evaluator, Summary
from ...env.dialogue.protocol import Protocol
from ...policies.files import load_policy
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.embedded.reading import Reading
from ...policies.lm.lexical import LexicalEmbedder
from ...policies.policy import MemoryPolicy

ARMS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "native": ("native", {}),
    "rag": ("rag", {}),
    "awe": ("awe", {}),
    "awi": ("awi", {}),
    "awe-2-0-30": ("awe", {"buffer_size": 0}),
    "awe-2-8-30": ("awe", {"buffer_size": 8}),
    "awe-2-4-10": ("awe", {"top_k": 10}),
}
"""Each published arm's preset, and the numbers in which it differs from it."""
ORDER = ("awe", "rag", "native", "awi")
"""The published order of memory scores, the highest first."""
SHARES = ("write", "read", "utilisation")
MEASURES = ("accuracy", "memory_score", *SHARES)
BARS = {"accuracy": 0.05, "memory_score": 0.05, **dict.fromkeys(SHARES, 0.05), "decay": 0.12}
"""How far means over periods, and decays, may be from the published ones: absolute differences of values in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One policy's measures by period, each of the length of its periods."""

    series: Mapping[str, Sequence[float]]
    upper_bound: float = 0.0
    seconds: float = 0.0

    def mean(self, measure: str) -> float:
        """Return a measure's mean over periods."""
        return sum(self.series[measure]) / len(self.series[measure])

    @property
    def decay(self) -> float:
        """Accuracy in the first period minus accuracy in the last."""
        return self.series["accuracy"][0] - self.series["accuracy"][-1]

    def gaps(self, other: Arm) -> dict[str, float]:
        """Return by how much each of ``BARS`` is above another arm's."""
        means = {measure: self.mean(measure) - other.mean(measure) for measure in MEASURES}
        return means | {"decay": self.decay - other.decay}


@cache
def published() -> dict[str, Arm]:
    """Return what AMemGym's authors published for gpt-4.1-mini, by arm."""
    text = (Path(__file__).parent / "published.yaml").read_text(encoding="utf-8")
    return {name: Arm(series) for name, series in yaml.safe_load(text).items()}


def run_all(
    data: str,
    executor: Executor,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    *,
    arms: Sequence[str] = tuple(ARMS),
) -> dict[str, Arm]:
    """Evaluate arms side by side."""
    running = {arm: executor.submit(_series, arm, data, reading) for arm in arms}
    return {arm: future.result() for arm, future in running.items()}


def misses(arms: Mapping[str, Arm]) -> list[str]:
    """Return what lies further from the published figures than it should, in words."""
    gaps = [
        f"{name}: {measure} is {gap:+.3f} from the published one, more than {BARS[measure]}"
        for name, arm in arms.items()
        for measure, gap in arm.gaps(published()[name]).items()
        if abs(gap) > BARS[measure]
    ]
    order = sorted(arms, key=lambda name: -arms[name].mean("memory_score"))
    order = [name for name in order if name in ORDER]
    theirs = [name for name in ORDER if name in arms]
    if order != theirs:
        gaps.append(f"the order is {' > '.join(order)}, not {' > '.join(theirs)}")
    return gaps


def evaluate(policy: MemoryPolicy, data: str, reading: Reading = Reading()) -> Evaluation:  # noqa: B008 - frozen
    """Evaluate a policy with the embedded model, probed as AMemGym's authors did: what is in an index is not seen."""
    track = DialogueTrack(Protocol(compat=frozenset({"unread_external_probes"})))
    return asyncio.run(Evaluator(track, cast(reading)).evaluate(policy, load_scenarios(data)))


def cast(reading: Reading = Reading()) -> Cast:  # noqa: B008 - frozen
    """Return the embedded model in all roles."""
    model = EmbeddedModel({"": reading})
    return Cast(model, model, LexicalEmbedder())


def _series(arm: str, data: str, reading: Reading) -> Arm:
    preset, numbers = ARMS[arm]
    summary = Summary.of(evaluate(load_policy(preset).model_copy(update=dict(numbers)), data, reading), name=arm)
    return Arm({measure: list(summary.stages[measure]) for measure in MEASURES}, summary.ceiling, summary.wall_s)


def native_accuracies(data: str, reading: Reading) -> list[float]:
    """Return a reader's accuracies by period with the whole history in its prompt."""
    return list(_series("native", data, reading).series["accuracy"])

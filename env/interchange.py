"""AMemGym's result files: written from an evaluation, and read as one.

Layout, under a folder: ``NAME/USER/{interactions/period_XX,overall_results,overall_metrics,diagnosis_results,
diagnosis_metrics}.json`` for a policy, ``MODEL/{utilization_results,utilization_metrics}.json`` for the upper bound,
and ``random_metrics.json``. Metrics are aligned: [user][period][question].
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data.scenario import Question, Scenario
from ..policies.policy import MemoryPolicy
from .compat import DEFECTS, Compat
from .episode import Answer, Episode, PeriodRecord, Probe, UpperBound, answer_of
from .evaluation import Evaluation
from .protocol import Protocol, gold_choice, probe_prompt
from .scoring import last_change, score_episode, similarity
from .transcript import read_transcripts

RANDOM, BOUND, BOUND_METRICS = "random_metrics.json", "utilization_results.json", "utilization_metrics.json"
OVERALL, OVERALL_METRICS = "overall_results.json", "overall_metrics.json"
DIAGNOSIS, DIAGNOSIS_METRICS = "diagnosis_results.json", "diagnosis_metrics.json"


class InterchangeError(ValueError):
    """Say which of AMemGym's result files is missing or cannot be read."""


def write_results(
    folder: Path, evaluation: Evaluation, scenarios: Sequence[Scenario], *, name: str, model: str, protocol: Protocol
) -> None:
    """Write the complete episodes of an evaluation. What was left unscored is NaN."""
    by_id = {scenario.id: scenario for scenario in scenarios}
    episodes = [episode for episode in evaluation.episodes if episode.failure is None]
    lives = [by_id[episode.user] for episode in episodes]
    for episode, life in zip(episodes, lives, strict=True):
        _write_user(folder / name / life.id, episode, life, protocol)
    bounds = [evaluation.upper_bounds[life.id] for life in lives]
    _write(folder / model / BOUND, [_bound_json(bound, life) for bound, life in zip(bounds, lives, strict=True)])
    metrics = [_bound_metrics(bound, life) for bound, life in zip(bounds, lives, strict=True)]
    _write(folder / model / BOUND_METRICS, {"accuracy": metrics})
    _write(folder / RANDOM, {"accuracy": [_chances(life) for life in lives]})


def read_results(
    folder: Path, scenarios: Sequence[Scenario], *, name: str, model: str, policy: MemoryPolicy
) -> Evaluation:
    """Read a finished run of AMemGym's, scored as its own code does (``compat: amemgym``).

    Raises InterchangeError or TranscriptError when a file is missing or does not suit the scenarios.
    """
    compat: Compat = frozenset(DEFECTS)
    talks = read_transcripts(folder / name)
    episodes = [_read_user(folder / name / life.id, life, policy, talks.get(life.id, ())) for life in scenarios]
    found = _read(folder / model / BOUND)
    if len(found) != len(scenarios):
        raise InterchangeError(f"{folder / model / BOUND}: has {len(found)} users, and there are {len(scenarios)}")
    bounds = [_read_bound(rows, life) for rows, life in zip(found, scenarios, strict=True)]
    parts = zip(episodes, scenarios, bounds, strict=True)
    return Evaluation(
        policy=policy,
        users=tuple(score_episode(episode, life, bound, compat=compat) for episode, life, bound in parts),
        episodes=tuple(episodes),
        upper_bounds={life.id: bound for life, bound in zip(scenarios, bounds, strict=True)},
        compat=compat,
    )


# Writing


def _write_user(folder: Path, episode: Episode, life: Scenario, protocol: Protocol) -> None:
    for p, period in enumerate(episode.periods):
        sessions = [
            [
                {"role": role, "content": text}
                for turn in turns
                for role, text in (("user", turn.user), ("assistant", turn.assistant))
            ]
            for turns in period.sessions
        ]
        _write(folder / "interactions" / f"period_{p:02d}.json", sessions)
    answers = [[_answer_json(a, q) for a, q in zip(p.answers, life.qas, strict=True)] for p in episode.periods]
    _write(folder / OVERALL, answers)
    _write(folder / OVERALL_METRICS, {"accuracy": [[answer.score for answer in p.answers] for p in episode.periods]})
    probes = [
        [_probe_json(probe, q, p, life, protocol) for q, probe in enumerate(period.probes)]
        for p, period in enumerate(episode.periods)
    ]
    _write(folder / DIAGNOSIS, probes)
    _write(folder / DIAGNOSIS_METRICS, _diagnosis_metrics(probes))


def _answer_json(answer: Answer, question: Question) -> dict[str, Any]:
    gold = None if answer.gold is None else question.answer_choices[answer.gold]
    chosen = None if answer.choice is None else question.answer_choices[answer.choice]
    return {
        "query": question.query,
        "answer": answer.gold,
        "answer_state": gold and gold.state,
        "answer_choice": gold and gold.answer,
        "raw_response": answer.raw,
        "response": None if answer.choice is None else answer.choice + 1,
        "response_state": chosen and chosen.state,
        "response_choice": chosen and chosen.answer,
        "json_error": answer.choice is None or answer.guessed,
        "llm_usage_statistics": {},
        "scores": {"accuracy": answer.score},
    }


def _probe_json(probe: Probe, q: int, p: int, life: Scenario, protocol: Protocol) -> dict[str, Any]:
    question = life.qas[q]
    named = probe.values or {}
    results = [
        {
            "info_type": info,
            "json_error": info not in named,
            "answer_state": life.periods[p].state[info],
            "response_state": named.get(info),
            "write_pos": last_change(life, info, p),
            "read_pos": p,
            "score": float(probe.right[info]),
        }
        for info in question.required_info
    ]
    query = probe_prompt(protocol.templates.probe, question, life)
    return {"query": query, "raw_response": probe.raw, "results": results}


def _diagnosis_metrics(probes: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, list[list[int]]]:
    """Count, for each period and question, the states lost in writing and in reading, and whether all are known."""
    found: dict[str, list[list[int]]] = {name: [] for name in ("write_failure", "read_failure", "memory_success")}
    for period in probes:
        rows = [_count_failures(probes, q, cell["results"]) for q, cell in enumerate(period)]
        for name, column in zip(found, zip(*rows, strict=True), strict=True):
            found[name].append(list(column))
    return found


def _count_failures(
    probes: Sequence[Sequence[Mapping[str, Any]]], q: int, results: Sequence[Mapping[str, Any]]
) -> tuple[int, int, int]:
    lost = [(i, result) for i, result in enumerate(results) if result["score"] == 0]
    write = sum(probes[result["write_pos"]][q]["results"][i]["score"] == 0 for i, result in lost)
    return write, len(lost) - write, int(not lost)


def _bound_json(bound: UpperBound, life: Scenario) -> list[list[dict[str, Any]]]:
    return [
        [_answer_json(answer, question) | {"answer": c + 1} for c, answer in enumerate(answers)]
        for answers, question in zip(bound, life.qas, strict=True)
    ]


def _bound_metrics(bound: UpperBound, life: Scenario) -> list[list[float]]:
    return [
        [
            math.nan if (gold := question.gold(period.state)) is None else answers[gold].score
            for answers, question in zip(bound, life.qas, strict=True)
        ]
        for period in life.periods
    ]


def _chances(life: Scenario) -> list[list[float]]:
    return [[_chance(question, period.state) for question in life.qas] for period in life.periods]


def _chance(question: Question, state: Mapping[str, str]) -> float:
    now = [state[info] for info in question.required_info]
    alike = [similarity(now, choice.state, "accuracy") for choice in question.answer_choices]
    return sum(alike) / len(alike)


def _write(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, ensure_ascii=False, indent=2), encoding="utf-8")


# Reading


def _read_user(folder: Path, life: Scenario, policy: MemoryPolicy, sessions: Sequence[Any]) -> Episode:
    answers, probes = _read(folder / OVERALL), _read(folder / DIAGNOSIS)
    try:
        periods = tuple(
            PeriodRecord(
                sessions=sessions[p],
                events=(),
                answers=tuple(
                    _read_answer(cell, q, period.state) for cell, q in zip(answers[p], life.qas, strict=True)
                ),
                probes=tuple(_read_probe(cell) for cell in probes[p]),
            )
            for p, period in enumerate(life.periods)
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InterchangeError(f"{folder}: does not suit user {life.id}'s scenario: {error!r}") from None
    return Episode(life.id, policy.key, periods)


def _read_answer(cell: Mapping[str, Any], question: Question, state: Mapping[str, str]) -> Answer:
    gold = gold_choice(question, state, compat=frozenset(DEFECTS))
    return answer_of(cell["raw_response"], _place(cell, question), gold, question, guessed=cell["json_error"])


def _place(cell: Mapping[str, Any], question: Question) -> int | None:
    """Return the 0-based choice of a result; 0 and below count from the end there."""
    response = cell["response"]
    if response is None:
        return None
    return int(response - 1) % len(question.answer_choices)


def _read_probe(cell: Mapping[str, Any]) -> Probe:
    values = {r["info_type"]: r["response_state"] for r in cell["results"] if isinstance(r["response_state"], str)}
    return Probe(cell["raw_response"], values, {r["info_type"]: r["score"] == 1 for r in cell["results"]})


def _read_bound(rows: Sequence[Sequence[Mapping[str, Any]]], life: Scenario) -> UpperBound:
    return tuple(
        tuple(
            answer_of(cell["raw_response"], _place(cell, question), c, question, guessed=cell["json_error"])
            for c, cell in enumerate(cells)
        )
        for cells, question in zip(rows, life.qas, strict=True)
    )


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InterchangeError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise InterchangeError(f"{file}: is not JSON: {error}") from None

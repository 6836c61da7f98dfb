"""AMemGym's result files: written from an evaluation, and read as one.

Layout, under a folder: for a policy ``NAME/NAME.json``, the agent config, and ``NAME/USER/`` with
``interactions/period_XX.json``, ``overall_results.json``, ``overall_metrics.json``, ``diagnosis_results.json`` and
``diagnosis_metrics.json``; for the upper bound ``MODEL/`` with ``utilization_results.json`` and
``utilization_metrics.json``; and ``random_metrics.json``. Metrics are aligned: [user][period][question].
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...data.dialogue.scenario import Question, Scenario
from ...data.errors import MnemotuneError
from ...data.json_files import write_json
from ...policies.amemgym import agent_config, is_agent_config, policy_values
from ...policies.policy import MemoryPolicy
from ..episode import Episode
from ..evaluation import Evaluation, score_groups
from .bounds import bounds_of
from .compat import DEFECTS
from .protocol import Protocol, gold_choice, probe_prompt
from .record import Answer, DialogueBounds, PeriodRecord, Probe, UpperBound, answer_of, record_period, sessions_of
from .track import DialogueTrack
from .transcript import read_transcripts

RANDOM, BOUND, BOUND_METRICS = "random_metrics.json", "utilization_results.json", "utilization_metrics.json"
OVERALL, OVERALL_METRICS = "overall_results.json", "overall_metrics.json"
DIAGNOSIS, DIAGNOSIS_METRICS = "diagnosis_results.json", "diagnosis_metrics.json"
NATIVE: Mapping[str, Any] = {"type": "native"}


class InterchangeError(MnemotuneError, ValueError):
    """Say which of AMemGym's result files is missing or cannot be read."""


def write_results(
    folder: Path, evaluation: Evaluation, scenarios: Sequence[Scenario], *, name: str, model: str, protocol: Protocol
) -> None:
    """Write the complete episodes of an evaluation. What was left unscored is NaN."""
    by_id = {scenario.id: scenario for scenario in scenarios}
    episodes = [episode for episode in evaluation.episodes if episode.failure is None]
    lives = [by_id[episode.task] for episode in episodes]
    check_names(folder, name=name, model=model, users=by_id)
    _write(_inside(folder, name) / f"{Path(name).name}.json", agent_config(evaluation.policy, name=name, model=model))
    for episode, life in zip(episodes, lives, strict=True):
        _write_user(_inside(folder / name, life.id), episode, life, protocol)
    bounds = [_choices(evaluation, life) for life in lives]
    of_model = _inside(folder, model)
    _write(of_model / BOUND, list(map(_bound_json, bounds, lives)))
    metrics = list(map(_bound_metrics, bounds, lives))
    _write(of_model / BOUND_METRICS, {"accuracy": metrics})
    chances = [[[question.chance(period.state) for question in life.qas] for period in life.periods] for life in lives]
    _write(folder / RANDOM, {"accuracy": chances})


def check_names(folder: Path, *, name: str, model: str, users: Iterable[str]) -> None:
    """Raise InterchangeError where the name of a policy, a model or a user would lead out of a folder of results."""
    run = _inside(folder, name)
    _inside(folder, model)
    for user in users:
        _inside(run, user)


def _inside(folder: Path, name: str) -> Path:
    """Return a place in a folder. Raises InterchangeError where the name would lead out of it."""
    place = folder / name
    inside = place.resolve().is_relative_to(folder.resolve()) and place.resolve() != folder.resolve()
    if not inside or ".." in Path(name).parts:  # what stays inside could still be another's place
        raise InterchangeError(f"{name!r} leads out of {folder}: such a user or model cannot be exported; rename it")
    return place


def find_runs(folder: Path) -> dict[str, Path]:
    """Return the folders of runs at any depth, by name: a run holds ``USER/overall_results.json``.

    Raises InterchangeError when there is none, or two have one name.
    """
    runs: dict[str, Path] = {}
    for run in sorted({file.parent.parent for file in folder.rglob(OVERALL)}):
        if run.resolve().name in runs:
            raise InterchangeError(f"{folder}: two runs are called {run.name}: {runs[run.name]} and {run}")
        runs[run.resolve().name] = run
    if not runs:
        raise InterchangeError(f"{folder}: holds no results of AMemGym's: there is no NAME/USER/{OVERALL} in it")
    return runs


def find_upper_bound(folder: Path, run: Path) -> Path | None:
    """Return the file with the upper bound of a run's model; None where there is none.

    With the bounds of several models in ``folder`` the run's agent config says which. Raises InterchangeError when it
    does not.
    """
    files = {file.parent.name: file for file in sorted(folder.rglob(BOUND))}
    if len(files) < 2:
        return next(iter(files.values()), None)
    model = (_agent_config(run) or {}).get("llm_config", {}).get("llm_model")
    if model not in files:
        raise InterchangeError(f"{run}: ran on {model!r}, and there are upper bounds of {', '.join(files)} only")
    return files[model]


def policy_of_run(run: Path) -> MemoryPolicy:
    """Return the policy that a run's agent config asks for; native where it has none, or one that is no policy."""
    try:
        return MemoryPolicy.model_validate(policy_values(_agent_config(run) or NATIVE))
    except ValueError:
        return MemoryPolicy.model_validate(policy_values(NATIVE))


def _agent_config(run: Path) -> Mapping[str, Any] | None:
    files = [*sorted(run.glob("*.json")), *sorted(run.glob("*/agent_config.json"))]
    return next((config for file in files if is_agent_config(config := _read(file))), None)


def read_results(
    run: Path, scenarios: Sequence[Scenario], *, upper_bound: Path | None, policy: MemoryPolicy
) -> Evaluation:
    """Read a run of AMemGym's, or an exported one, scored as its own code does (``compat: amemgym``).

    Users without results are left out; unfinished ones are failures. Without an upper bound there is no memory score,
    without diagnosis there are no shares. Raises InterchangeError or TranscriptError when a file cannot be used.
    """
    track = DialogueTrack(Protocol(compat=frozenset(DEFECTS)))
    lives = [life for life in scenarios if (_inside(run, life.id) / OVERALL).is_file()]
    talks = read_transcripts(run) if any(run.glob("*/interactions")) else {}
    episodes = [_read_user(run / life.id, life, policy, talks.get(life.id)) for life in lives]
    choices = _read_bounds(upper_bound, lives, scenarios)
    bounds = {life.id: bounds_of(life, choices[life.id], track.protocol.compat) for life in lives}
    return Evaluation(
        policy=policy,
        groups=score_groups(track, lives, episodes, bounds),
        episodes=tuple(episodes),
        group_of={life.id: life.group for life in lives},
        bounds=bounds if upper_bound is not None else {},
        extras=track.extras(lives, episodes, bounds),
        compat=track.compat,
    )


def _read_bounds(file: Path | None, lives: Sequence[Scenario], scenarios: Sequence[Scenario]) -> dict[str, UpperBound]:
    """Return the upper bound of each user with results; the file has no ids, only the order of the data."""
    if file is None:
        unknown = Answer("", None, None, math.nan)
        return {life.id: tuple((unknown,) * len(question.answer_choices) for question in life.qas) for life in lives}
    rows = _read(file)
    if len(rows) not in {len(lives), len(scenarios)}:
        raise InterchangeError(f"{file}: has {len(rows)} users, and there are {len(scenarios)}")
    ids = [life.id for life in (scenarios if len(rows) == len(scenarios) else lives)]
    by_id = dict(zip(ids, rows, strict=True))
    try:
        return {life.id: _read_bound(by_id[life.id], life) for life in lives}
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InterchangeError(f"{file}: does not suit the scenarios: {error!r}") from None


# Writing


def _choices(evaluation: Evaluation, life: Scenario) -> UpperBound:
    bounds = evaluation.bounds[life.id]
    return bounds.choices if isinstance(bounds, DialogueBounds) else ()


def _write_user(folder: Path, episode: Episode, life: Scenario, protocol: Protocol) -> None:
    periods = [stage for stage in episode.stages if isinstance(stage, PeriodRecord)]
    for p, period in enumerate(periods):
        sessions = [[message.as_json() for turn in turns for message in turn.messages] for turns in sessions_of(period)]
        _write(folder / "interactions" / f"period_{p:02d}.json", sessions)
    answers = [[_answer_json(a, q) for a, q in zip(p.answers, life.qas, strict=True)] for p in periods]
    _write(folder / OVERALL, answers)
    _write(folder / OVERALL_METRICS, {"accuracy": [[answer.score for answer in p.answers] for p in periods]})
    probes = [
        [_probe_json(probe, q, p, life, protocol) for q, probe in enumerate(period.probes)]
        for p, period in enumerate(periods)
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
            "write_pos": life.last_change(info, p),
            "read_pos": p,
            "score": float(probe.right[info]),
        }
        for info in question.required_info
    ]
    query = probe_prompt(protocol.templates.probe, question, life)
    return {"query": query, "raw_response": probe.raw, "results": results}


def _diagnosis_metrics(probes: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, list[list[int]]]:
    """Count, for each period and question, the states lost in writing and in reading, and whether all are known."""
    counts = [[_count_failures(probes, q, cell["results"]) for q, cell in enumerate(period)] for period in probes]
    names = ("write_failure", "read_failure", "memory_success")
    return {name: [[row[i] for row in period] for period in counts] for i, name in enumerate(names)}


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


_write = partial(write_json, indent=2)


# Reading


def _read_user(folder: Path, life: Scenario, policy: MemoryPolicy, talk: Episode | None) -> Episode:
    answers = _read(folder / OVERALL)
    probes = _read(folder / DIAGNOSIS) if (folder / DIAGNOSIS).is_file() else [[]] * len(life.periods)
    try:
        if any(cell is None for row in (*answers, *probes) for cell in row):
            return Episode(life.id, policy.key, (), failure="its results are not finished")
        periods = tuple(
            record_period(
                life,
                p,
                events=() if talk is None else talk.stages[p].events,
                answers=[
                    _read_answer(cell, question, gold_choice(question, period.state, compat=frozenset(DEFECTS)))
                    for cell, question in zip(answers[p], life.qas, strict=True)
                ],
                probes=[_read_probe(cell) for cell in probes[p]],
            )
            for p, period in enumerate(life.periods)
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InterchangeError(f"{folder}: does not suit user {life.id}'s scenario: {error!r}") from None
    return Episode(life.id, policy.key, periods)


def _read_answer(cell: Mapping[str, Any], question: Question, gold: int | None) -> Answer:
    """Return the answer of a result; a choice of 0 and below counts from the end there."""
    response = cell["response"]
    choice = None if response is None else int(response - 1) % len(question.answer_choices)
    return answer_of(cell["raw_response"], choice, gold, question, guessed=cell["json_error"])


def _read_probe(cell: Mapping[str, Any]) -> Probe:
    values = {r["info_type"]: r["response_state"] for r in cell["results"] if isinstance(r["response_state"], str)}
    return Probe(cell["raw_response"], values, {r["info_type"]: r["score"] == 1 for r in cell["results"]})


def _read_bound(rows: Sequence[Sequence[Mapping[str, Any]]], life: Scenario) -> UpperBound:
    return tuple(
        tuple(_read_answer(cell, question, c) for c, cell in enumerate(cells))
        for cells, question in zip(rows, life.qas, strict=True)
    )


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InterchangeError(f"{file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InterchangeError(f"{file}: is not JSON: {error}") from None

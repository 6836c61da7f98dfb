"""The code questions pass what every track has to hold to, and score literals and recall."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from code_trees import write_tree
from mnemotune.data import Task
from mnemotune.data.task import TaskError
from mnemotune.env import Evaluator, Track
from mnemotune.env.codeqa.track import CodeTrack, code_task
from mnemotune.env.conformance import TrackConformance
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates
from toy import Letters


@pytest.fixture(scope="module")
def track() -> CodeTrack:
    return CodeTrack(Templates.bundled())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"{write_tree(tmp_path_factory.mktemp('tree'), packages=2)}:2@1:3000"


@pytest.fixture(scope="module")
def tasks(track: CodeTrack, source: str) -> Sequence[Task]:
    return track.load(source)


class TestCodeQuestions(TrackConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, tmp_path_factory: pytest.TempPathFactory) -> str:
        return f"{write_tree(tmp_path_factory.mktemp('tree'), packages=2)}:2@1:3000"

    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> Track:
        return CodeTrack(Templates.bundled())


def cast(context_tokens: int | None = 1000) -> Cast:
    return Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder(), context_tokens)


def reply(value: object) -> str:
    return json.dumps({"value": value})


def test_an_answer_is_right_when_it_is_the_literal(track: CodeTrack, tasks: Sequence[Task]) -> None:
    task = tasks[0]
    for check in task.checks.values():
        right = code_task(task).answer(check)
        assert track.mark(task, check, reply(f" {right} ")).score == 1
        assert track.mark(task, check, reply(f"not {right}")).score == 0
        assert track.mark(task, check, "I do not know").readable is False


def test_facts_of_a_question_that_needs_several_are_asked_for_one_by_one(
    track: CodeTrack, tasks: Sequence[Task]
) -> None:
    linked = [(task, check) for task in tasks for check in task.checks.values() if len(check.needs) > 1]
    assert linked
    for task, check in linked:
        probes = track.fact_probes(task, check)
        assert list(probes) == list(check.needs)
        for fact, probe in probes.items():
            assert probe.is_right(reply(code_task(task).values[fact]))
            assert not probe.is_right(reply("something else"))


async def test_the_floor_is_near_zero_and_the_ceiling_near_one_and_losses_are_diagnosed(
    track: CodeTrack, tasks: Sequence[Task]
) -> None:
    evaluation = await Evaluator(track, cast(200)).evaluate(load_policy("rag"), tasks)
    stages = [stage for group in evaluation.groups for stage in group.stages]
    assert sum(stage.floor for stage in stages) / len(stages) <= 0.05
    assert sum(stage.ceiling for stage in stages) / len(stages) >= 0.9
    for stage in stages:
        shares = stage.diagnosis
        assert shares.accuracy + shares.write + shares.read + shares.utilisation == pytest.approx(1)


async def test_a_policy_that_shows_all_that_it_read_is_cut_at_the_budget_however_much_it_was(track: CodeTrack) -> None:
    tasks = track.load("generated:1@7:100000")
    evaluation = await Evaluator(track, cast()).evaluate(load_policy("native"), tasks)
    (episode,) = evaluation.episodes
    assert code_task(tasks[0]).tokens >= 100_000
    assert 900 < episode.uses["answer"].most_tokens <= 1_000
    assert evaluation.extras["codeqa"]["accuracy"] <= 0.1


async def test_memgym_s_scores_are_told_beside(track: CodeTrack, tasks: Sequence[Task]) -> None:
    evaluation = await Evaluator(track, cast(None)).evaluate(load_policy("native"), tasks)
    figures = evaluation.extras["codeqa"]
    assert set(figures) == {"accuracy", "fact_recall", "critical_recall", "external_recall", "noise_rejection"}
    assert all(0 <= value <= 1 for value in figures.values())
    assert figures["fact_recall"] == figures["critical_recall"] > 0.3
    assert figures["noise_rejection"] >= 0.5


async def test_an_answer_that_is_a_distractor_s_lowers_noise_rejection(track: CodeTrack, tasks: Sequence[Task]) -> None:
    evaluation = await Evaluator(track, cast()).evaluate(load_policy("native"), tasks[:1])
    (episode,) = evaluation.episodes
    misled = {check.id: code_task(tasks[0]).distractors[check.question] for check in tasks[0].checks.values()}
    assert all(len(values) == 1 for values in misled.values())
    stages = [
        replace(stage, marks=tuple(replace(mark, raw=reply(misled[mark.check][0])) for mark in stage.marks))
        for stage in episode.stages
    ]
    figures = track.extras(tasks[:1], [replace(episode, stages=stages)], evaluation.bounds)["codeqa"]
    assert figures["noise_rejection"] == 0


def test_words_alone_show_whether_a_text_states_a_fact(track: CodeTrack, tasks: Sequence[Task]) -> None:
    for task in tasks:
        for fact in task.facts.values():
            assert all(track.states(task, fact, text) for text in (*fact.sources, fact.text))
            others = [text for other in task.facts.values() if other.key != fact.key for text in other.sources]
            assert not any(track.states(task, fact, text) for text in others)


def test_another_track_s_task_is_refused(track: CodeTrack) -> None:
    with pytest.raises(TaskError, match="no task of the codeqa track"):
        track.heard(Letters("letters-0", "writer-0", 1), 0)


async def test_rows_of_memgym_are_scored_by_the_facts_that_an_answer_states(track: CodeTrack, tmp_path: Path) -> None:
    contents = ["The upload client waits eleven seconds between attempts.", "Thumbnails expire after forty minutes."]
    row = {
        "instance_id": "memgym__acme__uploader-12",
        "base_instance": "acme__uploader-12",
        "memory_files": {"notes.md": "\n".join(contents)},
        "grounding_facts": [
            {"id": f"F{n}", "content": text, "category": "constraint", "discoverable": n == 0, "relevance": "critical"}
            for n, text in enumerate(contents)
        ],
        "qa_pairs": [{"qa_id": "Q", "question": "What is slow?", "linked_fact_ids": ["F0", "F1"]}],
    }
    (tmp_path / "rows.json").write_text(json.dumps([row]), encoding="utf-8")
    (task,) = track.load(str(tmp_path / "rows.json"))
    (check,) = task.checks.values()
    half, whole = (track.mark(task, check, reply(text)) for text in (contents[0], " ".join(contents)))
    assert (half.score, whole.score) == (0.5, 1.0)
    assert track.recalled(task, check, half) == {"F0": True, "F1": False}
    evaluation = await Evaluator(track, cast()).evaluate(load_policy("native"), [task])
    assert evaluation.extras["codeqa"]["noise_rejection"] is None


EARLY = "The upload client waits eleven seconds between attempts."
LATER = ("Thumbnails expire after forty minutes.", "Drains happen silently whenever brokers disconnect.")


class Attentive(LanguageModel):
    """Answers with all facts that stand before it."""

    name = "attentive"

    async def complete(self, request: Request) -> Completion:
        shown = "\n".join(message.content for message in request.messages)
        return Completion(reply(" ".join(text for text in (EARLY, *LATER) if text in shown)), Usage(1, 1))


def told_early(track: CodeTrack, folder: Path, needs: Sequence[str]) -> Task:
    """Return the task of a row whose facts are told in stages 0, 1 and 2, and asked for at the end."""
    facts = [
        {"id": f"F{n}", "content": text, "category": "constraint", "discoverable": True, "relevance": "critical"}
        for n, text in enumerate((EARLY, *LATER))
    ]
    row = {
        "instance_id": "memgym__acme__uploader-12",
        "base_instance": "acme__uploader-12",
        "memory_files": {f"{n}.md": f"{fact['content']}\n{'Nothing. ' * 80}" for n, fact in enumerate(facts)},
        "grounding_facts": facts,
        "qa_pairs": [{"qa_id": "Q", "question": "What is slow?", "linked_fact_ids": needs}],
    }
    (folder / "rows.json").write_text(json.dumps([row]), encoding="utf-8")
    return track.load(str(folder / "rows.json"))[0]


async def test_a_fact_that_was_known_when_it_was_told_and_is_asked_for_later_is_lost_in_reading(
    track: CodeTrack, tmp_path: Path
) -> None:
    task, model = told_early(track, tmp_path, ["F0"]), Attentive()
    policy = load_policy("window")
    evaluation = await Evaluator(track, Cast(model, model, LexicalEmbedder(), 450)).evaluate(policy, [task])
    (episode,) = evaluation.episodes
    assert [dict(stage.recalled) for stage in episode.stages] == [{"F0": True}, {}, {}]
    assert [mark.recalled for mark in episode.stages[2].marks] == [{"F0": False}]
    shares = evaluation.groups[0].stages[2].diagnosis
    assert (shares.accuracy, shares.write, shares.read, shares.utilisation) == (0, 0, 1, 0)
    assert episode.ledger.by_role["probe"].calls == 1
    assert episode.ledger.total.calls == track.most_calls(task, policy) == 2


async def test_where_a_fact_cannot_be_asked_for_alone_when_it_is_told_its_loss_has_no_shares(
    track: CodeTrack, tmp_path: Path
) -> None:
    task, model = told_early(track, tmp_path, ["F0", "F2"]), Attentive()
    evaluation = await Evaluator(track, Cast(model, model, LexicalEmbedder(), 450)).evaluate(
        load_policy("window"), [task]
    )
    (episode,) = evaluation.episodes
    assert not any(stage.recalled for stage in episode.stages)
    assert [mark.recalled for mark in episode.stages[2].marks] == [{"F0": False, "F2": True}]
    shares = evaluation.groups[0].stages[2].diagnosis
    assert shares.accuracy == 0.5
    assert all(map(math.isnan, (shares.write, shares.read, shares.utilisation)))

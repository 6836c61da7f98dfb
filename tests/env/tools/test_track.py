"""The tools track passes the tests of every track, and scores what memory carries from step to step."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from mnemotune.data.task import Task, TaskError, checks_at
from mnemotune.data.tools.task import ToolsTask, tools_task
from mnemotune.env.conformance import TrackConformance
from mnemotune.env.cost import turn_cost
from mnemotune.env.episode import Episode, RecordError
from mnemotune.env.evaluation import Evaluator
from mnemotune.env.reading import probes_at
from mnemotune.env.tools.track import ToolsTrack
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, Message, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates

SOURCE = "generated:2@5"
WORDS = 4
"""Words in a row that are more than a name."""


@pytest.fixture(scope="module")
def track() -> ToolsTrack:
    return ToolsTrack(Templates.bundled())


@pytest.fixture(scope="module")
def tasks(track: ToolsTrack) -> Sequence[Task]:
    return track.load(SOURCE)


class TestToolsTrack(TrackConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> ToolsTrack:
        return ToolsTrack(Templates.bundled())

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls) -> str:
        return SOURCE


class AttentiveModel(LanguageModel):
    """Knows the right answer to each question, and gives it where it stands in what is shown."""

    name = "attentive"

    def __init__(self, task: ToolsTask) -> None:
        self.right: dict[str, list[str]] = {}
        for check in task.checks.values():
            self.right.setdefault(check.text, []).insert(0, str(task.right(check)))

    async def complete(self, request: Request) -> Completion:
        *shown, asked = request.messages
        text = "\n".join(message.content for message in shown)
        values = next(values for question, values in self.right.items() if question in asked.content)
        value = next((value for value in values if value in text), "")
        return Completion(json.dumps({"value": value}), Usage(1, 1))


def cast(model: LanguageModel, tokens: int | None = None) -> Cast:
    return Cast(model, model, LexicalEmbedder(), context_tokens=tokens)


async def played(
    track: ToolsTrack, task: Task, policy: MemoryPolicy, cast: Cast, replay: Episode | None = None
) -> Episode:
    return await track.begin(task, policy, cast, replay=replay).run()


@pytest.mark.parametrize("number", range(4))
async def test_whoever_sees_everything_and_reads_well_is_rewarded_in_full(
    track: ToolsTrack, tasks: Sequence[Task], number: int
) -> None:
    task = tools_task(tasks[number])
    evaluation = await Evaluator(track, cast(AttentiveModel(task))).evaluate(load_policy("window"), [task])
    assert evaluation.extras["rewards"] == {task.id: 1.0}
    assert evaluation.mean("accuracy") == 1
    assert all(stage.recalled[fact] for stage in evaluation.episodes[0].stages for fact in stage.recalled)


async def test_a_window_that_is_too_small_scores_exactly_the_floor(track: ToolsTrack, tasks: Sequence[Task]) -> None:
    evaluator = Evaluator(track, cast(EmbeddedModel(), tokens=400))
    evaluation = await evaluator.evaluate(load_policy("window"), tasks)
    assert evaluation.memory_score.mean == 0
    assert evaluation.mean("floor") < 0.6 < 0.95 < evaluation.mean("ceiling")


async def test_a_wrong_value_is_used_as_it_is_and_memory_observes_what_comes_of_it(
    track: ToolsTrack, tasks: Sequence[Task]
) -> None:
    class Stubborn(EmbeddedModel):
        async def complete(self, request: Request) -> Completion:
            return Completion('{"value": "X-1"}', Usage(1, 1))

    episode = await played(track, tasks[0], load_policy("native"), cast(Stubborn()))
    observed = [message.content for stage in episode.stages for seen in stage.heard for message in seen]
    assert 'find_customer({"phone": "X-1"}) returned:\nError: nobody has the telephone number \'X-1\'' in observed
    assert all(mark.score == 0 for stage in episode.stages for mark in stage.marks)


@pytest.mark.parametrize("policy", ["window", "rag", "awi"])
async def test_no_memory_meets_the_customer_s_hidden_script(
    track: ToolsTrack, tasks: Sequence[Task], policy: str
) -> None:
    for task in map(tools_task, tasks):
        episode = await played(track, task, load_policy(policy), cast(EmbeddedModel(), tokens=500))
        heard = [message.content for stage in episode.stages for seen in stage.heard for message in seen]
        asked = [text for check in task.checks.values() for text in (track.query(task, check), check.text)]
        written = [line for stage in episode.stages for write in stage.writes for line in write.after]
        met = _plain(" | ".join([*heard, *asked, *written]))
        for text in task.script:
            words = _plain(text).split()
            runs = [" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)]
            assert runs
            assert [run for run in runs if f" {run} " in f" {met} "] == []


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[\w'-]+|\|", text.lower()))


async def test_memory_observes_pieces_of_200_tokens_or_fewer(track: ToolsTrack, tasks: Sequence[Task]) -> None:
    for task in tasks:
        episode = await played(track, task, load_policy("native"), cast(EmbeddedModel()))
        assert all(len(seen) == 1 and seen[0].tokens <= 200 for stage in episode.stages for seen in stage.heard)


async def test_the_floor_follows_the_plan_with_what_it_sees(track: ToolsTrack, tasks: Sequence[Task]) -> None:
    task = tools_task(tasks[0])
    whole = await track.bounds(task, cast(AttentiveModel(task)))
    narrow = await track.bounds(task, cast(AttentiveModel(task), tokens=120))
    assert {mark.score for mark in whole.floor.values()} == {1.0}
    assert 0 < sum(mark.score for mark in narrow.floor.values()) < len(task.checks)
    assert {mark.score for mark in narrow.ceiling.values()} == {1.0}


async def test_another_customer_s_record_is_not_replayed(track: ToolsTrack, tasks: Sequence[Task]) -> None:
    episode = await played(track, tasks[0], load_policy("native"), cast(EmbeddedModel()))
    for task, record in ((tasks[2], episode), (tasks[0], replace(episode, stages=episode.stages[:-1]))):
        with pytest.raises(RecordError, match="another customer is recorded"):
            track.begin(task, load_policy("native"), cast(EmbeddedModel()), replay=record)


def test_what_is_probed_is_asked_for_in_a_later_stage_only(track: ToolsTrack, tasks: Sequence[Task]) -> None:
    for task in tasks:
        for stage in range(task.stages):
            probes = probes_at(task, stage)
            assert all(task.facts[check.needs[0]].since == stage < check.stage for check in probes)
            assert not {c.needs for c in probes} & {c.needs for c in checks_at(task, stage)}


def test_a_reply_without_a_value_is_wrong_and_unreadable(track: ToolsTrack, tasks: Sequence[Task]) -> None:
    check = next(iter(tasks[0].checks.values()))
    mark = track.mark(tasks[0], check, "I do not know.")
    assert (mark.score, mark.readable) == (0.0, False)


def test_a_failure_tells_what_had_told_the_value_and_what_it_is(track: ToolsTrack, tasks: Sequence[Task]) -> None:
    task = tools_task(tasks[0])
    check = next(iter(task.checks.values()))
    mark = track.mark(task, check, '{"value": "0000"}')
    told = track.tell(task, Episode(task.id, "", ()), 0, mark)
    assert "Chosen answer: 0000" in told
    assert f"Right answer: {task.right(check)}" in told
    assert task.facts[check.needs[0]].text in told


def test_another_track_s_task_is_refused(track: ToolsTrack, tasks: Sequence[Task]) -> None:
    other = replace(tools_task(tasks[0]), id="other")
    assert tools_task(other) is other
    with pytest.raises(TaskError, match="is no task of the tools track"):
        tools_task(_Other())  # type: ignore[arg-type]


class _Other:
    id = "x"


def test_memory_hears_the_right_observations_in_the_order_of_steps(track: ToolsTrack, tasks: Sequence[Task]) -> None:
    task = tools_task(tasks[0])
    heard = [together for stage in range(task.stages) for together in track.heard(task, stage)]
    assert [message.content for (message,) in heard] == [text for step in task.steps for text in step.heard]
    assert heard[0][0] == Message("user", task.steps[0].heard[0])


def test_a_text_states_a_value_that_stands_beside_what_is_asked(track: ToolsTrack, tasks: Sequence[Task]) -> None:
    task = tools_task(tasks[0])
    check = next(check for check in task.checks.values() if "telephone number" in check.text)
    fact, value = task.facts[check.needs[0]], str(task.right(check))
    assert track.states(task, fact, f"- telephone: {value}")
    assert not track.states(task, fact, f"- {value}")
    assert not track.states(task, fact, "- telephone: 0400-000-0000")


def test_words_alone_show_every_fact_in_what_tells_it(track: ToolsTrack) -> None:
    for task in map(tools_task, track.load("workshop")):
        for fact in task.facts.values():
            assert track.states(task, fact, fact.text)
            assert track.states(task, fact, fact.sources[0])


async def test_arguments_that_are_asked_for_in_other_words_are_no_turns(
    track: ToolsTrack, tasks: Sequence[Task]
) -> None:
    task = tasks[0]
    once = cast(EmbeddedModel(), tokens=500)
    without = await played(track, task, load_policy("rag"), once)
    episode = await played(track, task, load_policy("rag"), replace(once, reworded=True))
    assert sum(len(stage.reworded) for stage in episode.stages) == len(task.checks)
    assert episode.ledger.by_role["answer"] == without.ledger.by_role["answer"]
    assert episode.ledger.by_role["probe"].calls == without.ledger.by_role["probe"].calls + len(task.checks)
    assert turn_cost(episode.ledger, track.turn) == turn_cost(without.ledger, track.turn) is not None

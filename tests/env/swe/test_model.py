"""With an agent that plans by itself, the swe track tells what memory carried by the commands that were run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import docker
import pytest

from mnemotune.data.swe.load import load_swe
from mnemotune.data.swe.task import SweTask, swe_task
from mnemotune.data.task import Task
from mnemotune.env.conformance import ModelTrackConformance
from mnemotune.env.episode import RecordError
from mnemotune.env.evaluation import Evaluator
from mnemotune.env.outside import Outside
from mnemotune.env.runner import Here
from mnemotune.env.swe import desk
from mnemotune.env.swe.engine import Engine, base_image
from mnemotune.env.swe.model import SOLVED, ModelSweTrack, whole
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, Request, ToolCall
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates

pytestmark = pytest.mark.usefixtures("engine")
UNKNOWN = "unknown"


@pytest.fixture(scope="module")
def track() -> ModelSweTrack:
    return ModelSweTrack(Templates.bundled())


@pytest.fixture(scope="module")
def task(track: ModelSweTrack) -> SweTask:
    return swe_task(track.load("generated:1@5")[1])


class Engineer(LanguageModel):
    """Knows the plan, but no value: it takes the right one where that stands in what it sees. Answers probes too."""

    name = "engineer"

    def __init__(self, task: SweTask) -> None:
        self.task = task

    async def complete(self, request: Request) -> Completion:
        text = "\n".join(message.text for message in request.messages)
        if request.form is not None:
            asked = request.messages[-1].content
            check = next(check for check in self.task.checks.values() if check.text in asked)
            return Completion(json.dumps({"value": self._value(self.task.right(check), text)}), Usage(1, 1))
        made = [call.id for message in request.messages for call in message.tool_calls]
        number = int(made[-1]) + 1 if made else 0
        if number == len(self.task.steps):
            return Completion("It is repaired.", Usage(1, 1))
        step = self.task.steps[number]
        command = step.filled({slot.check: self._value(step.right[slot.name], text) for slot in step.slots})
        return ran(command, number)

    def _value(self, right: str, text: str) -> str:
        return right if right in text else UNKNOWN


def ran(command: str, number: int) -> Completion:
    return Completion("", Usage(1, 1), (ToolCall(str(number), "run", json.dumps({"command": command})),))


def cast(model: LanguageModel, outside: Outside, tokens: int | None = None) -> Cast:
    return Cast(model, model, LexicalEmbedder(), context_tokens=tokens, outside=outside)


async def test_who_plans_well_and_sees_everything_is_rewarded(
    track: ModelSweTrack, task: SweTask, outside: Outside
) -> None:
    rollout = track.begin(task, load_policy("window"), cast(Engineer(task), outside))
    episode = await rollout.run()
    await rollout.aclose()
    (stage,) = episode.stages
    assert episode.reward == 1
    assert [mark.check for mark in stage.marks] == list(task.checks)
    assert all(mark.score == 1 and all(mark.recalled.values()) for mark in stage.marks)
    assert episode.ledger.total.calls <= track.most_calls(task, load_policy("window"))
    assert {event.kind for event in stage.events} >= {"say", "observe", "act"}


async def test_who_sees_little_repairs_nothing_and_the_window_scores_the_floor(
    track: ModelSweTrack, task: SweTask, outside: Outside
) -> None:
    evaluation = await Evaluator(track, cast(Engineer(task), outside, 60)).evaluate(load_policy("window"), [task])
    assert evaluation.extras == {"agent": "model", "reward": 0.0, "rewards": {task.id: 0.0}}
    assert evaluation.mean("accuracy") == evaluation.mean("floor") < 0.5 < 0.95 < evaluation.mean("ceiling")
    (episode,) = evaluation.episodes
    failed = [mark for mark in episode.stages[0].marks if mark.score == 0]
    assert all("has run no command with it" in track.tell(task, episode, 0, mark) for mark in failed)


async def test_an_episode_takes_no_more_commands_and_calls_than_it_says(
    track: ModelSweTrack, task: SweTask, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemotune.env.swe.model.most_commands", lambda _: 5)

    class Restless(Engineer):
        async def complete(self, request: Request) -> Completion:
            if request.form is None and request.tools:
                return ran(f"echo {len(request.messages)}", 0)
            return await super().complete(request)

    model = Restless(task)
    _, ledger = await Here(track, cast(model, outside)).bounds(task)
    assert 0 < ledger.total.calls <= track.bound_calls(task)
    rollout = track.begin(task, load_policy("window"), cast(model, outside))
    episode = await rollout.run()
    await rollout.aclose()
    assert (episode.failure, episode.reward) == (None, 0)
    assert episode.ledger.total.calls <= track.most_calls(task, load_policy("window"))


async def test_odd_calls_are_answered_and_not_a_crash(track: ModelSweTrack, task: SweTask, outside: Outside) -> None:
    odd = ["{}", "[]", "{" * 9, '{"command": 3}', '{"command": " "}', '{"command": "echo \\ud83d \\u0000"}']

    class Odd(Engineer):
        async def complete(self, request: Request) -> Completion:
            if request.form is None and len(request.messages) < 4:
                calls = [("run", text) for text in odd] + [("rum", '{"command": "ls"}')]
                return Completion("", Usage(1, 1), tuple(ToolCall(str(n), *call) for n, call in enumerate(calls)))
            return Completion("I give up.", Usage(1, 1)) if request.form is None else await super().complete(request)

    rollout = track.begin(task, load_policy("native"), cast(Odd(task), outside))
    episode = await rollout.run()
    await rollout.aclose()
    assert (episode.failure, episode.reward) == (None, 0)
    seen = [m.content for event in episode.stages[0].events if event.kind == "observe" for m in event.seen]
    assert seen.count("Error: there is run(command) alone") == 4
    assert "Error: the arguments are no JSON object" in seen


async def test_recorded_episodes_are_not_replayed(track: ModelSweTrack, task: SweTask, outside: Outside) -> None:
    rollout = track.begin(task, load_policy("window"), cast(Engineer(task), outside))
    episode = await rollout.run()
    await rollout.aclose()
    with pytest.raises(RecordError, match="play it anew"):
        track.begin(task, load_policy("window"), cast(Engineer(task), outside), replay=episode)


async def test_a_task_without_a_plan_is_scored_by_its_tests_in_its_own_image(
    track: ModelSweTrack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A published image stands in: the base, with a repository in it."""
    monkeypatch.setattr(desk, "TESTBED", "/tmp")  # noqa: S108 - in a container
    engine, client = await Engine.start(), docker.from_env()
    await engine.open(base_image(), {}, desk.Limits())
    client.images.get(base_image().name).tag("mnemotune-test", "row")
    planned = swe_task(load_swe("generated:1@5")[0])
    bare = replace(planned, image="mnemotune-test:row", files={}, steps=(), checks={}, facts={}, test_command="test -f")
    task = whole(replace(bare, fail_to_pass=("repaired",), pass_to_pass=()))
    assert list(task.checks) == [SOLVED]

    class Writer(LanguageModel):
        name = "writer"

        def __init__(self, command: str) -> None:
            self.command = command

        async def complete(self, request: Request) -> Completion:
            done = any(message.tool_calls for message in request.messages)
            return Completion("Done.", Usage(1, 1)) if done else ran(self.command, 0)

    class Counting(Outside):
        """Knows what was done in containers."""

        def __init__(self) -> None:
            super().__init__()
            self.keys = set[str]()

        async def once(self, key: str, attempt: Callable[[], Awaitable[str]]) -> str:
            self.keys.add(key)
            return await super().once(key, attempt)

    for command, score in (("touch repaired", 1.0), ("touch broken", 0.0)):
        outside = Counting()
        evaluation = await Evaluator(track, cast(Writer(command), outside, 500)).evaluate(load_policy("rag"), [task])
        await outside.aclose()
        assert len(outside.keys) == 2  # the command, and the tests once
        (episode,) = evaluation.episodes
        assert episode.failure is None
        assert [mark.score for mark in episode.stages[0].marks] == [score] == [episode.reward]
        bounds = evaluation.bounds[task.id]
        assert (bounds.floor[SOLVED].score, bounds.ceiling[SOLVED].score) == (score, 1)
        assert evaluation.ledger.total.calls <= track.most_calls(task, load_policy("rag")) + track.bound_calls(task)
    assert "These tests do not all pass: repaired" in track.tell(task, episode, 0, episode.stages[0].marks[0])
    client.images.remove("mnemotune-test:row")
    client.close()
    await engine.aclose()


class TestModelSweTrack(ModelTrackConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> ModelSweTrack:
        return ModelSweTrack(Templates.bundled())

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls) -> str:
        return "generated:1@5"

    @pytest.fixture(scope="class")
    @classmethod
    def tasks(cls, track: ModelSweTrack, source: str) -> Sequence[Task]:
        return track.load(source)[:2]

    @pytest.fixture
    def cast(self, outside: Outside) -> Cast:
        return Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder(), outside=outside)

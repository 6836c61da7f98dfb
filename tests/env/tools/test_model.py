"""With an agent that plans by itself, the tools track tells what memory carried by what the agent does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data.task import Task, TaskError
from mnemotune.data.tools.row import Criteria
from mnemotune.data.tools.task import Step, ToolsTask, spoken, tools_task
from mnemotune.env.conformance import ModelTrackConformance
from mnemotune.env.episode import Episode, RecordError, write_episodes
from mnemotune.env.evaluation import Evaluator
from mnemotune.env.runner import Here
from mnemotune.env.summary import Summary
from mnemotune.env.tools.model import ModelToolsTrack
from mnemotune.env.tools.talk import Talk
from mnemotune.env.tools.track import ToolsTrack
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, Refused, Request, ToolCall
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates

UNKNOWN = "unknown"


@pytest.fixture(scope="module")
def track() -> ModelToolsTrack:
    return ModelToolsTrack(Templates.bundled())


@pytest.fixture(scope="module")
def tasks(track: ModelToolsTrack) -> Sequence[Task]:
    return track.load("generated:2@5")


class Clerk(LanguageModel):
    """Knows what is to be done, but no value: it takes the right one where that stands in what it sees.

    Plays the customer too, who has nothing to add, and answers probes.
    """

    name = "clerk"

    def __init__(self, task: ToolsTask) -> None:
        self.task = task
        self.shown: list[str] = []

    async def complete(self, request: Request) -> Completion:
        text = "\n".join(message.text for message in request.messages)
        self.shown.append(text)
        if request.role == "user":
            return Completion("DONE", Usage(1, 1))
        if request.form is not None:
            asked = request.messages[-1].content
            checks = [check for check in self.task.checks.values() if check.text in asked]
            values = [self._value(self.task.right(check), text) for check in reversed(checks)]
            return Completion(json.dumps({"value": min(values, key=UNKNOWN.__eq__)}), Usage(1, 1))
        return self._next(request, text)

    def _next(self, request: Request, text: str) -> Completion:
        line = next(message.content for message in reversed(request.messages) if message.role == "user")
        place = next(p for p, s in enumerate(self.task.steps) if s.kind == "say" and s.text in line)
        steps = []
        for step in self.task.steps[place + 1 :]:
            if step.kind == "say" or step.requestor == "user" or step.stage != self.task.steps[place].stage:
                break
            steps.append(step)
        calls = [step for step in steps if step.kind == "call"]
        done = [call.name for message in request.messages for call in message.tool_calls]
        after = next((number + 1 for number, step in enumerate(calls) if [step.tool] == done[-1:]), 0)
        if after < len(calls):
            filled = calls[after].filled(self._answers(calls[after], text))
            return Completion("", Usage(1, 1), (ToolCall("call-1", calls[after].tool, json.dumps(filled)),))
        said = [spoken(step.text, step.filled(self._answers(step, text))) for step in steps if step.kind == "reply"]
        return Completion(" ".join(said) or "Done.", Usage(1, 1))

    def _answers(self, step: Step, text: str) -> dict[str, str]:
        rights = {slot.check: self.task.right(self.task.checks[slot.check]) for slot in step.slots}
        return {check: self._value(right, text) for check, right in rights.items()}

    @staticmethod
    def _value(right: Any, text: str) -> str:
        return str(right) if str(right) in text else UNKNOWN


def cast(model: LanguageModel, tokens: int | None = None) -> Cast:
    return Cast(model, model, LexicalEmbedder(), context_tokens=tokens)


async def played(track: ModelToolsTrack, task: Task, policy: str, cast: Cast) -> Episode:
    return await track.begin(task, load_policy(policy), cast).run()


@pytest.mark.parametrize("number", range(4))
async def test_who_plans_well_and_sees_everything_is_rewarded_in_full(
    track: ModelToolsTrack, tasks: Sequence[Task], number: int
) -> None:
    task = tools_task(tasks[number])
    episode = await played(track, task, "window", cast(Clerk(task)))
    assert episode.reward == 1
    assert [mark.check for stage in episode.stages for mark in stage.marks] == list(task.checks)
    assert all(mark.score == 1 and all(mark.recalled.values()) for stage in episode.stages for mark in stage.marks)


async def test_who_sees_little_does_the_wrong_thing_and_is_not_rewarded(
    track: ModelToolsTrack, tasks: Sequence[Task]
) -> None:
    task = tools_task(tasks[0])
    evaluation = await Evaluator(track, cast(Clerk(task), 60)).evaluate(load_policy("window"), [task])
    assert evaluation.extras["rewards"] == {task.id: 0.0}
    assert evaluation.extras["agent"] == "model"
    assert evaluation.mean("floor") < 0.5 < 0.95 < evaluation.mean("ceiling")


async def test_the_window_scores_the_floor_which_has_the_same_room_to_think(
    track: ModelToolsTrack, tasks: Sequence[Task]
) -> None:
    task, room = tools_task(tasks[1]), dict[str, set[int]]()

    class Measured(Clerk):
        async def complete(self, request: Request) -> Completion:
            if request.tools:
                room.setdefault(request.role, set()).add(request.max_tokens)
            return await super().complete(request)

    evaluation = await Evaluator(track, cast(Measured(task), 300)).evaluate(load_policy("window"), [task])
    assert room["upper_bound"] == room["reply"]
    assert evaluation.mean("accuracy") == evaluation.mean("floor")
    assert Summary.of(evaluation, name="window").per_turn is not None


async def test_neither_the_agent_nor_its_memory_meets_the_customer_s_hidden_script(
    track: ModelToolsTrack, tasks: Sequence[Task]
) -> None:
    class Watched(Clerk):
        async def complete(self, request: Request) -> Completion:
            if request.role != "user":
                text = "\n".join(message.text for message in request.messages)
                assert not any(line in text for line in self.task.script)
            return await super().complete(request)

    for task in tasks[:2]:
        await Evaluator(track, cast(Watched(tools_task(task)), 500)).evaluate(load_policy("rag"), [task])


async def test_the_customer_answers_what_the_agent_asks_and_ends_with_done(
    track: ModelToolsTrack, tasks: Sequence[Task]
) -> None:
    task = tools_task(tasks[0])
    asked = "Which telephone number do you have?"

    class Asking(Clerk):
        async def complete(self, request: Request) -> Completion:
            if request.role == "user":
                talk = request.messages[0].content
                assert all(line in talk for line in task.script)
                return Completion("It is in my first message." if talk.count(asked) == 1 else "DONE", Usage(1, 1))
            if request.form is None and request.tools:
                return Completion(asked, Usage(1, 1))
            return await super().complete(request)

    episode = await played(track, task, "native", cast(Asking(task)))
    said = [m.content for stage in episode.stages for e in stage.events if e.kind == "say" for m in e.seen]
    assert "It is in my first message." in said
    assert said.count("DONE") == 0
    assert episode.reward == 0


async def test_an_episode_takes_no_more_calls_than_it_says(track: ModelToolsTrack, tasks: Sequence[Task]) -> None:
    class Restless(Clerk):
        """Calls one tool after another, and its customer never ends."""

        async def complete(self, request: Request) -> Completion:
            if request.role == "user":
                return Completion("And now? " * 400, Usage(1, 1))
            if request.form is None and request.role in {"reply", "upper_bound"} and len(request.messages) % 2:
                calls = tuple(ToolCall(f"c{n}", "list_slots", '{"week": 15}') for n in range(3))
                return Completion("", Usage(1, 1), calls)
            if request.role == "write":
                return Completion("[]", Usage(1, 1))
            return Completion("Tell me more. " * 400, Usage(1, 1))

    for task in tasks[:2]:
        policy = load_policy("awe")
        _, ledger = await Here(track, cast(Restless(tools_task(task)))).bounds(task)
        assert 0 < ledger.total.calls <= track.bound_calls(task)
        assert ledger.by_role["user"].calls
        episode = await track.begin(task, policy, cast(Restless(tools_task(task)))).run()
        assert episode.failure is None
        assert episode.ledger.total.calls <= track.most_calls(task, policy)


async def test_arguments_of_any_kind_are_answered_and_not_a_crash(
    track: ModelToolsTrack, tasks: Sequence[Task], tmp_path: Path
) -> None:
    task = tools_task(tasks[0])
    tools = ["find_customer", "get_customer", "list_slots", "redirect_order", "no_such_tool"]
    odd = [
        '{"street": "\\ud83d", "order_id": "\\ud800", "customer_id": "\\ud800"}',
        "{}",
        "[]",
        '{"phone": {"a": []}}',
        '{"week": "15"}',
        '{"customer_id": null}',
        '{"week": 1e400}',
        "{" * 9,
    ]

    class Odd(Clerk):
        async def complete(self, request: Request) -> Completion:
            if request.form is None and request.role == "reply" and len(request.messages) < 12:
                made = [(name, text) for name in tools for text in odd]
                return Completion("", Usage(1, 1), tuple(ToolCall(f"c{n}", *each) for n, each in enumerate(made)))
            return await super().complete(request)

    episode = await played(track, task, "native", cast(Odd(task)))
    assert episode.failure is None
    write_episodes(tmp_path, [episode])


async def test_a_request_that_is_refused_counts_against_the_policy_and_the_customer_s_does_not(
    track: ModelToolsTrack, tasks: Sequence[Task]
) -> None:
    task = tools_task(tasks[0])

    class Refusing(Clerk):
        def __init__(self, role: str) -> None:
            super().__init__(task)
            self.role = role

        async def complete(self, request: Request) -> Completion:
            if request.role == self.role:
                raise Refused("too long")
            return await super().complete(request)

    assert (await played(track, task, "native", cast(Refusing("reply")))).refused
    lost = await played(track, task, "native", cast(Refusing("user")))
    assert (lost.failure, lost.refused) == ("too long", False)


async def test_a_recorded_talk_is_no_record_of_the_plan(track: ModelToolsTrack, tasks: Sequence[Task]) -> None:
    episode = await played(track, tasks[0], "native", cast(Clerk(tools_task(tasks[0]))))
    with pytest.raises(RecordError, match="another customer is recorded"):
        ToolsTrack(Templates.bundled()).begin(tasks[0], load_policy("native"), cast(EmbeddedModel()), replay=episode)


async def test_recorded_talks_are_not_replayed(track: ModelToolsTrack, tasks: Sequence[Task]) -> None:
    episode = await played(track, tasks[0], "native", cast(Clerk(tools_task(tasks[0]))))
    with pytest.raises(RecordError, match="play it anew"):
        track.begin(tasks[0], load_policy("native"), cast(Clerk(tools_task(tasks[0]))), replay=episode)


def test_several_dialogues_of_a_customer_are_left_to_the_planned_agent(track: ModelToolsTrack) -> None:
    with pytest.raises(TaskError, match="have a planned agent; take tau2:PATH"):
        track.load("tau2-across:somewhere")


class TestModelToolsTrack(ModelTrackConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> ModelToolsTrack:
        return ModelToolsTrack(Templates.bundled())

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls) -> str:
        return "generated:2@5"


@pytest.mark.parametrize(
    ("value", "reply", "told"),
    [
        ("1786.02", "Your refund is $1,786.02.", True),
        ("wifi calling", "Please turn on Wifi Calling.", True),
        ("100", "The fee is $1100.", False),
        ("100", "The fee is $100.50.", False),
        ("100", "The fee is 100.", True),
        ("45.5", "Your refund is $45.50.", True),
        ("150", "That makes $150.00.", True),
        ("5", "You have 5GB left.", True),
        ("0042", "Your code is 42.", False),
        ("0042", "Your code is 0042.", True),
        ("35", "Your order W0035 has shipped.", False),
        ("35", "Your order SKU-35 has shipped.", False),
        ("123", "Call 0123.", False),
        ("7", "It is in room A7.", False),
        ("16", "It comes on 2026-05-16.", False),
        ("2026", "It comes on 2026-05-16.", False),
        ("5", "It comes on 5/16, at 12:05.", False),
        ("12", "It comes on 5/16, at 12:05.", False),
        ("50", "That makes $3.50.", False),
        ("35", "You save 35%: $35.", True),
        ("35", "A 35-inch screen, or a 36 inch one?", True),
        ("36", "A 35-inch screen, or a 36 inch one?", True),
        ("12345", "(That makes 12,345)", True),
        ("35", "Total:35, is it?", True),
        ("2", "Items: 1, 2, 3.", True),
    ],
)
def test_a_reply_tells_a_value_where_the_reward_would_hear_it(
    tasks: Sequence[Task], value: str, reply: str, told: bool
) -> None:
    task = tools_task(tasks[0])
    check = next(check for check in task.checks.values() if task.place_of(check)[0].kind == "reply")
    step, slot = task.place_of(check)
    steps = tuple(
        replace(each, arguments={**each.arguments, slot.path[0]: value}) if each is step else each
        for each in task.steps
    )
    talk = Talk(replace(task, steps=steps), Templates.bundled(), EmbeddedModel())
    talk._played.replies.append(reply)
    assert talk.mark(check).score == float(told)


async def test_what_was_not_judged_and_what_an_idle_agent_earns_is_said(
    track: ModelToolsTrack, tasks: Sequence[Task]
) -> None:
    task = tools_task(tasks[0])
    criteria = Criteria(nl_assertions=("The agent is polite.",), reward_basis=("NL_ASSERTION",))
    polite = replace(task, row=task.row.model_copy(update={"evaluation_criteria": criteria}))
    episode = Episode(task.id, "", (), reward=1.0)
    extras = track.extras([polite], [episode], {})
    assert extras["not_judged"] == extras["rewarded_idle"] == [task.id]
    extras = track.extras([task], [episode], {})
    assert extras["not_judged"] == extras["rewarded_idle"] == []

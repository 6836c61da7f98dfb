"""An agent that acts by itself: 1. its verifier alone says what the episode is worth; 2. it begins where a recorded
episode stood, and memory has observed what was there."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from browsing import AttentiveModel, needs_browser
from mnemotune.data.task import Task
from mnemotune.data.web.task import WebTask, web_task
from mnemotune.env.episode import Episode, RecordError, write_episodes
from mnemotune.env.evaluation import Evaluator
from mnemotune.env.track import Cast
from mnemotune.env.tracks import TRACKS
from mnemotune.env.web.action import Action
from mnemotune.env.web.model import SOLVED, TOOLS, ModelWebTrack
from mnemotune.env.web.prefix import Prefix
from mnemotune.env.web.track import WebTrack
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, Request, ToolCall
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates

SOURCE = "generated:1@5"


def planned(task: WebTask) -> list[Action]:
    """Return what a plan does with the right answers."""
    steps = ((step, {slot.check: step.right[slot.name] for slot in step.slots}) for step in task.steps)
    return [Action(step.action, *step.filled(right)[1:]) for step, right in steps]


class Acting(LanguageModel):
    """Calls the tools that a test has written down, one after another."""

    name = "acting"

    def __init__(self, actions: Sequence[Action | str]) -> None:
        self.actions = list(actions)
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        action = self.actions.pop(0)
        if isinstance(action, str):
            return Completion(action, Usage(1, 1))
        arguments = json.dumps({"target": action.target, "value": action.value})
        return Completion("", Usage(1, 1), (ToolCall(f"call-{len(self.actions)}", action.name, arguments),))


async def played(track: Any, task: Task, model: LanguageModel, policy: str = "window", tokens: int = 500) -> Episode:
    playing = Cast(model, model, LexicalEmbedder(), context_tokens=tokens)
    rollout = track.begin(task, load_policy(policy), playing)
    try:
        episode: Episode = await rollout.run()
        return episode
    finally:
        await rollout.aclose()
        await playing.aclose()


@pytest.fixture(scope="module")
def track() -> ModelWebTrack:
    return ModelWebTrack(Templates.bundled())


@pytest.fixture(scope="module")
def plan() -> WebTask:
    return web_task(WebTrack(Templates.bundled()).load(SOURCE)[0])


@pytest.fixture(scope="module")
def task(track: ModelWebTrack) -> Task:
    return track.load(SOURCE)[0]


def test_a_task_has_one_check_and_no_plan(track: ModelWebTrack, task: Task) -> None:
    assert (task.stages, dict(task.checks), dict(task.facts)) == (1, {"solved": SOLVED}, {})
    assert web_task(task).steps == ()
    assert {tool.name for tool in TOOLS} == {"click", "type", "select", "goto", "back", "key", "scroll", "done", "fail"}


@needs_browser
async def test_an_agent_that_does_what_is_wanted_is_rewarded_once_it_says_so(
    track: ModelWebTrack, task: Task, plan: WebTask
) -> None:
    model = Acting(planned(plan))
    episode = await played(track, task, model)
    assert (episode.failure, episode.reward) == (None, 1.0)
    assert [(mark.check, mark.score) for stage in episode.stages for mark in stage.marks] == [("solved", 1.0)]
    acts = [event.seen[0].content for event in episode.stages[0].events if event.kind == "act"]
    assert acts == ["goto", *(action.line for action in planned(plan))]
    *_, call, page = model.requests[0].messages
    assert call.tool_calls[0].name == "goto"
    assert page.content.startswith("page Desk")
    assert "[1] " in page.content
    assert plan.instruction in model.requests[-1].messages[-3].content
    assert episode.ledger.total.calls <= track.most_calls(task, load_policy("window"))


@needs_browser
@pytest.mark.parametrize(
    ("actions", "why"),
    [
        ([Action("done")], "not as it was wanted"),
        ([Action("fail", "", "no idea")], "given up"),
        (["I am finished."], "the agent never said that the task is done"),
    ],
)
async def test_an_agent_that_does_something_else_is_not_rewarded_and_it_is_said_why(
    track: ModelWebTrack, task: Task, actions: list[Action | str], why: str
) -> None:
    episode = await played(track, task, Acting(actions))
    (mark,) = episode.stages[0].marks
    assert (episode.reward, mark.score) == (0.0, 0.0)
    assert mark.raw.startswith(why)
    assert why in track.tell(task, episode, 0, mark)


@needs_browser
async def test_an_agent_may_make_only_so_many_calls_and_no_others_than_there_are(
    track: ModelWebTrack, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mnemotune.env.web.model.MOST_ACTIONS", 3)
    wrong = Completion("", Usage(1, 1), (ToolCall("x", "fly", "{}"),))
    model = Acting([Action("scroll", "", "down")] * 9)

    async def fly_first(request: Request) -> Completion:
        model.requests.append(request)
        return wrong if len(model.requests) == 1 else await Acting.complete(model, request)

    monkeypatch.setattr(model, "complete", fly_first)
    episode = await played(track, task, model)
    assert episode.reward == 0
    assert sum(event.kind == "act" for event in episode.stages[0].events) == 1 + 2
    assert "Error: there is no action 'fly'" in model.requests[1].messages[-1].content


@needs_browser
async def test_the_floor_is_the_same_agent_with_a_window_and_the_ceiling_is_known(
    track: ModelWebTrack, task: Task, plan: WebTask
) -> None:
    model = Acting([*planned(plan), Action("fail")])
    playing = Cast(model, model, LexicalEmbedder(), context_tokens=500)
    evaluation = await Evaluator(track, playing).evaluate(load_policy("awe"), [task], stages=0)
    await playing.aclose()
    bounds = evaluation.bounds[task.id]
    assert (bounds.floor["solved"].score, bounds.ceiling["solved"].score) == (1.0, 1.0)
    assert evaluation.ledger.total.calls <= track.bound_calls(task)
    assert {request.role for request in model.requests} == {"upper_bound"}


@needs_browser
@pytest.mark.exhaustive("share")
@pytest.mark.parametrize("share", [7, 0.5])
async def test_an_agent_goes_on_from_where_a_recorded_episode_stood(
    plan: WebTask, task: Task, tmp_path: Path, share: float
) -> None:
    lived = await played(WebTrack(Templates.bundled()), plan, AttentiveModel(plan), tokens=1_000_000)
    write_episodes(tmp_path, [lived])
    every = planned(plan)
    count = 7 if share == 7 else round((len(every) - 1) / 2)
    track = ModelWebTrack(Templates.bundled(), prefix=Prefix(share, tmp_path))
    model = Acting(every[count:])
    episode = await played(track, task, model)
    assert episode.reward == 1
    events = [event for stage in lived.stages for event in stage.events]
    acts = [number for number, event in enumerate(events) if event.kind == "act"]
    assert [event.seen for event in episode.stages[0].events][: acts[count]] == [e.seen for e in events[: acts[count]]]
    assert model.requests[0].messages[-2].tool_calls[0].name == every[count - 1].name
    assert track.most_calls(task, load_policy("window")) >= episode.ledger.total.calls


@needs_browser
@pytest.mark.parametrize("end", [Action("done"), Action("fail", "", "no idea"), "That is all."])
async def test_a_prefix_has_whole_actions_and_not_what_has_ended_the_episode(
    track: ModelWebTrack, task: Task, tmp_path: Path, end: Action | str
) -> None:
    actions = [Action("goto", "", "#/sheet"), Action("type", 'textbox "Number"', f'"{"long " * 400}"')]
    write_episodes(tmp_path, [await played(track, task, Acting([*actions, end]))])
    assert Prefix(9, tmp_path).actions(task) == [Action("goto"), *actions]


def test_a_prefix_is_a_number_or_a_share_of_what_was_recorded_of_the_task(tmp_path: Path, task: Task) -> None:
    make = TRACKS.get("web")
    write_episodes(tmp_path, [])
    prefixed = make(Templates.bundled(), {"agent": "model", "prefix": 0.5, "from": str(tmp_path)})
    with pytest.raises(RecordError, match=f"has no episode of {task.id} that ended well"):
        prefixed.most_calls(task, load_policy("window"))
    for options, problem in (
        ({"prefix": 0, "from": str(tmp_path)}, "prefix is 0"),
        ({"prefix": 1.5, "from": str(tmp_path)}, "prefix is 1.5"),
        ({"prefix": math.nan, "from": str(tmp_path)}, "prefix is nan"),
        ({"prefix": True, "from": str(tmp_path)}, "prefix is True"),
        ({"from": str(tmp_path)}, "prefix is None"),
        ({"prefix": 3}, "from is None"),
        ({"prefix": 3, "from": "nowhere"}, "from is 'nowhere'"),
        ({"prefix": 3, "from": str(tmp_path), "agent": "planned"}, "prefix goes with web:model"),
        ({"postfix": 3}, "the web track has no option postfix"),
    ):
        with pytest.raises(ValueError, match=problem):
            make(Templates.bundled(), {"agent": "model", **options})

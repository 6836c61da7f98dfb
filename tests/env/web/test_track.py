"""The web track: 1. who reads well is rewarded, and who has lost a value does something else; 2. what was seen is not
done again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from browsing import AttentiveModel, StubbornModel, needs_browser
from mnemotune.data.task import Task, TaskError
from mnemotune.data.web.task import web_task
from mnemotune.env.conformance import TrackConformance
from mnemotune.env.episode import Episode, RecordError
from mnemotune.env.evaluation import Evaluator
from mnemotune.env.outside import Outside, OutsideSilent
from mnemotune.env.track import Cast
from mnemotune.env.web import browser
from mnemotune.env.web.desk import WebDesk
from mnemotune.env.web.track import WebTrack
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import LanguageModel
from mnemotune.policies.lm.cache import ResponseCache
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates

SOURCE = "generated:2@5"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is seen once in this module is not tried again."""
    return tmp_path_factory.mktemp("record") / "seen.db"


@pytest.fixture(scope="module")
def track() -> WebTrack:
    return WebTrack(Templates.bundled())


@pytest.fixture(scope="module")
def tasks(track: WebTrack) -> Sequence[Task]:
    return track.load(SOURCE)


def cast(model: LanguageModel, record: Path | None = None, tokens: int | None = None) -> Cast:
    outside = Outside(None if record is None else partial(ResponseCache, record))
    return Cast(model, model, LexicalEmbedder(), context_tokens=tokens, outside=outside)


async def played(
    track: WebTrack, task: Task, cast: Cast, policy: str = "native", replay: Episode | None = None
) -> Episode:
    rollout = track.begin(task, load_policy(policy), cast, replay=replay)
    try:
        return await rollout.run()
    finally:
        await rollout.aclose()
        await cast.aclose()


@needs_browser
@pytest.mark.exhaustive("policy")
class TestWebTrack(TrackConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> WebTrack:
        return WebTrack(Templates.bundled())

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls) -> str:
        return SOURCE

    @pytest.fixture(scope="class")
    @classmethod
    def tasks(cls, track: WebTrack, source: str) -> Sequence[Task]:
        return track.load(source)

    @pytest.fixture
    async def cast(self, record: Path) -> AsyncIterator[Cast]:
        made = cast(EmbeddedModel(), record)
        yield made
        await made.aclose()


@needs_browser
async def test_whoever_sees_everything_and_reads_well_is_rewarded(
    track: WebTrack, tasks: Sequence[Task], record: Path
) -> None:
    for task in tasks[::2]:  # one of each app
        playing = cast(AttentiveModel(web_task(task)), record)
        evaluation = await Evaluator(track, playing).evaluate(load_policy("window"), [task])
        await playing.aclose()
        assert evaluation.extras["rewards"] == {task.id: 1.0}
        assert evaluation.mean("ceiling") == 1
        assert evaluation.mean("accuracy") == 1


@needs_browser
async def test_who_has_lost_a_value_does_something_else_and_is_not_rewarded(
    track: WebTrack, tasks: Sequence[Task], record: Path
) -> None:
    episode = await played(track, tasks[0], cast(StubbornModel("AA-00000"), record))
    assert episode.failure is None
    assert episode.reward == 0
    assert all(mark.score == 0 for stage in episode.stages for mark in stage.marks)
    heard = "\n".join(message.content for stage in episode.stages for seen in stage.heard for message in seen)
    assert '"AA-00000"' in heard


@needs_browser
async def test_what_memory_observes_is_the_instruction_then_actions_and_pieces_of_200_tokens(
    track: WebTrack, tasks: Sequence[Task], record: Path
) -> None:
    task = web_task(tasks[0])
    episode = await played(track, task, cast(AttentiveModel(task), record))
    heard = [(event.kind, event.seen[0]) for stage in episode.stages for event in stage.events if event.seen]
    said = [message.content for kind, message in heard if kind == "say"]
    assert "".join(said) == task.instruction
    assert heard[0][0] == "say"
    assert sum(kind == "act" for kind, _ in heard) == len(task.steps)
    assert all(message.tokens <= 200 for _, message in heard)
    assert all(len(list(seen)) == 1 for stage in episode.stages for seen in stage.heard)


@needs_browser
async def test_a_step_is_heard_in_no_more_messages_than_are_put_aside(
    track: WebTrack, tasks: Sequence[Task], record: Path
) -> None:
    for task in map(web_task, tasks):
        playing = cast(EmbeddedModel(), record)
        desk = track.desk(task, playing.outside)
        for step in task.steps:
            seen = await desk.do(step, {slot.check: step.right[slot.name] for slot in step.slots})
            assert len(seen) <= track.most_seen(task, step)
        await desk.aclose()
        await playing.aclose()


@needs_browser
async def test_a_run_that_is_resumed_needs_no_browser(
    track: WebTrack, tasks: Sequence[Task], record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await played(track, tasks[1], cast(EmbeddedModel(), record, 500), "rag")
    monkeypatch.setenv(browser.CHROMIUM, "/there/is/none")
    again = await played(track, tasks[1], cast(EmbeddedModel(), record, 500), "rag")
    assert again.as_json() == first.as_json()
    with pytest.raises(OutsideSilent, match=r"MNEMOTUNE_CHROMIUM: there is no file /there/is/none; install chromium"):
        await played(track, tasks[1], cast(EmbeddedModel()))


@needs_browser
async def test_another_browser_than_the_one_that_was_recorded_is_named(
    track: WebTrack, tasks: Sequence[Task], record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await played(track, tasks[0], cast(AttentiveModel(web_task(tasks[0])), record))

    async def version(self: browser.Chromium) -> str:
        return "7"

    monkeypatch.setattr(browser.Chromium, "version", version)
    with pytest.raises(OutsideSilent, match=r"with version \d+ of the browser, and this is 7: set MNEMOTUNE_"):
        await played(track, tasks[0], cast(StubbornModel("another way"), record))


@needs_browser
async def test_what_was_heard_in_another_episode_can_be_heard_again(
    track: WebTrack, tasks: Sequence[Task], record: Path
) -> None:
    lived = await played(track, tasks[0], cast(AttentiveModel(web_task(tasks[0])), record))
    again = await played(track, tasks[0], cast(EmbeddedModel(), record, 500), "rag", replay=lived)
    assert [list(stage.heard) for stage in again.stages] == [list(stage.heard) for stage in lived.stages]
    with pytest.raises(RecordError, match="another instance is recorded"):
        track.begin(tasks[1], load_policy("rag"), cast(EmbeddedModel()), replay=lived)


@needs_browser
async def test_a_desk_s_fork_goes_on_from_the_same_point_and_leaves_it_as_it_was(
    track: WebTrack, tasks: Sequence[Task], record: Path
) -> None:
    task, elsewhere = web_task(tasks[0]), Outside()
    playing = cast(EmbeddedModel(), record)
    trunk = track.desk(task, playing.outside)

    async def step(desk: WebDesk, number: int) -> Sequence[object]:
        planned = task.steps[number]
        return await desk.do(planned, {slot.check: planned.right[slot.name] for slot in planned.slots})

    for number in range(4):
        await step(trunk, number)
    fork = trunk.fork(elsewhere)
    seen = [await step(fork, number) for number in (4, 5)]
    assert await step(trunk, 4) == seen[0]
    for desk in (trunk, fork):
        await desk.aclose()
    await elsewhere.aclose()
    await playing.aclose()


def test_a_wrong_answer_is_described_by_what_told_the_right_one(track: WebTrack, tasks: Sequence[Task]) -> None:
    task = web_task(tasks[0])
    check = next(iter(task.checks.values()))
    told = track.tell(task, Episode(task.id, "", ()), 0, track.mark(task, check, '{"value": "0"}'))
    assert task.facts[check.needs[0]].text in told
    assert f"Right answer: {task.right(check)}" in told


def test_a_checkout_whose_tasks_have_no_plans_is_for_another_agent(track: WebTrack) -> None:
    with pytest.raises(TaskError, match=r"webarena-infinity:here: has no plans: .*, --track web:model"):
        track.load("webarena-infinity:here")


async def test_the_embedded_model_reads_what_is_asked_for_off_the_row_that_says_it(track: WebTrack) -> None:
    model = EmbeddedModel()
    for task in track.load("generated:2@7"):
        for check in task.checks.values():
            mark = await track.asked(task, check, track.given(task, check), model)
            assert mark.score == 1, (check.text, mark.raw)


def test_words_alone_show_every_fact_in_what_tells_it(track: WebTrack) -> None:
    for task in map(web_task, track.load("desks")):
        for fact in task.facts.values():
            assert track.states(task, fact, fact.text)

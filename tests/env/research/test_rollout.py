from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from mnemotune.data.research.task import ResearchTask
from mnemotune.env.episode import Episode, RecordError, StageRecord
from mnemotune.env.research.track import ResearchTrack
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy

MakeChain = Callable[..., ResearchTask]
Answering = Callable[[Mapping[str, str]], tuple[Cast, Any]]
RIGHT = {
    "Where does Arda": "Belo",
    "Who is the maintainer of Belo?": "Cleo",
    "Who is the maintainer of Belo Nine?": "Emil",
}


async def play(task: ResearchTask, cast: Cast, *, replay: Episode | None = None) -> Episode:
    rollout = ResearchTrack().begin(task, load_policy("native"), cast, replay=replay)
    try:
        return await rollout.run()
    finally:
        await rollout.aclose()


def titles(record: StageRecord) -> list[str]:
    return [message.content.split("\n")[0].removeprefix("# ") for together in record.heard for message in together]


def scores(episode: Episode) -> dict[str, float]:
    return {mark.check: mark.score for record in episode.stages for mark in record.marks}


async def test_right_answers_bring_what_the_plan_has_recorded(make_chain: MakeChain, answering: Answering) -> None:
    cast, model = answering(RIGHT)
    episode = await play(make_chain(), cast)
    assert [titles(record) for record in episode.stages] == [["Arda", "Arda Two"], ["Weather"], ["Belo", "Belu"]]
    assert scores(episode) == {"0.0": 1, "1.0": 1, "2.0": 1, "2.1": 1}
    assert "Who is the maintainer of Belo?" in model.questions


async def test_a_lost_bridge_brings_the_wrong_documents_and_asks_about_the_wrong_thing(
    make_chain: MakeChain, answering: Answering
) -> None:
    cast, model = answering({"Where does Arda": "Belu", "Who is the maintainer of Belu?": "Dora"})
    task = make_chain()
    episode = await play(task, cast)
    assert titles(episode.stages[2])[0] == "Belu"
    assert "Who is the maintainer of Belu?" in model.questions
    assert scores(episode) == {"0.0": 0, "1.0": 0, "2.0": 0, "2.1": 0}
    told = ResearchTrack().tell(task, episode, 2, episode.stages[2].marks[-1])
    assert "It should have been about Belo" in told
    assert "Right answer: Cleo" in told
    heard = sum(message.tokens for record in episode.stages for together in record.heard for message in together)
    extras = {"whole_chains": 0.0, "off_path": 0.25, "tokens_read": heard}
    assert ResearchTrack().extras([task], [episode], {}) == extras


async def test_what_was_read_is_what_memory_heard(make_chain: MakeChain, answering: Answering) -> None:
    task = make_chain()
    right, lost = [await play(task, answering(says)[0]) for says in (RIGHT, {})]
    whole, less = [ResearchTrack().extras([task], [episode], {})["tokens_read"] for episode in (right, lost)]
    assert 0 < less < whole
    assert ResearchTrack().extras([task, task], [right, replace(lost, failure="lost")], {})["tokens_read"] == whole
    assert ResearchTrack().extras([task], [replace(right, stages=right.stages[:1])], {}) == {}


async def test_a_chain_is_whole_where_no_answer_was_wrong(make_chain: MakeChain, answering: Answering) -> None:
    right = await play(make_chain(), answering(RIGHT)[0])
    assert ResearchTrack().extras([make_chain()], [right], {})["whole_chains"] == 1
    task = make_chain(corrected=True)
    late = await play(task, answering({**RIGHT, "Where does Arda": "Belo Nine"})[0])
    assert (scores(late)["0.0"], scores(late)["2.1"]) == (0, 1)
    assert ResearchTrack().extras([task], [late], {})["whole_chains"] == 0


async def test_without_an_answer_nothing_is_searched_for(make_chain: MakeChain, answering: Answering) -> None:
    cast, model = answering({})
    episode = await play(make_chain(), cast)
    assert [titles(record) for record in episode.stages] == [["Arda", "Arda Two"], ["Weather"], []]
    assert model.questions[-1] == "Who is the maintainer of it?"
    assert not any(mark.readable for record in episode.stages for mark in record.marks)


async def test_a_search_for_what_no_document_speaks_of_brings_nothing_of_it(
    make_chain: MakeChain, answering: Answering
) -> None:
    cast, _ = answering({"Where does Arda": "Zzyx"})
    episode = await play(make_chain(), cast)
    assert all("maintainer" in text for together in episode.stages[2].heard for text in [together[0].content])


async def test_the_answer_that_counts_is_the_last_before_the_search(
    make_chain: MakeChain, answering: Answering
) -> None:
    task = make_chain(corrected=True)
    stale, _ = answering(RIGHT)
    episode = await play(task, stale)
    assert scores(episode) == {"0.0": 1, "1.0": 0, "2.0": 0, "2.1": 0}
    fresh, _ = answering({**RIGHT, "Where does Arda": "Belo Nine"})
    episode = await play(task, fresh)
    assert titles(episode.stages[1]) == ["Correction", "Weather"]
    assert titles(episode.stages[2]) == ["Belo Nine", "Belu"]
    assert scores(episode) == {"0.0": 0, "1.0": 1, "2.0": 1, "2.1": 1}


async def test_off_policy_the_documents_are_the_recorded_ones_whatever_is_answered(
    make_chain: MakeChain, answering: Answering
) -> None:
    task = make_chain()
    recorded = await play(task, answering({"Where does Arda": "Belu"})[0])
    again = await play(task, answering(RIGHT)[0], replay=recorded)
    assert [titles(record) for record in again.stages] == [titles(record) for record in recorded.stages]
    assert scores(again)["2.1"] == 1


async def test_a_recorded_episode_of_another_task_is_refused(make_chain: MakeChain, answering: Answering) -> None:
    task = make_chain()
    recorded = await play(task, answering(RIGHT)[0])
    with pytest.raises(RecordError, match="dossier g, task t: another text"):
        await play(task, answering(RIGHT)[0], replay=Episode("other", "key", recorded.stages))
    with pytest.raises(RecordError, match="dossier g, task t: another text"):
        await play(task, answering(RIGHT)[0], replay=Episode("t", "key", tuple(recorded.stages)[:2]))


async def test_the_sealed_tests_wording_is_about_the_given_answer_too(
    make_chain: MakeChain, answering: Answering
) -> None:
    cast, model = answering({"Where does Arda": "Belu"})
    await play(make_chain(), Cast(cast.assistant, cast.user, cast.embedder, reworded=True))
    assert "I need one value to go on. By whom is Belu maintained?" in model.questions

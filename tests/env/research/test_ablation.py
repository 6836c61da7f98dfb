from __future__ import annotations

from mnemotune.env.episode import Episode, Event, StageRecord
from mnemotune.env.evaluation import Evaluator
from mnemotune.env.research.ablation import verdicts
from mnemotune.env.research.track import ResearchTrack
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder

SOURCE = "generated:20@31"


async def test_what_the_embedded_model_accepts_passes_a_second_ablation_with_another_seed() -> None:
    track = ResearchTrack()
    tasks = track.load(SOURCE)
    first, second = [await verdicts(track, tasks, EmbeddedModel(), seed=seed) for seed in (1, 2)]
    accepted = [name for name, verdict in first.items() if verdict.is_accepted]
    assert len(accepted) >= 0.9 * len(tasks)
    assert sum(second[name].is_accepted for name in accepted) >= 0.9 * len(accepted)


async def test_the_usual_budget_leaves_room_between_floor_and_ceiling() -> None:
    track = ResearchTrack()
    cast = Cast(
        EmbeddedModel(), EmbeddedModel(), LexicalEmbedder(dimensions=1024), context_tokens=track.usual.context_tokens
    )
    evaluation = await Evaluator(track, cast).evaluate(load_policy("native"), track.load(SOURCE), stages=0)
    floor = [mark.score for bounds in evaluation.bounds.values() for mark in bounds.floor.values()]
    ceiling = [mark.score for bounds in evaluation.bounds.values() for mark in bounds.ceiling.values()]
    assert sum(floor) / len(floor) <= 0.05
    assert sum(ceiling) / len(ceiling) >= 0.9


async def test_a_policy_that_keeps_a_million_tokens_shows_no_more_than_the_budget() -> None:
    track = ResearchTrack()
    (task,) = track.load("generated:1@5,tokens=1M")
    cast = Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder(dimensions=1024), context_tokens=500)
    assert task.opened.tokens > 900_000
    read = [[Event(0, "observe", together) for together in track.heard(task, s)] for s in range(task.stages)]
    replay = Episode(task.id, "key", [StageRecord(events) for events in read])
    for policy in ("native", "rag"):
        rollout = track.begin(task, load_policy(policy), cast, replay=replay)
        episode = await rollout.run()
        await rollout.aclose()
        assert episode.failure is None
        assert sum(message.tokens for stage in episode.stages for (message,) in stage.heard) > 900_000
        assert 0 < max(use.most_tokens for use in episode.uses.values()) <= 500

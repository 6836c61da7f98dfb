"""The conversations track passes what every track has to hold to, and tells where evidence was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mnemotune.data.conversations.importing import Import, import_benchmark, import_chat
from mnemotune.data.conversations.omissions import Omissions
from mnemotune.data.task import Task, checks_at
from mnemotune.env import Evaluator, Track
from mnemotune.env.conformance import TrackConformance
from mnemotune.env.conversations.track import FIGURES, ConversationsTrack
from mnemotune.env.track import Cast
from mnemotune.policies import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, Request, Usage
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates
from talks import ABSTAINS, LONGMEMEVAL, two_histories, written


class TestConversations(TrackConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, tmp_path_factory: pytest.TempPathFactory) -> str:
        folder = tmp_path_factory.mktemp("talks")
        source, coming = two_histories(folder), Import(folder / "lme.jsonl", Omissions())
        import_benchmark("longmemeval", written(folder / "lme.json", [LONGMEMEVAL, ABSTAINS]), coming)
        source.write_bytes(source.read_bytes() + coming.out.read_bytes())
        return str(source)

    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> Track:
        return ConversationsTrack(Templates.bundled())


class TestJudgedByAModel(TestConversations):
    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> Track:
        return ConversationsTrack(Templates.bundled(), judge="model")

    async def test_bounds_are_known_of_every_check_and_take_the_calls_that_are_put_aside(
        self, track: Track, tasks: Sequence[Task], cast: Cast
    ) -> None:
        evaluation = await Evaluator(track, cast).evaluate(load_policy("native"), tasks[:1], stages=0)
        assert set(evaluation.bounds[tasks[0].id].ceiling) == set(tasks[0].checks)
        judged = evaluation.ledger.by_role["judge"].calls
        assert 0 < judged <= 2 * len(tasks[0].checks)  # what is exactly a right answer needs no judge
        assert evaluation.ledger.total.calls == 2 * len(tasks[0].checks) + judged <= track.bound_calls(tasks[0])


@pytest.fixture
def track() -> ConversationsTrack:
    return ConversationsTrack(Templates.bundled())


@pytest.fixture
def cast() -> Cast:
    return Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder(dimensions=1024), context_tokens=1000)


def test_a_round_is_heard_together_and_people_who_talk_to_each_other_one_by_one(
    track: ConversationsTrack, tmp_path: Path
) -> None:
    assert [len(heard) for heard in track.heard(track.load(str(two_histories(tmp_path)))[0], 2)] == [1, 1]
    coming = Import(tmp_path / "lme.jsonl", Omissions())
    import_benchmark("longmemeval", written(tmp_path / "lme.json", [LONGMEMEVAL]), coming)
    (task,) = track.load(str(coming.out))
    assert [[message.role for message in heard] for heard in track.heard(task, 2)] == [["user", "assistant"]]
    assert "Today is 30 June 2023." in track.query(task, next(iter(task.checks.values())))


@pytest.mark.parametrize(("policy", "shown", "share"), [("rag", True, "utilisation"), ("window", False, "write")])
async def test_what_memory_shows_is_known_and_what_it_never_showed_was_never_written(
    track: ConversationsTrack, cast: Cast, tmp_path: Path, policy: str, shown: bool, share: str
) -> None:
    task = track.load(str(two_histories(tmp_path)))[0]
    cast = cast if shown else replace(cast, context_tokens=1)
    evaluation = await Evaluator(track, cast).evaluate(load_policy(policy), [task])
    marks = [mark for mark in evaluation.episodes[0].stages[-1].marks if task.checks[mark.check].needs]
    assert [set(mark.shown.values()) for mark in marks] == [{shown}] * 3
    last = evaluation.groups[0].stages[-1]
    assert last.evidence == float(shown)
    losses = {kind: getattr(last.diagnosis, kind) for kind in ("write", "read", "utilisation")}
    assert losses[share] == max(losses.values())
    stored = evaluation.episodes[0].stored
    assert stored is not None
    assert stored.unforgotten == 0


async def test_what_was_shown_at_first_and_is_crowded_out_later_is_a_read_failure(
    track: ConversationsTrack, cast: Cast, tmp_path: Path
) -> None:
    task = track.load(str(two_histories(tmp_path)))[0]
    evaluation = await Evaluator(track, replace(cast, context_tokens=24)).evaluate(load_policy("window"), [task])
    first = evaluation.episodes[0].stages[0].recalled
    assert first == {"0/D1:1": True, "1/D1:1": True}
    parrot = next(mark for mark in evaluation.episodes[0].stages[-1].marks if mark.check == "0")
    assert (parrot.recalled, evaluation.groups[0].stages[-1].diagnosis.read > 0) == ({"0/D1:1": False}, True)


async def test_figures_are_told_by_kind_of_question(track: ConversationsTrack, cast: Cast, tmp_path: Path) -> None:
    tasks = track.load(str(two_histories(tmp_path)))
    extras = (await Evaluator(track, cast).evaluate(load_policy("rag"), tasks)).extras
    by_kind = extras["by_kind"]
    assert {kind: figures["questions"] for kind, figures in by_kind.items()} == {
        "all": 8,
        "one turn": 2,
        "several turns": 2,
        "time": 2,
        "abstention": 2,
    }
    assert by_kind["abstention"]["evidence"] == {"mean": None, "interval": [None, None]}
    assert by_kind["time"]["evidence"] == {"mean": 1.0, "interval": [1.0, 1.0]}
    assert by_kind["abstention"]["f1"]["mean"] is None, "nothing that was said answers it"
    for figure in FIGURES:
        mean, (low, high) = by_kind["all"][figure]["mean"], by_kind["all"][figure]["interval"]
        assert 0 <= mean <= 1
        assert low <= mean <= high
        assert sum(extras["by_group"][figure].values()) / len(tasks) == pytest.approx(mean)
    assert by_kind["all"]["exact"]["mean"] <= by_kind["all"]["f1"]["mean"]


class Mumbling(LanguageModel):
    """Replies what nobody can read."""

    name = "mumbling"

    async def complete(self, request: Request) -> Completion:
        return Completion("Hm.", Usage(0, 0))


async def test_a_verdict_that_cannot_be_read_leaves_the_score_of_the_rule(tmp_path: Path) -> None:
    track = ConversationsTrack(Templates.bundled(), judge="model")
    task = track.load(str(two_histories(tmp_path)))[0]
    check = checks_at(task, 2)[0]
    mumbled = await track.judged(task, check, '{"value": "a grey dog"}', Mumbling())
    assert mumbled == track.mark(task, check, '{"value": "a grey dog"}')
    assert mumbled.score == pytest.approx(2 / 4)


def test_a_failure_tells_what_was_said_and_that_memory_did_not_show_it(
    track: ConversationsTrack, cast: Cast, tmp_path: Path
) -> None:
    task = track.load(str(two_histories(tmp_path)))[0]
    evaluation = asyncio.run(Evaluator(track, replace(cast, context_tokens=1)).evaluate(load_policy("window"), [task]))
    episode = evaluation.episodes[0]
    told = [track.tell(task, episode, 2, mark) for mark in episode.stages[2].marks]
    assert 'Ada: I adopted a grey parrot named Figaro. (8 May 2023)" (memory did not show this)' in told[0]
    assert "Right answer: a grey parrot" in told[0]
    assert "Nothing that was said answers it." in told[3]


async def test_a_question_in_other_words_is_looked_for_in_those_words(cast: Cast, tmp_path: Path) -> None:
    texts = ("My canoe stands in room 7.", "My violin stands in room 8.")
    chat = [{"id": f"{n}", "user": "mia", "role": "user", "content": text} for n, text in enumerate(texts)]
    question, other = "Where is my violin?", "In which place is that canoe?"
    asked = {"question": question, "reworded": other, "answer": "x", "evidence": "1"}
    coming = Import(tmp_path / "own.jsonl", Omissions())
    import_chat(written(tmp_path / "chat.jsonl", chat), written(tmp_path / "q.jsonl", [asked]), coming)
    track = ConversationsTrack(Templates.bundled())
    policy = load_policy("rag").model_copy(update={"buffer_size": 0, "update_every": 1, "top_k": 1})
    rollout = track.begin(track.load(str(coming.out))[0], policy, replace(cast, reworded=True))
    (record,) = (await rollout.run()).stages
    await rollout.aclose()
    contexts = [mark.context for mark in (*record.marks, *record.reworded)]
    assert contexts == [(f"user: {text}",) for text in reversed(texts)]

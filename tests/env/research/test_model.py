"""With an agent that plans its searches, a lost bridge is never searched for, and so its documents never come."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from mnemotune.data.research.task import SUBJECT, ResearchTask, about
from mnemotune.env.conformance import ModelTrackConformance
from mnemotune.env.episode import Episode, RecordError, StageRecord
from mnemotune.env.evaluation import Evaluator
from mnemotune.env.research.model import MOST_SEARCHES, SEARCH, ModelResearchTrack
from mnemotune.env.research.track import ResearchTrack
from mnemotune.env.runner import Here
from mnemotune.env.track import Cast
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm import Completion, LanguageModel, Request, ToolCall
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory.packages.calls import MOST_CALLS

MakeChain = Callable[..., ResearchTask]


class Reader(LanguageModel):
    """Searches for the next hop whose subject it sees, and answers where it sees the answer."""

    name = "reader"

    def __init__(self, task: ResearchTask, *, searches: int = 1) -> None:
        self.task = task
        self.searches = searches

    async def complete(self, request: Request) -> Completion:
        text = "\n".join(message.text for message in request.messages)
        if request.role == "write":
            return Completion('{"facts": []}', Usage(1, 1))
        if request.form is not None:
            *shown, asked = request.messages
            seen = "\n".join(message.content for message in shown)
            checks = [check for check in self.task.checks.values() if check.text in asked.content]
            values = [value for check in reversed(checks) if (value := self.task.value_of(check)) in seen]
            return Completion(json.dumps({"value": values[0] if values else "none"}), Usage(1, 1))
        if sum(message.role == "tool" for message in request.messages) >= self.searches:
            return Completion("That is all.", Usage(1, 1))
        known = [hop for hop in range(len(self.task.hops)) if hop == 0 or self.task.subject_of(hop) in text]
        turn = next(turn for turn in self.task.turns if turn.hop == known[-1])
        query = about(turn.query, self.task.subject_of(known[-1])).replace(SUBJECT, "")
        return Completion("", Usage(1, 1), (ToolCall("c", SEARCH.name, json.dumps({"query": query})),))


def cast(model: LanguageModel, tokens: int | None = None) -> Cast:
    return Cast(model, model, LexicalEmbedder(), context_tokens=tokens)


async def play(task: ResearchTask, model: LanguageModel, policy: str = "window", tokens: int | None = None) -> Episode:
    return await ModelResearchTrack().begin(task, load_policy(policy), cast(model, tokens)).run()


def titles(record: StageRecord) -> list[str]:
    return [message.content.split("\n")[0].removeprefix("# ") for together in record.heard for message in together]


async def test_the_agent_brings_its_own_documents_and_what_it_says_is_remembered(make_chain: MakeChain) -> None:
    episode = await play(make_chain(), Reader(make_chain()))
    assert titles(episode.stages[0])[0] == "Arda"
    assert titles(episode.stages[0])[-1] == "That is all."
    assert titles(episode.stages[2])[0] == "Belo"
    assert [mark.score for record in episode.stages for mark in record.marks] == [1, 1, 1, 1]


async def test_without_memory_the_next_step_is_not_searched_for(make_chain: MakeChain) -> None:
    task = make_chain()
    evaluation = await Evaluator(ModelResearchTrack(), cast(Reader(task), 5)).evaluate(load_policy("window"), [task])
    (episode,) = evaluation.episodes
    assert not any("The maintainer of Belo is" in title for record in episode.stages for title in titles(record))
    assert evaluation.mean("accuracy") == evaluation.mean("floor") < evaluation.mean("ceiling") == 1
    assert evaluation.extras["whole_chains"] == 0
    mark = episode.stages[-1].marks[-1]
    assert "Right answer: Cleo" in ModelResearchTrack().tell(task, episode, 2, mark)


async def test_notices_come_whatever_is_searched_for(make_chain: MakeChain) -> None:
    task = make_chain(corrected=True)
    episode = await play(task, Reader(task))
    assert titles(episode.stages[1])[0] == "Correction"
    assert ModelResearchTrack().extras([task], [episode], {})["whole_chains"] == 1


async def test_a_turn_has_few_searches_and_no_more_calls_than_are_said(make_chain: MakeChain) -> None:
    task, policy = make_chain(), load_policy("awe")
    episode = await ModelResearchTrack().begin(task, policy, cast(Reader(task, searches=99))).run()
    assert sum("That is all." in title for record in episode.stages for title in titles(record)) == 0
    assert episode.ledger.by_role["reply"].calls == task.stages * (MOST_SEARCHES + 1)
    assert episode.ledger.total.calls <= ModelResearchTrack().most_calls(task, policy)


def test_a_package_may_take_more_calls_a_piece_and_some_for_each_search(make_chain: MakeChain) -> None:
    task, ours = make_chain(), load_policy("awe")
    graph, takes = ours.model_copy(update={"backend": "mem0ai-kuzu"}), MOST_CALLS["mem0ai-kuzu"]
    silent = ours.model_copy(update={"write": ours.write.model_copy(update={"mode": "none"})})
    for track in (ModelResearchTrack(), ResearchTrack()):
        asked, most = track.most_calls(task, silent), track.most_calls(task, ours)
        writes = (most - asked) // 2 * (takes.write + takes.message)
        assert track.most_calls(task, graph) == asked + writes + asked * takes.search


async def test_the_floor_is_billed_as_a_bound_and_takes_no_more_calls_than_are_said(make_chain: MakeChain) -> None:
    task, track = make_chain(), ModelResearchTrack()
    several = replace(cast(Reader(task, searches=99)), reworded=True)
    _, ledger = await Here(track, several).bounds(task)
    assert set(ledger.by_role) == {"upper_bound"}
    assert 0 < ledger.total.calls <= track.bound_calls(task)


async def test_what_is_told_before_it_is_asked_is_probed_and_counted(make_chain: MakeChain) -> None:
    chain = make_chain()
    early = replace(chain.hops[1], claims=(replace(chain.hops[1].claims[0], turn=0, document=0),))
    task = replace(chain, hops=(chain.hops[0], early))
    episode = await play(task, Reader(task, searches=99))
    calls = ModelResearchTrack().most_calls(task, load_policy("window"))
    assert episode.ledger.total.calls <= calls


@pytest.mark.parametrize(("name", "arguments"), [("find", "{}"), ("search", "{}"), ("search", '{"query": 3}')])
async def test_other_calls_are_answered_with_an_error(make_chain: MakeChain, name: str, arguments: str) -> None:
    class Odd(Reader):
        async def complete(self, request: Request) -> Completion:
            if request.form is None and len(request.messages) == 1:
                return Completion("", Usage(1, 1), (ToolCall("c", name, arguments),))
            return await super().complete(request)

    episode = await play(make_chain(), Odd(make_chain()), "native")
    assert episode.failure is None
    assert titles(episode.stages[0])[0] == "Error: there is search(query) alone"


async def test_recorded_episodes_are_not_replayed(make_chain: MakeChain) -> None:
    episode = await play(make_chain(), Reader(make_chain()))
    with pytest.raises(RecordError, match="play it anew"):
        ModelResearchTrack().begin(make_chain(), load_policy("native"), cast(Reader(make_chain())), replay=episode)
    assert ResearchTrack().agent != ModelResearchTrack().agent


class TestModelResearchTrack(ModelTrackConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> ModelResearchTrack:
        return ModelResearchTrack()

    @pytest.fixture(scope="class")
    @classmethod
    def source(cls) -> str:
        return "generated:2@5"

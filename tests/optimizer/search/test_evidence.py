"""Evidence: wrong answers, told so that a proposer can learn from them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mnemotune.data import Scenario
from mnemotune.env import Episode, Evaluation
from mnemotune.env.dialogue.record import Answer, PeriodRecord, Probe, record_period
from mnemotune.env.dialogue.track import MEMORIES_SHOWN
from mnemotune.env.episode import Event
from mnemotune.optimizer.search.arena import MOST_PER_KIND, gather_evidence
from mnemotune.optimizer.study import Evidence
from mnemotune.policies.lm import Message
from mnemotune.policies.memory import MemoryEvent

NAN = float("nan")

MakePeriod = Callable[[Scenario, int], PeriodRecord]
"""Makes the record of a life's period."""


def answered(right: bool | None, *, choice: int | None = 0, gold: int | None = 1) -> Answer:
    """Make an answer; None is unscored."""
    if right is None:
        return Answer("", choice, None, NAN)
    return Answer("", gold if right else choice, gold, float(right))


def period(*questions: tuple[Answer, bool], memories: tuple[str, ...] | None = None) -> MakePeriod:
    """Make a period from each question's answer and whether its probe was right."""
    events = [] if memories is None else [MemoryEvent((Message("user", "hello"),), (), memories)]
    return lambda life, p: record_period(
        life,
        p,
        events=[Event(0, "write", write=event) for event in events],
        answers=[answer for answer, _ in questions],
        probes=[Probe("", None, {f"pet_{q}": knew}) for q, (_, knew) in enumerate(questions)],
    )


def gathered(kit: Any, *played: Played, seed: int = 0, **life: Any) -> tuple[Evidence, ...]:
    lives = [kit.life(one.user, **life) for one in played]
    episodes = tuple(one.episode(of) for one, of in zip(played, lives, strict=True))
    return gather_evidence(Evaluation(kit.policy(), (), episodes), lives, track=kit.track, rng=random.Random(seed))


@dataclass
class Played:
    """What is known of a user's episode before the life is."""

    user: str
    periods: tuple[MakePeriod, ...]
    failure: str | None = None

    def episode(self, life: Scenario) -> Episode:
        stages = tuple(make(life, p) for p, make in enumerate(self.periods))
        return Episode(self.user, "key", stages, failure=self.failure)


def of_ann(*periods: MakePeriod, failure: str | None = None) -> Played:
    return Played("ann", periods, failure)


@pytest.mark.parametrize(
    ("knew_then", "knows_now", "stage"),
    [(False, False, "write"), (True, False, "read"), (True, True, "utilisation"), (False, True, "utilisation")],
)
def test_a_wrong_answer_belongs_to_the_stage_that_its_probes_tell(
    kit: Any, knew_then: bool, knows_now: bool, stage: str
) -> None:
    """pet_0 is told in period 0 and never changes, so period 0 shows whether it was ever written."""
    then, now = period((answered(True), knew_then)), period((answered(False), knows_now))
    (evidence,) = gathered(kit, of_ann(then, now), questions=1)
    assert evidence.kind == stage
    assert evidence.labelled == f"Stage: {stage}\n{evidence.text}"


def test_right_and_unscored_answers_are_no_evidence(kit: Any) -> None:
    episode = of_ann(period((answered(True), False), (answered(None), False)))
    assert gathered(kit, episode, questions=2) == ()


def test_an_unreadable_answer_is_evidence(kit: Any) -> None:
    (evidence,) = gathered(kit, of_ann(period((answered(False, choice=None), True))), questions=1)
    assert evidence.kind == "utilisation"
    assert "Chosen answer: none, the reply could not be read" in evidence.text


def test_evidence_tells_the_question_what_was_said_what_was_held_and_both_answers(kit: Any) -> None:
    wrong = period((answered(False), False), memories=("likes tea", "pet_0 is high"))
    (evidence,) = gathered(kit, of_ann(wrong), questions=1)
    assert evidence.text.splitlines() == [
        "Question: ann asks question 0?",
        'The user said: "This is ann. pet_0 is low."',
        "Memory held:",
        "- pet_0 is high",
        "- likes tea",
        "Chosen answer: Fit for pet_0 at low",
        "Right answer: Fit for pet_0 at mid",
    ]


def test_an_empty_memory_is_told_as_nothing(kit: Any) -> None:
    (evidence,) = gathered(kit, of_ann(period((answered(False), False))), questions=1)
    assert "Memory held:\nnothing" in evidence.text


def test_of_many_memories_those_nearest_to_the_question_are_shown(kit: Any) -> None:
    noise = tuple(f"noise {word}" for word in ("one", "two", "three", "four", "five", "six"))
    held = (*noise, "ann asks about pet_0", *noise)
    (evidence,) = gathered(kit, of_ann(period((answered(False), False), memories=held)), questions=1)
    shown = [line for line in evidence.text.splitlines() if line.startswith("- ")]
    assert len(shown) == MEMORIES_SHOWN
    assert shown[0] == "- ann asks about pet_0"


def test_memory_is_told_as_it_was_when_the_question_was_asked(kit: Any) -> None:
    """A period without a write still has the memories of the last write; a later write is not known yet."""
    wrong, fine = (answered(False), False), (answered(True), True)
    sessions = (1, 1, 1)
    episode = of_ann(period(fine, memories=("old",)), period(wrong), period(fine, memories=("new",)))
    (evidence,) = gathered(kit, episode, questions=1, sessions=sessions)
    assert "Memory held:\n- old\n" in evidence.text


def test_only_what_was_said_last_and_until_then_is_told(kit: Any) -> None:
    """pet_1 is low in period 0, mid from period 1 on and low again from period 3 on."""
    fine, wrong = (answered(True), True), (answered(False), False)
    life = {"questions": 2, "sessions": (1, 1, 1, 1)}
    for asked_in, said in [(0, "pet_0 is low. pet_1 is low."), (1, "pet_1 is mid."), (2, "pet_1 is mid.")]:
        records = [period(fine, wrong if p == asked_in else fine) for p in range(4)]
        (evidence,) = gathered(kit, of_ann(*records), **life)
        told = [line for line in evidence.text.splitlines() if line.startswith("The user said")]
        assert told == [f'The user said: "This is ann. {said}"']


def test_of_each_stage_a_few_failures_are_picked_at_random(kit: Any) -> None:
    count = 3 * MOST_PER_KIND
    users = [f"user{i}" for i in range(count)]
    episodes = [
        Played(user, (period((answered(False), True), (answered(False), False), (answered(True), True)),))
        for user in users
    ]
    one, same, other = (gathered(kit, *episodes, seed=seed, questions=3) for seed in (0, 0, 1))
    stages = [evidence.kind for evidence in one]
    assert stages == ["write"] * MOST_PER_KIND + ["utilisation"] * MOST_PER_KIND
    assert len(set(one)) == len(one)
    assert one == same
    assert one != other


def test_what_a_failed_episode_recorded_is_evidence_too(kit: Any) -> None:
    episode = of_ann(period((answered(False), True)), failure="the line is dead")
    assert len(gathered(kit, episode, questions=1)) == 1


async def test_real_episodes_give_evidence_of_the_stage_that_failed(kit: Any) -> None:
    """A pupil without care knows everything and answers wrongly; one that keeps nothing never learned it."""
    lives = [kit.life("ann"), kit.life("bob")]
    evaluator = kit.evaluator(kit.pupil())
    careless = await evaluator.evaluate(kit.policy(0), lives)
    forgetful = await evaluator.evaluate(kit.policy(100, mode="none", update_every=2, buffer_size=0), lives)
    for evaluation, stage in ((careless, "utilisation"), (forgetful, "write")):
        found = gather_evidence(evaluation, lives, track=kit.track, rng=random.Random(0))
        assert {evidence.kind for evidence in found} == {stage}

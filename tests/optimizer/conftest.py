"""Small made-up lives, a pupil that answers as carefully as its prompt asks, and a loop made of real parts.

A life tells each value outright (``pet_0 is mid.``). The pupil finds the right answer there, but gives it only to the
questions that the care asked for in the reply prompt (``Care 40.``) reaches: care is a policy's quality.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from lives import life
from mnemotune.data import Scenario
from mnemotune.data.splits import Splits
from mnemotune.data.task import grouped
from mnemotune.env import Cast, DialogueTrack, Episode, Evaluator, Protocol, Summary
from mnemotune.env.statistics import paired_difference
from mnemotune.optimizer.config import SearchConfig
from mnemotune.optimizer.proposers.mix import open_proposers
from mnemotune.optimizer.proposers.numbers import distributions
from mnemotune.optimizer.proposers.proposer import Means
from mnemotune.optimizer.search import loop
from mnemotune.optimizer.search.acceptance import level, look, promising
from mnemotune.optimizer.search.arena import Arena
from mnemotune.optimizer.search.loop import GENERATIONS_BETWEEN_LOOKS, Loop
from mnemotune.optimizer.search.screen import KeepAll, Screen
from mnemotune.optimizer.study import Study, Trial, leader
from mnemotune.policies.knob import Point
from mnemotune.policies.lm import (
    Budget,
    Completion,
    LanguageModel,
    LanguageModelError,
    Ledger,
    Limits,
    Metered,
    Request,
    Usage,
)
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.policy import MemoryPolicy
from mnemotune.policies.prompts import Templates

QUESTIONS = 4
WHOLE = {"store": "context", "update_every": 2, "buffer_size": 30}
USAGE = Usage(7, 3)
TRACK = DialogueTrack(Protocol(rounds_init=1, rounds_update=1))
_TOLD = re.compile(r"\b(\w+_\d+)(?: is|:) (\w+)")
_CHOICE = re.compile(r"^(\d+): Fit for (\w+) at (\w+)$", re.MULTILINE)
_LISTED = re.compile(r'^"(\w+_\d+)": \[', re.MULTILINE)
_GIVEN = re.compile(r'"(\w+_\d+)": "(\w+)"')
_CARE = re.compile(r"Care (\d+)\.")
_ASKS = re.compile(r"^\w+ asks question \d+\?$", re.MULTILINE)
_CURRENT = re.compile(r"\[\[ ## current_prompts ## \]\]\n(.*?)\n+\[\[ ## current_numbers ## \]\]", re.DOTALL)
_OWN = re.compile(r"^The prompt `\w+`, at present:\n\n(.*?)\n\nFeedback on the latest questions", re.DOTALL)


def make_life(user: str = "ann", *, questions: int = QUESTIONS, sessions: Sequence[int] = (1, 1)) -> Scenario:
    """Make a life in which question q is about ``pet_q``; some values change in each later period."""
    infos = [f"pet_{q}" for q in range(questions)]
    later = [dict.fromkeys(infos[p % 2 :: 2], ("mid", "low")[p % 2 - 1]) for p in range(1, len(sessions))]
    return life(
        user,
        sessions=sessions,
        news=[dict.fromkeys(infos, "low"), *later],
        says=lambda p, s: f"This is {user}.",
        values=("low", "mid"),
        qas=[
            {
                "query": f"{user} asks question {q}?",
                "required_info": [f"pet_{q}"],
                "answer_choices": [
                    {"state": [value], "answer": f"Fit for pet_{q} at {value}"} for value in ("low", "mid")
                ],
            }
            for q in range(questions)
        ],
    )


def make_splits(train: int = 4, validation: int = 4, test: int = 3, *, sessions: Sequence[int] = (1, 1)) -> Splits:
    return Splits(
        train=tuple(grouped(make_life(f"train{i}", sessions=sessions) for i in range(train))),
        validation=tuple(grouped(make_life(f"valid{i}", sessions=sessions) for i in range(validation))),
        test=tuple(grouped(make_life(f"sealed{i}", sessions=sessions) for i in range(test))),
    )


def make_policy(care: int = 30, **numbers: Any) -> MemoryPolicy:
    """Make a policy that asks for so much care; without numbers, a small life's whole talk is kept in the buffer."""
    mode = numbers.pop("mode", "verbatim")
    prompts = {"reply": f"Care {care}.\n{{memories}}"} if mode != "none" else {}
    kept = WHOLE if mode == "verbatim" else {}
    prompts |= numbers.pop("prompts", {})
    return MemoryPolicy.model_validate({"write": {"mode": mode}, **kept, **numbers, "prompts": prompts})


def care_of(policy: MemoryPolicy) -> int:
    return int(_CARE.findall(policy.prompts.reply or "")[0])


def more_care(prompt: str) -> str:
    """Ask for 25 more of 100 cares."""
    if not _CARE.search(prompt):
        return f"Take care.\n{prompt}"
    return _CARE.sub(lambda match: f"Care {min(100, int(match[1]) + 25)}.", prompt)


def as_reply(prompts: Mapping[str, str] | str, analysis: str = "More care helps.", **numbers: int | str) -> str:
    """Write a prompt engineer's reply in the form that DSPy asks for; a plain text is the reply prompt."""
    texts = {"reply": prompts} if isinstance(prompts, str) else dict(prompts)
    return json.dumps({"analysis": analysis, "improved_prompts": texts, "improved_numbers": numbers})


class Pupil(LanguageModel):
    """A language model that answers with the care that is asked for, and as a proposer asks for more.

    What it says depends on the request's messages alone.
    """

    name = "pupil"

    def __init__(
        self,
        *,
        careless: bool = False,
        lucky: bool = False,
        edits: Callable[[str], str] = more_care,
        propose: Callable[[Request], str] | None = None,
        fails: Callable[[Request], bool] = lambda _: False,
        error: Exception | None = None,
    ) -> None:
        """``careless`` ignores the care asked for, ``lucky`` answers every prompt by chance.

        ``fails`` tells which requests end in ``error``.
        """
        self.requests: list[Request] = []
        self._careless = careless
        self._lucky = lucky
        self._edits = edits
        self._propose = propose
        self._fails = fails
        self._error = error or LanguageModelError("the line is dead")

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        if self._fails(request):
            raise self._error
        return Completion(getattr(self, f"_{request.role}_")(request), USAGE)

    async def aclose(self) -> None:
        pass

    def asked(self, *roles: str) -> list[Request]:
        return [request for request in self.requests if request.role in roles]

    def heard(self, text: str) -> bool:
        return any(text in message.content for request in self.requests for message in request.messages)

    def _reply_(self, request: Request) -> str:
        return "I see."

    def _user_(self, request: Request) -> str:
        return "And you?"

    def _write_(self, request: Request) -> str:
        prompt = request.messages[-1].content
        told = _TOLD.findall(prompt)
        if '"ADD"' in prompt:
            return json.dumps({"memory": [{"event": "ADD", "text": f"{info} is {value}"} for info, value in told]})
        if '"facts"' in prompt:
            return json.dumps({"facts": [f"{info} is {value}" for info, value in told]})
        return json.dumps(dict(told))

    def _answer_(self, request: Request) -> str:
        prompt = request.messages[-1].content
        known = {info: value for message in request.messages for info, value in _TOLD.findall(message.content)}
        right = _choose(prompt, known)
        cares = [_CARE.search(message.content) for message in request.messages if message.role == "system"]
        care = int(cares[0][1]) if cares and cares[0] else 0
        care = 50 if self._careless or self._lucky else care
        asked = _heard(request) if self._lucky else _ASKS.findall(prompt)[0]
        return json.dumps({"answer": right if zlib.crc32(asked.encode()) % 100 < care else 3 - right})

    def _probe_(self, request: Request) -> str:
        known = {info: value for message in request.messages for info, value in _TOLD.findall(message.content)}
        asked = _LISTED.findall(request.messages[-1].content)
        return json.dumps({info: known[info] for info in asked if info in known})

    def _upper_bound_(self, request: Request) -> str:
        prompt = request.messages[-1].content
        return json.dumps({"answer": _choose(prompt, dict(_GIVEN.findall(prompt)))})

    def _propose_(self, request: Request) -> str:
        if self._propose is not None:
            return self._propose(request)
        asked = request.messages[-1].content
        own = _OWN.match(asked)
        if own is not None:  # a policy that rewrites its own prompt
            return json.dumps({"new_prompt": self._edits(own[1]), "changes": ["more care"]})
        shown = json.loads(_CURRENT.findall(asked)[0])
        return as_reply({slot: self._edits(text) for slot, text in shown.items()})


def _heard(request: Request) -> str:
    """Return all that was said, in a form that chance has always been drawn from: tests rest on what it brings."""
    said = [f"Message(role={message.role!r}, content={message.content!r})" for message in request.messages]
    return f"({', '.join(said)}{',' * (len(said) == 1)})"


def _choose(prompt: str, known: Mapping[str, str]) -> int:
    """Choose the answer that fits what is known, the last one where none does."""
    options = _CHOICE.findall(prompt)
    return next((int(number) for number, info, value in options if known.get(info) == value), len(options))


def make_trial(number: int = 0, **values: Any) -> Trial:
    """Make a trial that was raced, the seed's unless told otherwise; its numbers are its policy's.

    Its users have the same score in each of two periods.
    """
    policy, train = values.get("policy", make_policy()), values.get("train", {"train0": 0.25, "train1": 0.5})
    space = SearchConfig().space
    point = None if policy is None else space.point_of(policy)
    shares = {"write": 0.1, "read": 0.1, "utilisation": 0.3}
    given = {
        "generation": number,
        "policy": policy,
        "parent": None if number == 0 else 0,
        "kind": "candidate" if number else "seed",
        "change": "the seed policy" if number == 0 else "something",
        "decided_at": "seed" if number == 0 else "race",
        "accepted": number == 0,
        "reason": "where the search starts" if number == 0 else "no better",
        "proposer": "" if number == 0 else "somebody",
        "train": train,
        "series": {user: () if math.isnan(score) else (score, score) for user, score in train.items()},
        "summary": Summary(policy="made up", accuracy=0.5, shares=shares),
        "params": point or {},
        "distributions": distributions(point or {}, space),
    }
    return Trial(number=number, **given | values)


def told_of(trial: Trial, *, spend: bool = True) -> dict[str, Any]:
    """Return all of a trial as values that are equal when the trials are, NaN included."""
    kept = replace(trial, params={}, distributions={})
    if not spend:
        summary = None if trial.summary is None else replace(trial.summary, spend=Ledger())
        kept = replace(kept, ledger=Ledger(), summary=summary)
    return {"trial": repr(kept), "params": dict(trial.params), "distributions": dict(trial.distributions)}


@dataclass
class Rig:
    """A loop of real parts around a pupil."""

    pupil: Pupil = field(default_factory=Pupil)
    splits: Splits = field(default_factory=make_splits)
    search: SearchConfig = field(default_factory=lambda: SearchConfig(generations=2, candidates=2, numbers=False))
    limits: Limits = field(default_factory=Limits)
    screen: Screen = field(default_factory=KeepAll)
    storage: str | None = None
    """None keeps the study in memory: a trial is there at once, SQLAlchemy takes 50 ms."""
    tell: Callable[[Trial], None] = lambda _: None

    def __post_init__(self) -> None:
        self.budget = Budget(self.limits)
        self.model, self.proposer = (Metered(self.pupil, budget=self.budget) for _ in range(2))
        self.study = Study(self.storage, name="evolution")
        self.episodes: list[Episode] = []
        self.evaluator = Evaluator(TRACK, Cast(self.model, self.model, LexicalEmbedder()))
        self.arena = Arena(
            self.splits,
            self.evaluator,
            seed=self.search.seed,
            block=self.search.race_block,
            racing=self.search.racing,
            done=self.episodes.append,
        )

    async def run(self, policy: MemoryPolicy) -> str:
        templates = Templates.bundled()
        with open_proposers(Means(self.search, templates, self.proposer, self.arena)) as proposers:
            made = Loop(
                study=self.study,
                arena=self.arena,
                screen=self.screen,
                proposers=proposers,
                search=self.search,
                tell=self.tell,
                limits=self.limits,
            )
            return await made.run(policy)

    async def look_last(self) -> None:
        """Take the last look, as a run does when its search is over."""
        await Loop(self.study, self.arena, self.screen, {}, self.search, self.tell, self.limits).look_last()

    def check(self) -> None:
        """Check what holds for every search: invariants 1 to 5 and 8 of the tests of the loop."""
        train, validation = ({user.id for user in users} for users in (self.splits.train, self.splits.validation))
        trials = self.study.trials
        for number, trial in enumerate(trials):
            assert trial.number == number
            assert trial.change
            assert trial.reason
            assert trial.train.keys() <= trial.series.keys() <= train
            assert trial.validation.keys() <= validation
            assert trial.finished_race or not trial.evidence
            assert not trial.finished_race or trial.train.keys() == train
            if number == 0:
                assert (trial.decided_at, trial.accepted) == ("seed", True)
                continue
            assert trial.decided_at != "seed"
            assert trial.parent is not None
            assert trials[trial.parent].finished_race
            assert trial.proposer in {*self.search.at_work, ""}
            assert bool(trial.proposer) == (trial.kind == "candidate")
            assert (repr(trial.look), trial.accepted) == self._deserves(trial, trials[:number])
        generations = [trial.generation for trial in trials if trial.kind != "last_look"]
        assert generations == sorted(generations)
        sizes = dict.fromkeys(generations, self.search.candidates)
        sizes[1] = max(self.search.broad, self.search.candidates)
        assert all(generations.count(g) <= sizes[g] for g in set(generations) - {0})
        assert not self.pupil.heard("sealed")
        assert self.limits.calls is None or len(self.pupil.requests) <= self.limits.calls

    @staticmethod
    def _lost_most(scores: Mapping[str, float], before: Sequence[Trial]) -> bool:
        known = {user for trial in before for user, score in trial.train.items() if not math.isnan(score)}
        return 2 * sum(math.isnan(scores.get(user, math.nan)) for user in known) > len(known)

    def _deserves(self, trial: Trial, before: Sequence[Trial]) -> tuple[Any, bool]:
        """Return the look that a trial should get, and whether it should be accepted, from scores alone."""
        parent, first, best = before[trial.parent or 0], leader(before), [t for t in before if t.accepted][-1]
        last = trial.kind == "last_look"
        better = paired_difference(trial.train, parent.train).mean > 0 and trial.score > first.score
        lost = self._lost_most(trial.train, before)
        leads = trial.finished_race and better and not trial.over and not lost
        assert trial.ahead == leads
        assert trial.led == (leads and promising(trial.train, first.train))
        assert last or parent.generation < trial.generation
        if self.search.acceptance == "train":
            return repr(None), leads
        looks = [t.generation for t in before if t.look]
        due = trial.generation >= (looks[-1] + GENERATIONS_BETWEEN_LOOKS if looks else loop.NO_LOOK_BEFORE)
        looked = last or (leads and promising(trial.train, best.train) and due)
        assert (trial.decided_at == "validate") == bool(trial.validation) == looked
        if not looked:
            return repr(None), False
        at = level(before, last=last)
        seen = look(trial.validation, trial.slices, seed=before[0], best=best, level=at, last=last)
        whole, worse = len(trial.validation) == len(self.splits.validation), self.search.veto and seen.regressions
        return repr(seen), whole and seen.sure and seen.likely and not worse


@dataclass(frozen=True, repr=False)
class Kit:
    """What the tests of this folder make their worlds from."""

    life: Callable[..., Scenario] = make_life
    splits: Callable[..., Splits] = make_splits
    policy: Callable[..., MemoryPolicy] = make_policy
    trial: Callable[..., Trial] = make_trial
    told: Callable[..., dict[str, Any]] = told_of
    care: Callable[[MemoryPolicy], int] = care_of
    more_care: Callable[[str], str] = more_care
    reply: Callable[..., str] = as_reply
    pupil: Callable[..., Pupil] = Pupil
    track: DialogueTrack = TRACK

    def evaluator(self, model: Any, *, reworded: bool = False) -> Evaluator:
        return Evaluator(TRACK, Cast(model, model, LexicalEmbedder(), reworded=reworded))

    def says(self, reply: str | Callable[[Request], str]) -> Pupil:
        """Make a pupil that replies so when it is asked to improve something."""
        return Pupil(propose=reply if callable(reply) else lambda _: reply)

    def shown(self, pupil: Pupil, section: str, number: int = 0) -> Any:
        """Return what a section of a request to improve something shows."""
        asked = pupil.asked("propose")[number].messages[-1].content
        return json.loads(re.split(r"\n\n(?:\[\[ ## |Respond)", asked.split(f"[[ ## {section} ## ]]\n")[1])[0])

    def point(self, policy: MemoryPolicy) -> Point:
        point = SearchConfig().space.point_of(policy)
        assert point is not None
        return point


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()


@pytest.fixture(scope="session")
def empty_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty study's database: a copy is there at once, a new one takes half a second."""
    path = tmp_path_factory.mktemp("empty") / "study.db"
    Study(f"sqlite:///{path}", name="evolution")
    return path


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database without runs: a copy is there at once, a new one takes seconds."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture(scope="session")
def make_storage(empty_study: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """Make the URL of a storage with nothing but an empty study called "evolution"."""

    def made() -> str:
        return f"sqlite:///{shutil.copy(empty_study, tmp_path_factory.mktemp('study') / 'study.db')}"

    return made


@pytest.fixture
def storage(make_storage: Callable[[], str]) -> str:
    """The URL of a storage that another rig can open again."""
    return make_storage()


@pytest.fixture
def early_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches of a generation or two look on the way."""
    monkeypatch.setattr("mnemotune.optimizer.search.loop.NO_LOOK_BEFORE", 1)


@pytest.fixture(scope="session")
def make_rig() -> Callable[..., Rig]:
    return Rig

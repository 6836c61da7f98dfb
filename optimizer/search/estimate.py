"""What a run will spend, before it spends anything."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from ...data import Splits
from ...data.task import tasks_of
from ...env.track import reworded_calls, reworded_role
from ...policies.files import WINDOW
from ...policies.lm import CALL_ROLES, CallRole, Limits
from ...policies.policy import MemoryPolicy
from ..config import Config, SearchConfig
from ..models import embedder_price, price_of, track_of
from ..proposers.mix import edits_in
from .allowance import Allowance
from .arena import HALVING, raced_stages, rungs
from .loop import NO_LOOK_BEFORE
from .rehearsal import NOTHING, Rehearsal, Taken
from .screen import PROMOTED, knows, racing

LOST_AT_FIRST, LOST_AT_FIRST_BY_PROMPTS = 0.55, 0.05
"""Shares of candidates that are left after the first users' first periods; prompts alone hardly change those."""
LOST_ON_THE_WAY = 0.25
"""Of the others, the share left after whole lives of fewer than half of the train users."""
LOST_HALFWAY = 0.8
"""Of the others, the share left after half of the train users or more."""
KNOWN_ALREADY = 0.12
"""Share of proposals that are no new policies, once the broad start is over or where prompts alone change."""
ASKED_ANEW, ASKED_ANEW_BY_PROMPTS = 0.75, 0.55
"""Of what later candidates ask, the share that is charged, beside that of the policies that were rehearsed: the more a
candidate is like those before it, the more of its requests they have made."""
LOOKS = 0.35
"""At validation users on the way, where generations enough come."""
LOOK = 0.9
"""Share of the validation users that a look takes in on the average."""
LAST_LOOK = 0.75
"""Share of searches whose leader is not accepted already at their end."""
FINALISTS = 0.65
"""Policies that a search looks at behind an accepted leader, on the average."""
PROPOSAL = (1.0, 3000.0, 250.0)
"""Calls, input and output tokens of one proposal of the reflective proposer's."""
TALKING: frozenset[CallRole] = frozenset({"reply", "user"})
"""The roles that nobody plays where recorded talks are listened to."""
LEADING = 2 / 3
"""Of the policies that were rehearsed, the better ones that stand for those that a search tries, and finds."""


class Reads(NamedTuple):
    """How many input tokens a search's policies read: it goes to where more is kept and shown."""

    times: float
    """Times those of the policies that stand for them."""
    share: float
    """The same where the context has a budget: times those of the window, which fills it, in each call."""


BROAD = Reads(times=1.3, share=0.9)
"""Candidates of a broad start that race, of which the better go on."""
LATER = Reads(times=1.75, share=0.92)
FOUND = Reads(times=2.0, share=0.98)
BY_PROMPTS = 1.35
"""``times`` of all of them where prompts alone change: they make memories longer."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What a run will spend on the average: its parts, and what ends its search."""

    parts: Mapping[str, Taken]
    """``search``, ``last look`` and ``sealed test``."""
    candidates: int
    """How many the search is expected to try."""
    planned: int
    """How many it tries where no budget ends it."""
    ended_by: str
    """``generations``, or the limit of the budget that ends the search."""
    usd: Mapping[CallRole, float | None]
    """US dollars by role; None where the price is not known."""
    seconds: float | None
    """Very roughly, on this machine; None where there is nothing to go by."""

    @property
    def total(self) -> Taken:
        """The sum of the parts."""
        return sum(self.parts.values(), NOTHING)

    @property
    def total_usd(self) -> float | None:
        """US dollars of all roles; None where one is not known."""
        known = [cost for cost in self.usd.values() if cost is not None]
        return sum(known) if len(known) == len(self.usd) else None

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        rows = {role: row.tolist() for role, row in zip(CALL_ROLES, self.total, strict=True) if role in self.usd}
        return {
            "calls": {role: round(row[0]) for role, row in rows.items()},
            "tokens": {role: {"input": round(row[1]), "output": round(row[2])} for role, row in rows.items()},
            "usd": dict(self.usd),
            "total": {
                "calls": round(float(self.total[:, 0].sum())),
                "tokens": round(float(self.total[:, 1:].sum())),
                "usd": self.total_usd,
                "seconds": None if self.seconds is None else round(self.seconds),
            },
            "parts": {name: round(float(part[:, 0].sum())) for name, part in self.parts.items()},
            "candidates": self.candidates,
            "planned_candidates": self.planned,
            "ended_by": self.ended_by,
        }


def estimate(config: Config, splits: Splits, rehearsal: Rehearsal) -> CostEstimate:
    """Estimate what the run of a priced config will spend.

    Raises ConfigError, as the run would, when its budget is too small, and CheckpointError when it cannot screen.
    """
    search, track = config.search, track_of(config)
    if search.screening is not None and not knows(search.screening.model, config.model):
        search = search.model_copy(update={"screening": None})
    allowance = Allowance.of(config, splits, track)
    judged = tasks_of([*splits.train, *(splits.validation if search.acceptance == "validation" else ())])
    validation, test_tasks = tasks_of(splits.validation), tasks_of(splits.test)
    heard = np.array([[0.0 if search.off_policy and role in TALKING else 1.0] for role in CALL_ROLES])
    judging = rehearsal.takes(config.seed_policy, judged)
    start = rehearsal.bounds(judged) + heard * judging
    if search.off_policy:
        start = start + judging  # its talks are recorded first
    elif search.screening is not None:
        start = start + rehearsal.takes(config.seed_policy, tasks_of(splits.train[: search.screening.users]))
    planned, first = search.planned, search.broad if search.generations else 0
    looked = float(search.acceptance == "validation" and search.generations > 0) * heard
    window = None if config.context_tokens is None else config.compared[WINDOW]
    stand_ins = _StandIns(search, rehearsal, window)
    policies, more = stand_ins.of(FOUND)
    fresh = heard * rehearsal.fresh
    broad = fresh * _broad(stand_ins, splits, first)
    later = fresh * _later(stand_ins, splits, planned - first)
    if search.generations >= NO_LOOK_BEFORE:
        later = later + LOOKS * LOOK * (fresh * looked * more * rehearsal.mean(policies, validation))
    money = _Money(config, rehearsal)
    start = money.fit(allowance.races, NOTHING, start)[0] * start
    of_broad, limit = money.fit(allowance.races, start, broad)
    parts, of_later = {"search": start + of_broad * broad}, 0.0
    if of_broad == 1:
        of_later, limit = money.fit(allowance.races, parts["search"], later)
        parts["search"] = parts["search"] + of_later * later
    tried = round(of_broad * first + of_later * (planned - first))
    if window is None and search.broad and tried <= first:
        policies, more = rehearsal.broad, _reading(1.0)
    last = (LAST_LOOK + FINALISTS) * fresh * looked * more * rehearsal.mean(policies, validation)
    parts["last look"] = money.fit(allowance.search, parts["search"], last)[0] * last
    tested = {config.seed_policy, *config.compared.values()}
    played = sum((rehearsal.takes(policy, test_tasks) for policy in tested), NOTHING)
    if search.generations:
        played = played + more * rehearsal.mean(policies, test_tasks)
    test = rehearsal.bounds(test_tasks) + _charged(
        played, rehearsal.fresh, policies=len(tested) + bool(search.generations)
    )
    checks = sum(len(task.checks) for task in test_tasks)
    reworded = sum(reworded_calls(track, task) for task in test_tasks) / max(1, checks)
    test[CALL_ROLES.index(reworded_role(track.turn))] += reworded * test[CALL_ROLES.index("answer")]
    gone = parts["search"] + parts["last look"]
    parts["sealed test"] = money.fit(allowance.whole, gone, test)[0] * test
    total = gone + parts["sealed test"]
    usd = {role: money.usd_of(i, total) for i, role in enumerate(CALL_ROLES) if total[i, 0] > 0.5}
    return CostEstimate(parts, tried, planned, limit, usd, money.seconds(total))


def _charged(played: Taken, fresh: Taken, *, policies: int) -> Taken:
    """Return the part of what so many policies take in the same tasks that is charged: all of the first's."""
    return played * (1 + (policies - 1) * fresh) / policies


@dataclass(frozen=True, slots=True)
class _StandIns:
    """Who stands for the policies that a search tries and finds, and how many times as much those read."""

    search: SearchConfig
    rehearsal: Rehearsal
    window: MemoryPolicy | None
    """None where the context has no budget."""

    @property
    def leading(self) -> Sequence[MemoryPolicy]:
        """The better of the policies that were rehearsed."""
        every = self.rehearsal.broad
        return every[: math.ceil(LEADING * len(every))]

    def of(self, reads: Reads) -> tuple[Sequence[MemoryPolicy], Taken]:
        """Return who stands for the policies that read so much, and what theirs is to be multiplied by."""
        times = reads.times
        if self.window is not None:
            read = self.rehearsal.read_a_call
            times = reads.share * read([self.window]) / read(self.leading)
        elif not self.search.changes_numbers:
            times = BY_PROMPTS
        elif not self.search.broad:
            return self.rehearsal.broad, _reading(1.0)
        return self.leading, _reading(times)


def _broad(stand_ins: _StandIns, splits: Splits, candidates: int) -> Taken:
    """Return what a broad start of so many candidates takes."""
    search, rehearsal = stand_ins.search, stand_ins.rehearsal
    together = racing(candidates, 0.0 if search.screening is None else search.screening.drop)
    policies, more = stand_ins.of(BROAD) if search.racing else (stand_ins.leading, _reading(1.0))
    cost = together * more * race(search, splits, rehearsal, policies, together=together)
    return cost + _proposing(search, edits_in(search, candidates)) + _screening(search, splits, rehearsal, candidates)


def _later(stand_ins: _StandIns, splits: Splits, candidates: int) -> Taken:
    """Return what it takes to propose, screen and race so many candidates one by one."""
    search, rehearsal = stand_ins.search, stand_ins.rehearsal
    dropped = 0.0 if search.screening is None else search.screening.drop * (1 - PROMOTED)
    policies, more = stand_ins.of(LATER)
    anew = ASKED_ANEW if search.changes_numbers else ASKED_ANEW_BY_PROMPTS
    raced = (1 - dropped) * (1 - KNOWN_ALREADY) * candidates
    racing = raced * anew * more * race(search, splits, rehearsal, policies)
    proposing = _proposing(search, candidates / len(search.at_work))
    return racing + proposing + _screening(search, splits, rehearsal, candidates)


def _proposing(search: SearchConfig, edits: float) -> Taken:
    """Return what so many edits of the reflective proposer take, where it is at work."""
    proposing = NOTHING.copy()
    if "reflective" in search.at_work:
        proposing[CALL_ROLES.index("propose")] = edits * np.array(PROPOSAL)
    return proposing


def _reading(times: float) -> Taken:
    return np.array([1.0, times, 1.0])


def _screening(search: SearchConfig, splits: Splits, rehearsal: Rehearsal, candidates: int) -> Taken:
    """Return what it takes that so many candidates write while they listen to the screen's talks."""
    if search.screening is None:
        return NOTHING
    listening = rehearsal.mean(rehearsal.broad, tasks_of(splits.train[: search.screening.users]))
    writing: Taken = listening * np.array([[float(role == "write")] for role in CALL_ROLES])
    return candidates * writing


def race(
    search: SearchConfig, splits: Splits, rehearsal: Rehearsal, policies: Sequence[MemoryPolicy], *, together: int = 1
) -> Taken:
    """Return what the race of such a policy takes on the average, where so many race ``together``."""
    every, stages = len(splits.train), raced_stages(splits.train)
    begun, whole = (rehearsal.mean(policies, tasks_of(splits.train), begun=begun) for begun in (True, False))
    total = before = NOTHING
    left = 1.0
    for groups, first in rungs(every, block=search.race_block if search.racing else every, stages=stages):
        here = groups / every * (whole if first is None else begun)
        total, before = total + left * (here - before), here
        if together > 1:
            left = math.ceil(left * together / HALVING) / together
        elif first is None:
            left *= 1 - (LOST_HALFWAY if groups / every >= 0.5 else LOST_ON_THE_WAY)
        else:
            left *= 1 - (LOST_AT_FIRST if search.changes_numbers else LOST_AT_FIRST_BY_PROMPTS)
    return total


@dataclass(frozen=True, slots=True)
class _Money:
    """What calls and tokens come to in each unit that a budget can be given in."""

    config: Config
    rehearsal: Rehearsal

    def usd_of(self, role: int, taken: Taken) -> float | None:
        """Return the US dollars of one role; None where its model's price is not known."""
        if CALL_ROLES[role] == "embed":
            price = embedder_price(self.config)
        else:
            part = {"user": "user", "judge": "user", "propose": "proposer"}.get(CALL_ROLES[role], "assistant")
            price = price_of(self.config.models[part], self.config)
        return None if price is None else price.cost(*taken[role, 1:].tolist())

    def units(self, taken: Taken) -> dict[str, float]:
        """Return what it comes to in each unit; dollars and seconds as far as they are known."""
        usd = sum(self.usd_of(role, taken) or 0.0 for role in range(len(CALL_ROLES)))
        calls, tokens = float(taken[:, 0].sum()), float(taken[:, 1:].sum())
        return {"calls": calls, "tokens": tokens, "usd": usd, "seconds": self.seconds(taken) or 0.0}

    def seconds(self, taken: Taken) -> float | None:
        """Return the seconds: those of the rehearsal's model, or the fewest that an endpoint allows."""
        pace = self.config.endpoint.requests_per_minute
        if self.config.stands_in:
            return float(taken[:, 0].sum()) * self.rehearsal.seconds
        return None if pace is None else float(taken[:, 0].sum()) * 60 / pace

    def fit(self, limits: Limits, gone: Taken, more: Taken) -> tuple[float, str]:
        """Return how much of ``more`` fits into the limits after what is ``gone``, and which limit cuts it off."""
        before, now = self.units(gone), self.units(more)
        limited = {what: limit for what, limit in asdict(limits).items() if limit is not None and now[what] > 0}
        fits = {what: max(0.0, limit - before[what]) / now[what] for what, limit in limited.items()}
        tightest = min(fits, key=fits.__getitem__, default="generations")
        share = fits.get(tightest, math.inf)
        return (1.0, "generations") if share >= 1 else (share, tightest)

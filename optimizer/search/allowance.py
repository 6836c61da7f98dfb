"""How a run's budget is divided: the sealed test's share is put aside before the search starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from ...data import Splits, split_by_group
from ...data.task import Task, grouped, tasks_of
from ...env.track import Track, most_calls
from ...policies.lm import Consumed, Limits
from ...policies.policy import MemoryPolicy
from ..config import BudgetLimits, Config, ConfigError, SplitSizes
from ..models import prices_of, track_of
from .sealed import most_test_calls

PERCENTS = (50, 80)
"""Percents of a limit at which a warning is due."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the search and the sealed test may spend."""

    whole: Limits
    """The run's budget, which the search and the sealed test share."""
    reserve: int
    """Calls put aside for the sealed test: its upper limit."""
    look: int
    """Calls put aside for the last look at the validation users: its upper limit."""
    start: int
    """Calls that judging the seed policy can take."""

    @classmethod
    def of(cls, config: Config, splits: Splits, track: Track) -> Allowance:
        """Divide a config's budget. Raises ConfigError when it is too small to learn anything."""
        policies = [config.seed_policy, *config.compared.values()]
        searched = config.search.space.limits["update_every"][0]
        lowest = min(searched, config.seed_policy.update_every or searched)
        backend = config.seed_policy.backend
        memories = tuple(dict.fromkeys([*config.search.space.memories, *([backend] if backend else [])]))
        times = 2 if config.provided_embedder.remote else 1  # no call needs more than one search, which is one call too
        reserve = times * most_test_calls(
            tasks_of(splits.test), policies, track, finalist_writes=lowest, memories=memories
        )
        looked = tasks_of(splits.validation if config.search.acceptance == "validation" else ())
        judged = [*tasks_of(splits.train), *looked]
        start = times * _calls(track, judged, config.seed_policy)
        look = times * most_test_calls(looked, [], track, finalist_writes=lowest, memories=memories, reworded=False)
        if config.search.aim.picks:  # where its pick is refused, the leader is looked at too
            look = 2 * look - sum(track.bound_calls(task) for task in looked)
        heard = 0 if config.search.screening is None else config.search.screening.users
        recorded = judged if config.search.off_policy else tasks_of(splits.train[:heard])
        once = start + times * _calls(track, recorded, config.seed_policy)
        smallest, calls = reserve + look + once + start, config.search.budget.calls
        if calls is not None and calls < smallest:
            raise ConfigError(
                f"search.budget.calls: {calls:,} is too small to learn anything: the sealed test can take "
                f"{reserve:,} calls, the last look {look:,}, and the seed policy with one candidate {once + start:,}; "
                f"the smallest sensible budget is {smallest:,}, or use fewer {track.noun}s in `splits`"
            )
        if config.search.budget.usd is not None:
            unpriced = ", ".join(sorted(name for name, price in prices_of(config).items() if price is None))
            if unpriced:
                raise ConfigError(f"search.budget.usd: set endpoint.prices for {unpriced}, or its end is not known")
        return cls(Limits(**config.search.budget.model_dump()), reserve, look, start)

    @property
    def search(self) -> Limits:
        """The whole budget less the sealed test's share: all the calls that it can take, half of everything else."""
        return _part(self.whole, without_calls=self.reserve, share=Fraction(1, 2))

    @property
    def races(self) -> Limits:
        """The search's share less the last look's: all the calls that it can take, a fifth of everything else."""
        return _part(self.search, without_calls=self.look, share=Fraction(4, 5))

    def introduction(self, config: Config, splits: Splits, *, noun: str) -> str:
        """Say what a run begins with: its groups, its budget, and who plays."""
        limit, tokens = config.search.budget.calls, config.context_tokens
        context = "no limit on the context" if tokens is None else f"{tokens:,} context tokens"
        allowed = "no limit on calls" if limit is None else f"at most {limit:,} calls"
        return (
            f"{len(splits.train)} train, {len(splits.validation)} validation and {len(splits.test)} sealed test "
            f"{noun}s; {allowed}, {self.reserve:,} of them kept for the sealed test; "
            f"model: {config.model}, embedder: {config.embedder}, {context}"
        )


def _part(limits: Limits, *, without_calls: int, share: Fraction) -> Limits:
    return Limits(
        None if limits.calls is None else limits.calls - without_calls,
        None if limits.tokens is None else int(limits.tokens * share),
        None if limits.usd is None else limits.usd * float(share),
        None if limits.seconds is None else limits.seconds * float(share),
    )


def _calls(track: Track, tasks: Sequence[Task], policy: MemoryPolicy) -> int:
    return most_calls(track, tasks, [policy]) + sum(track.bound_calls(task) for task in tasks)


def splits_of(config: Config) -> Splits:
    """Deal a config's groups to its splits. Raises ConfigError when the data has a fault, or too few of them.

    Where the track has other words for the same groups, those of the sealed test are told in these.
    """
    sizes, track = config.splits, track_of(config)
    try:
        sealed = None if config.test_data is None else track.load(config.test_data)
        splits = split_by_group(track.load(config.data), **sizes.model_dump(), noun=track.noun, sealed=sealed)
        held_out = track.usual.held_out(config.data)
        if sealed is not None or held_out is None:
            return splits
        told = {group.id: group for group in grouped(track.load(held_out, groups={group.id for group in splits.test}))}
        return replace(splits, test=tuple(told[group.id] for group in splits.test))
    except ValueError as error:
        raise ConfigError(f"data: {error}") from None


def dealer() -> Callable[[Config], Splits]:
    """Return what deals configs as ``splits_of`` does; those with the same groups share them. The track is the same."""
    dealt: dict[tuple[str, str | None, SplitSizes], Splits] = {}

    def deal(config: Config) -> Splits:
        groups = config.data, config.test_data, config.splits
        if groups not in dealt:
            dealt[groups] = splits_of(config)
        return dealt[groups]

    return deal


def due_warnings(gone: Consumed, limits: BudgetLimits, said: Collection[str]) -> dict[str, str]:
    """Return the warnings that are due and not ``said`` yet, by name; the name changes when the limit is raised.

    Where a limit has passed both percents at once, the lower warning is empty.
    """
    due = {}
    for what, limit in limits.model_dump(exclude_none=True).items():
        spent = getattr(gone, what) or 0
        passed = [percent for percent in PERCENTS if 100 * spent >= percent * limit]
        for percent in passed:
            name = f"{percent}% of {_amount(what, limit)}"
            if name not in said:
                due[name] = f"{name} are gone (search.budget.{what})" if percent == passed[-1] else ""
    return due


def _amount(what: str, limit: float) -> str:
    """Write a limit in full, so that no two of them have the same name."""
    if what == "usd":
        return f"${limit:,.2f}" if round(limit, 2) == limit else f"${limit:,}"
    return f"{limit:,.0f} {what}" if limit == int(limit) else f"{limit:,} {what}"

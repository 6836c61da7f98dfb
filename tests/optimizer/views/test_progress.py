"""What a run says while it runs."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mnemotune.optimizer.config import parse_config
from mnemotune.optimizer.search.listener import Standing
from mnemotune.optimizer.search.outcome import Outcome
from mnemotune.optimizer.study import Study
from mnemotune.optimizer.views.progress import WIDTH, Progress, clock_text
from mnemotune.policies.lm import Budget, Consumed, Limits, Usage

CONFIG = "{data: base, splits: {train: 1, validation: 2, test: 2}, seed_policy: native}"
ESCAPE = "\x1b"
WIDE = 400
RUN = Outcome(Path("run"), parse_config(CONFIG, where="test"), Study(None, name="evolution"))


class World:
    """A progress with a clock and a screen that the test controls."""

    def __init__(self, *, terminal: bool = False, width: int = WIDE, before: Consumed | None = None) -> None:
        self.now = 1000.0
        self.file = io.StringIO()
        console = Console(file=self.file, force_terminal=terminal, width=width, legacy_windows=False)
        self.budget = Budget(Limits(), earlier=before or Consumed())
        self.progress = Progress(console, clock=lambda: self.now)
        self.progress.stand(Standing("starting", self.budget))

    def stand(self, phase: str = "starting", **values: Any) -> None:
        self.progress.stand(Standing(phase, self.budget, **values))

    def spend(self, calls: int, *, usd: float | None = 0.0) -> None:
        for _ in range(calls):
            self.budget.admit(Usage(0, 0))
        self.budget.count(Usage(1000 * calls, 500 * calls, usd))

    def tick_after(self, seconds: float) -> str:
        """Return what a tick prints."""
        self.now += seconds
        before = len(self.file.getvalue())
        self.progress.tick()
        return self.file.getvalue()[before:]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def terminal() -> Iterator[World]:
    world = World(terminal=True)
    world.progress.begin(RUN)
    yield world
    world.progress.finish()


def test_without_a_terminal_a_line_comes_at_most_every_15_seconds(world: World) -> None:
    world.spend(10)
    printed = [world.tick_after(5.0) for _ in range(9)]
    assert [bool(line) for line in printed] == [False, False, True] * 3
    assert all(line.count("\n") <= 1 for line in printed)


def test_a_line_says_phase_trial_spend_best_and_time_left(world: World) -> None:
    world.stand("searching", trials=3, planned_trials=41, best=0.4167, calls_ahead=90_000)
    world.spend(10_000)
    assert world.tick_after(20.0) == (
        "searching · trial 3/41 · spent 10,000 calls, 15.0M tokens · best on validation 0.417 · ETA 3:00\n"
    )


def test_a_line_leaves_out_the_trials_of_a_phase_that_has_none(world: World) -> None:
    world.stand("sealed test on 24 users")
    assert (
        world.tick_after(15.0)
        == "sealed test on 24 users · spent 0 calls, 0.0M tokens · best on validation - · ETA -\n"
    )


@pytest.mark.parametrize(
    ("usd", "text"), [(0.0, "tokens ·"), (1.234, "tokens, $1.23 ·"), (None, "tokens, $ not known ·")]
)
def test_a_line_says_dollars_where_there_are_any(world: World, usd: float | None, text: str) -> None:
    world.spend(10, usd=usd)
    assert text in world.tick_after(15.0)


def test_the_time_left_does_not_count_what_an_earlier_part_of_the_run_has_spent() -> None:
    world = World(before=Consumed(calls=50_000))
    world.stand(calls_ahead=400)
    world.spend(100)
    assert "spent 50,100 calls" in (line := world.tick_after(20.0))
    assert "ETA 1:20" in line


@pytest.mark.parametrize(("spent", "ahead"), [(0, 100), (100, 0)])
def test_the_time_left_is_open_where_it_cannot_be_told(world: World, spent: int, ahead: int) -> None:
    world.stand(calls_ahead=ahead)
    world.spend(spent)
    assert world.tick_after(20.0).endswith("ETA -\n")


def test_the_next_phase_has_its_own_budget_and_its_own_speed(world: World) -> None:
    world.spend(10)
    world.tick_after(1000.0)
    world.budget = Budget(Limits(), earlier=Consumed(calls=10))
    world.stand("sealed test on 24 users", calls_ahead=300)
    world.spend(100)
    line = world.tick_after(20.0)
    assert line.startswith("sealed test on 24 users · ")
    assert "spent 110 calls, 0.1M tokens" in line
    assert "ETA 1:00" in line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0:00"), (0, "0:00"), (9.6, "0:10"), (59.6, "1:00"), (61, "1:01"), (3599.4, "59:59"), (3600, "1:00:00"),
     (36_061, "10:01:01")],
)  # fmt: skip
def test_a_duration_is_written_as_on_a_clock(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


def test_trials_stand_in_columns_under_their_heading(world: World, kit: Any) -> None:
    world.progress.trial(kit.trial())
    world.progress.trial(kit.trial(12, policy=None, decided_at="check", train={}, summary=None, reason="no slot"))
    heading, seed, starts, broken, no_slot = world.file.getvalue().splitlines()
    for word, told in {"trial": ("    0", "   12"), "train": (" 0.375", "     -")}.items():
        end = heading.index(word) + len(word)
        assert [line[:end][-len(text) :] for line, text in zip((seed, broken), told, strict=True)] == [*told]
    assert heading.index("what") == starts.index("where the search starts") == no_slot.index("no slot")
    assert "accepted" in seed
    assert "dropped" in broken


def test_a_trial_without_any_score_has_a_dash(world: World, kit: Any) -> None:
    world.progress.trial(kit.trial(1, train={"ann": math.nan}))
    assert "nan" not in world.file.getvalue()


def test_square_brackets_in_a_reason_are_no_markup(world: World, kit: Any) -> None:
    world.progress.trial(kit.trial(1, reason="+0.014 [-0.070, +0.098] [bold]loud[/bold] [/]"))
    assert "+0.014 [-0.070, +0.098] [bold]loud[/bold] [/]" in world.file.getvalue()


def test_without_a_terminal_there_are_no_control_codes_and_no_line_is_broken(kit: Any) -> None:
    world = World(width=40)
    world.progress.begin(RUN)
    world.progress.say("a long introduction " * 10)
    world.progress.trial(kit.trial(1, reason="a long reason " * 20))
    world.tick_after(15.0)
    world.progress.finish()
    told = world.file.getvalue()
    assert ESCAPE not in told
    assert "\r" not in told
    assert len(told.splitlines()) == 5
    assert ("a long reason " * 20).strip() in told


def test_on_a_terminal_a_live_line_shows_where_the_run_stands(terminal: World) -> None:
    terminal.stand("searching")
    terminal.spend(1234)
    terminal.progress._live.refresh()
    assert re.search(r"searching.*spent 1,234 calls", terminal.file.getvalue())


def test_on_a_terminal_ticks_print_nothing_themselves(terminal: World) -> None:
    terminal.progress._live.stop()
    assert terminal.tick_after(100.0) == ""


def test_the_live_line_is_gone_when_the_run_ends_and_the_trials_stay(kit: Any) -> None:
    world = World(terminal=True)
    world.progress.begin(RUN)
    world.progress.trial(kit.trial(1, reason="for the record"))
    world.progress.finish()
    left = screen(world.file.getvalue())
    assert "for the record" in left
    assert "spent" not in left


def test_the_live_line_is_gone_when_the_run_is_stopped_too() -> None:
    world = World(terminal=True)
    world.progress.begin(RUN)
    world.progress.abort()
    assert "spent" not in screen(world.file.getvalue())
    assert world.file.getvalue().rstrip().endswith(f"{ESCAPE}[2K") or f"{ESCAPE}[?25h" in world.file.getvalue()


def test_a_trial_says_of_which_trial_it_changed_what_and_a_long_change_is_cut(world: World, kit: Any) -> None:
    world.progress.trial(kit.trial(7, parent=4, change="numbers: top_k 9,\nroles user" + ", more" * 40))
    _, row, _ = world.file.getvalue().splitlines()
    assert "of trial 4: numbers: top_k 9, roles user, more" in row
    assert len(row) == WIDTH
    assert row.endswith("…")


def test_on_a_narrow_terminal_a_trial_takes_a_line_for_the_change_and_one_for_why(kit: Any) -> None:
    world = World(terminal=True, width=60)
    world.progress.trial(kit.trial(1, reason="a long reason " * 20))
    _, *lines = re.sub(rf"{ESCAPE}\[[0-9;?]*[A-Za-z]", "", world.file.getvalue()).splitlines()
    assert len(lines) == 2
    assert all(len(line) <= 60 for line in lines)
    assert lines[1].rstrip().endswith("…")


def screen(output: str) -> str:
    """Return what a terminal shows after ``output``; only the codes that rich's live line uses are understood."""
    lines, row, column = [""], 0, 0
    moves: dict[str, Callable[[int], int]] = {"A": lambda n: -n, "B": lambda n: n}
    for code, text in re.findall(rf"({ESCAPE}\[[0-9;?]*[A-Za-z]|\r|\n)|([^{ESCAPE}\r\n]+)", output):
        if text:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + text + line[column + len(text) :]
            column += len(text)
        elif code == "\r":
            column = 0
        elif code == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif code.endswith("K"):
            lines[row] = ""
        elif code[-1] in moves:
            row = max(0, row + moves[code[-1]](int(code[2:-1] or 1)))
    return "\n".join(lines)


def test_a_run_that_goes_on_says_once_what_its_best_policy_so_far_is(world: World, kit: Any) -> None:
    study = Study(None, name="evolution")
    study.append(kit.trial(validation={"ann": 0.2, "bob": 0.4}))
    world.progress.begin(Outcome(Path("run"), RUN.config, study))
    assert world.file.getvalue() == "", "the trials so far come first"
    world.stand("searching", trials=1, planned_trials=9)
    world.stand("searching", trials=1, planned_trials=9)
    best = study.best
    assert best.policy is not None
    (line,) = world.file.getvalue().splitlines()
    assert line == f"Goes on after 1 trial; the best so far is trial 0, {best.policy.label}, 0.300 on validation"

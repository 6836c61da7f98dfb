"""What is printed when a run ends."""

from __future__ import annotations

import math
import shlex
import shutil
import sys
from pathlib import Path

from rich.console import Console

from ...policies.files import WINDOW
from ...policies.lm.providers import model_named
from ...policies.lm.secrets import redacted
from ..search.outcome import Outcome
from ..search.place import is_at_work
from ..search.sealed import EVOLVED, SEED
from ..stores import default_uri
from .table import (
    acted_by,
    bound_notes,
    by_reader,
    print_table,
    reply_notes,
    say,
    score_table,
    signed,
    unscored_note,
    with_interval,
)


def how_to_go_on(folder: Path) -> str:
    """Say how a run goes on."""
    return f"`mnemotune evolve --resume {shlex.quote(str(folder))}` goes on"


def not_over(outcome: Outcome) -> list[str]:
    """Say what a search or a sealed test that was stopped lacks; nothing where both are over."""
    if outcome.ended is None:
        best = outcome.study.best.number if outcome.study.trials else 0
        so_far = f"trial {best}" if best else "the seed policy"
        return [f"The search is not over, and the best policy so far is {so_far}; {_going_on(outcome)}"]
    if outcome.untested and not outcome.test.rows:
        return [f"The search is over, and its sealed test is not; {_going_on(outcome)}"]
    if outcome.untested and not outcome.test.problem:
        lacking = ", ".join(outcome.untested)
        return [f"The sealed test is not over: {lacking} could not be tested yet; {_going_on(outcome)}"]
    return []


def _going_on(outcome: Outcome) -> str:
    at_work = is_at_work(outcome.folder, outcome.config.storage)
    return "a process is at work on it" if at_work else how_to_go_on(outcome.folder)


def show(outcome: Outcome) -> None:
    """Print the table of the sealed test, and where everything is."""
    console = Console()
    noun, groups = outcome.track.noun, outcome.config.splits.test
    console.print()
    source = f" of {outcome.sealed_source}" if outcome.sealed_source else ""
    whom = f"{groups} {noun}s{source} that the search never saw{acted_by(outcome.track)}"
    print_table(console, score_table(outcome.test.rows, title=f"Sealed test: {whom}"))
    console.print()
    best = outcome.test.best_baseline
    which = "the best baseline so far" if outcome.untested else "the best baseline here"
    others = {SEED: SEED, WINDOW: WINDOW} | ({} if best is None else {best: f"{best}, {which}"})
    for other, label in others.items():
        gain, reworded = (outcome.test.difference_from(other, reworded=way) for way in (False, True))
        if not math.isnan(gain.mean):
            also = "" if math.isnan(reworded.mean) else f"; reworded {with_interval(reworded)}"
            say(console, f"evolved - {label}: {with_interval(gain)}, paired by {noun}{also}")
    if outcome.config.search.aim.by_evidence:
        evident = outcome.test.most_evident_baseline
        for other in dict.fromkeys(filter(None, (SEED, evident))):
            gain = outcome.test.evidence_beyond(other)
            label = f"{other}, the best baseline in that" if other == evident else other
            if not math.isnan(gain.mean):
                say(console, f"evidence shown, evolved - {label}: {with_interval(gain)}, paired by {noun}")
    if best is not None and EVOLVED in outcome.test.rows:
        gains = by_reader(outcome.test.rows, EVOLVED, best)
        if gains:
            each = ", ".join(f"{reader} {signed(gain.mean)} ({gain.users})" for reader, gain in gains.items())
            whose = f"by reader, named after the model that it was fitted to ({noun}s)"
            say(console, f"evolved - {best} {whose}: {each}")
    say(console, *not_over(outcome), style="yellow")
    if outcome.ended is not None and outcome.study.trials and outcome.study.best.number == 0:
        say(console, "No candidate was accepted: the best policy is the seed policy.", style="yellow")
    say(console, *unscored_note(outcome.test.rows, outcome.track), style="yellow")
    say(console, *reply_notes(outcome.replies), style="yellow")
    say(console, *bound_notes(outcome.at_bounds, context_tokens=outcome.config.context_tokens), style="yellow")
    if outcome.test.problem:
        say(console, f"{outcome.test.problem}; {how_to_go_on(outcome.folder)}", style="yellow")
    if model_named(outcome.config.model).stand_in:
        model = outcome.config.model
        say(console, f"Scores are the {model} model's: they compare policies, not real language models.", style="dim")
    folder, uri = outcome.folder, outcome.tracking_uri
    places = {"run": folder, "policy": folder / "best_policy.yaml", "report": folder / "report.html"}
    there = {name: place for name, place in places.items() if place.exists()}
    for name, place in (there | ({} if uri is None else {"MLflow": ui_command(uri)})).items():
        say(console, f"{name:<7} {place}")
    if places["report"].is_file() and outcome.test.rows:
        say(
            console,
            "The report says what changed, why each candidate was kept or dropped, and which checks failed.",
        )


def ui_command(uri: str) -> str:
    """Return where to see the run in MLflow: a server's address, else what to type from here for this program."""
    if uri.startswith("http"):
        return redacted(uri)
    program = "mnemotune" if shutil.which("mnemotune") else sys.argv[0]
    return f"{program} ui" if uri == default_uri(Path("runs")) else f"{program} ui --uri {redacted(uri)}"

"""A bad night: what an endpoint that fails does to a run, and what the run says of it.

1. A run waits for an endpoint that answers nothing, and says so; its study is that of a night without an outage.
2. When that takes too long it ends with exit code 75 and the command that goes on, and has written down nothing false.
3. A sealed test that lost a user stays open, says who is missing and why, and is finished by going on.
"""

from __future__ import annotations

import io
import logging
import re
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from mnemotune.env.dialogue.track import scenario_of
from mnemotune.experiments.reliability.faults import FaultProxy, in_thread
from mnemotune.optimizer.config import load_config
from mnemotune.optimizer.search.allowance import splits_of
from mnemotune.optimizer.search.outcome import open_run

Table = dict[str, Any]


def told_of(done: Any) -> Table:
    """Return what a run found, without what it took."""
    rows = ("seed_policy", "best_policy")
    return {name: done.json[name]["by_group"] for name in rows} | {"trials": done.json["trials"]}


@pytest.fixture
def clean(cli: Any, remote: Path) -> Table:
    return told_of(cli("evolve", remote, "--out", "clean", "--json").succeeded())


class GoesDown:
    """A plan of a proxy that goes down at a request, for some seconds."""

    def __init__(self, at: int, *, seconds: float) -> None:
        self.proxy: FaultProxy | None = None
        self._at = at
        self._seconds = seconds
        self._until = 0.0

    def __call__(self, number: int, _body: bytes) -> Any:
        if number == self._at:
            self._until = time.monotonic() + self._seconds
        return "reset" if time.monotonic() < self._until else None


def test_a_run_waits_for_an_endpoint_that_is_gone_for_a_while_invariant_1(
    cli: Any, remote: Path, server: Any, clean: Table
) -> None:
    with in_thread(FaultProxy(server.url, GoesDown(100, seconds=2))) as url:
        done = cli("evolve", remote, "--out", "run", "--set", f"endpoint.base_url={url}", "--json").succeeded()
    assert told_of(done) == clean
    assert "No call gets through: paused at " in done.err
    assert "calls get through again after " in done.err


def test_a_run_that_waits_in_vain_ends_with_the_command_that_goes_on_invariant_2(
    cli: Any, remote: Path, server: Any, clean: Table
) -> None:
    proxy = FaultProxy(server.url, lambda number, _: "closed" if number >= 40 else None)
    with in_thread(proxy) as url:
        there = f"endpoint.base_url={url}"
        short = "endpoint.longest_outage_seconds=1"
        done = cli("evolve", remote, "--out", "run", "--set", there, "--set", short, "--json")
        assert (done.code, done.out) == (75, "")
        assert "Traceback" not in done.err
        assert "no call got through for 1 s, since " in done.err
        assert "`mnemotune evolve --resume run` goes on" in done.err
        assert open_run(Path("run")).study.trials == ()
        proxy.plan = lambda _number, _body: None
        assert told_of(cli("evolve", "--resume", "run", "--json").succeeded()) == clean


def test_a_sealed_test_that_lost_a_user_stays_open_until_it_is_finished_invariant_3(
    cli: Any, remote: Path, server: Any, clean: Table
) -> None:
    lost = splits_of(load_config(remote)).test[0]
    openings = [session.query for period in scenario_of(lost.tasks[0]).periods for session in period.sessions]
    server.whim = lambda role, text: (500, "no luck") if role == "reply" and openings[0] in text else None
    done = cli("evolve", remote, "--out", "run", "--json")
    assert done.code == 1
    assert f"evolved: user {lost.id} was lost: " in done.json["problem"]
    assert "no luck" in done.json["problem"]
    assert lost.id not in done.json["best_policy"]["by_group"]
    shown = cli("evolve", "--resume", "run")
    assert shown.code == 1
    assert f"user {lost.id} was lost: " in shown.out
    assert "`mnemotune evolve --resume run` goes on" in shown.out

    server.whim = lambda role, text: None
    healed = cli("evolve", "--resume", "run", "--json").succeeded()
    assert told_of(healed) == clean
    assert healed.json["problem"] is None


def test_what_is_said_of_an_outage_comes_above_the_live_line_invariant_1(cli: Any) -> None:
    cli("evolve", "no-such-config").refused()  # from here on remarks are shown
    screen = io.StringIO()
    with Live("12 of 40 episodes", console=Console(file=screen, force_terminal=True, width=80)):
        logging.getLogger("mnemotune.policies.lm.outage").warning("here: paused")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n").split("\n")
    assert any(re.fullmatch(r"\d\d:\d\d:\d\d here: paused", line.strip()) for line in lines)

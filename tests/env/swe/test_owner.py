"""A process is told from all others, also from later ones of its number."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from mnemotune.env.swe.owner import is_gone, owner


def test_a_process_that_runs_is_not_gone_and_one_that_has_ended_is() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        label = owner(process.pid)
        assert not is_gone(label)
        process.kill()
        until = time.monotonic() + 10
        while not is_gone(label) and time.monotonic() < until:  # nobody has asked yet how it ended
            time.sleep(0.01)
        assert is_gone(label)
        process.wait()
        assert is_gone(label)
    assert not is_gone(owner())


def test_another_process_of_the_same_number_is_another_owner() -> None:
    *machine, number, began = owner().split()
    assert number == str(os.getpid())
    assert is_gone(" ".join([*machine, number, str(int(began) - 1)]))


def test_nothing_is_said_of_other_machines_and_of_labels_that_are_none() -> None:
    _, *rest = owner().split()
    assert not is_gone(" ".join(["another-boot", *rest]))
    assert not any(is_gone(label) for label in ("", "x", "a b c d", " ".join(rest)))

"""Whose a container is: so that what a process has left behind can be told from what another one uses."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

ENDED = "ZX"
"""States of a process that has ended, though nobody has asked how."""


def owner(process: int | None = None) -> str:
    """Return what tells a process, by default this one, from all others of all times; empty where it is gone."""
    number = os.getpid() if process is None else process
    with suppress(OSError):
        state, *known = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        if state not in ENDED:
            return f"{_machine()} {number} {known[18]}"
    return ""


def is_gone(label: str) -> bool:
    """Tell whether the process of an owner's label has ended. False where that cannot be seen from here."""
    machine, _, process = label.rpartition(" ")[0].rpartition(" ")
    return machine == _machine() and process.isdecimal() and owner(int(process)) != label


def _machine() -> str:
    """Return what tells this boot of this machine from others; processes see those of the same namespace alone."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return ""

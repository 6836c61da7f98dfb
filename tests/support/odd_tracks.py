"""Tracks that other processes can import, and that tell of the process that they are in."""

from __future__ import annotations

import os
import signal
from typing import Any

from mnemotune.env import DialogueTrack
from mnemotune.env.episode import RecordError


class Deadly(DialogueTrack):
    """Kills the process that is to play."""

    def begin(self, *_: Any, **__: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


class Masked(DialogueTrack):
    """Says which signals its process holds back."""

    def begin(self, *_: Any, **__: Any) -> Any:
        raise RecordError(f"held: {sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))}")

"""Commands beside an experiment: each ends when the experiment does, however that ends.

A command's standard input is a pipe from the experiment, which the system closes when nothing else does.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import threading
from typing import Any


def start(module: str, *arguments: str, **streams: Any) -> subprocess.Popen[Any]:
    """Run a module in a process of its own; ``streams`` are those of ``Popen``."""
    command = [sys.executable, "-m", __name__, module, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, **streams)


def main() -> None:
    """Run the module that the first argument names, with the others."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()

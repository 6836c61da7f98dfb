"""A shell in a container that runs one command after another, and lets none of them outlive its turn."""

from __future__ import annotations

import re
import secrets
from typing import Any

from ..outside import OutsideFault
from .observation import KILLED

# Reads, on a line: what to end with, seconds, bytes, seconds again, and a command. Runs the command for so many seconds
# at most; so many bytes of its output are passed on. What it has started ends with it: its own
# group, and all that is in no group of this shell's or the container's first process. What holds on to the output all
# the same is ended, this shell included, after the second number of seconds. Published images have Python in conda.
SERVE = r"""exec 2>/dev/null 3>&1
[ ! -d /opt/miniconda3/envs/testbed/bin ] || export PATH="/opt/miniconda3/envs/testbed/bin:$PATH"
own=$(grep '^NSpgid:' "/proc/$$/status")
first=$(grep '^NSpgid:' /proc/1/status)
others() { [ ! "$own" ] || grep -LFx -e "$own" -e "$first" /proc/[0-9]*/status; }
while read -r end seconds bytes last command; do
  command=$(printf %b. "$command")
  command=${command%.}
  { sleep "$last"; kill -s KILL -- -1; } </dev/null >/dev/null 3>&- &
  status=$( {
    { timeout -s KILL "$seconds" sh -c "$command" </dev/null 2>&1 3>&- 4>&- &
      wait $!; echo $? >&4; kill -s KILL -- -$!
      while left=$(others); [ "$left" ]; do
        for other in $left; do other=${other#/proc/}; kill -s KILL "${other%/status}"; done
      done; } | head -c "$bytes" >&3
  } 4>&1 )
  kill -s KILL -- -1
  wait
  printf '\n%s %s\n' "$end" "$status"
done
"""


LONGEST_END = 60
"""Bytes of the line that tells a command's status, at most."""
TRIES = 5
"""How often another shell is started: the signal that ends all others may reach the first one late."""


class Shell:
    """A shell that waits for commands. Its methods wait for the engine: call them in a thread."""

    def __init__(self, api: Any, container: str) -> None:
        """Start it in a container that runs."""
        self._api, self._container = api, container
        self._open()

    def run(self, command: str, *, seconds: int, most: int) -> tuple[bytes, int]:
        """Run a command; return ``most`` bytes of its output, and its exit status.

        Raises OutsideFault where the container has ended.
        """
        end = secrets.token_hex(16)  # no command can know how its output ends
        line = f"{end} {seconds} {most} {seconds + 2} {_encoded(command)}\n"
        if not self._send(line):
            self._again()
            self._send(line)
        output, status = self._read(end, most)
        if status is None:
            self._again()
            return b"", KILLED  # how much of the output came through is chance
        return output, status

    def close(self) -> None:
        """Let go of it."""
        self._response.close()
        self._socket.close()

    def _open(self) -> None:
        words = ["sh", "-c", SERVE]
        made = self._api.exec_create(self._container, words, stdin=True, stderr=False)["Id"]
        self._socket = self._api.exec_start(made, socket=True)
        self._response = getattr(self._socket, "_response", self._socket)  # the library's, which holds the connection

    def _send(self, line: str) -> bool:
        """Tell whether a line has gone to the shell."""
        try:
            getattr(self._socket, "_sock", self._socket).sendall(line.encode())
        except (OSError, AttributeError):  # AttributeError: it was closed
            return False
        return True

    def _read(self, end: str, most: int) -> tuple[bytes, int | None]:
        """Return what comes before the end of a command's output, and the status there.

        The status is None where the shell has ended, or what was to tell the status.
        """
        from docker.utils.socket import frames_iter

        output, tail, total = bytearray(), b"", 0
        last = re.compile(rb"\n%s (\d*)\n\Z" % end.encode())
        for _, piece in frames_iter(self._socket, tty=False):
            output += piece[: most + LONGEST_END - len(output)]
            tail, total = (tail + piece)[-LONGEST_END:], total + len(piece)
            if found := last.search(tail):
                before = total - len(tail) + found.start()
                return bytes(output[: min(before, most)]), int(found[1]) if found[1] else None
        return bytes(output[:most]), None

    def _again(self) -> None:
        """Start another one, where a command has ended this one. Raises OutsideFault where it was the container.

        The container's first process ends all others before: they may be as many as there may be.
        """
        for _ in range(TRIES):
            self.close()
            self._api.kill(self._container, "SIGUSR1")
            self._open()
            end = secrets.token_hex(16)
            if self._send(f"{end} 10 1 12 :\n") and self._read(end, 0) == (b"", 0):
                return
        raise OutsideFault(f"container {self._container[:12]} has ended")


def _encoded(command: str) -> str:
    """Return a command as ``printf %b`` reads it, on one line."""
    raw = command.encode("utf-8", "replace").replace(b"\0", b"")
    return re.sub(rb"[^A-Za-z0-9_./-]", lambda match: b"\\0%03o" % match[0][0], raw).decode("ascii")

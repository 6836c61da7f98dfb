"""Requests as text, and what was committed of them: a change of a prompt's text is seen.

``SNAPSHOTS=write pytest -k committed`` writes all of them anew: look at the difference first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from mnemotune.policies.lm import Request


def longest(requests: Iterable[tuple[str, Request]]) -> dict[str, Request]:
    """Return the longest request of each kind, whenever it came."""
    found: dict[str, Request] = {}
    for kind, request in requests:
        if kind not in found or _size(request) > _size(found[kind]):
            found[kind] = request
    return found


def assert_committed(requests: Mapping[str, Request], file: Path) -> None:
    """Check that the requests, by kind, are those of the file."""
    parts = []
    for kind, request in sorted(requests.items()):
        parts.append(f"##### {kind}" + ("" if request.form is None else f" (form {request.form.name})"))
        parts += [f"--- {message.role}\n{message.content}" for message in request.messages]
    text = "\n".join(parts) + "\n"
    if os.environ.get("SNAPSHOTS") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def _size(request: Request) -> tuple[int, str]:
    text = "".join(message.content for message in request.messages)
    return len(text), text

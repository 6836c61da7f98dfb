"""A deterministic OpenAI-compatible server: what it says depends on the messages alone, after a set latency.

python -m mnemotune.experiments.amemgym.server PORT [--latency SECONDS] [--record FILE] [--length CHARACTERS]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_CHOICE = re.compile(r"^(\d+): ", re.MULTILINE)
_SCHEMA_START = re.compile(r'"(\w+)": \[')
LABELS = 12


def answer(messages: list[dict[str, str]]) -> str:
    """Return what the server says: a choice, values for a schema, an update of a profile, or a sentence.

    Some choices are unreadable, and some are 0, which AMemGym takes for the last one.
    """
    prompt = messages[-1]["content"]
    draw = _draw(json.dumps(messages))
    if '"new_types"' in prompt or '"new_prompt"' in prompt:
        return _rewritten(prompt, draw)
    choices = _CHOICE.findall(prompt)
    if choices and '"answer"' in prompt:
        if draw % 17 == 0:
            return "I would rather not say."
        number = 0 if draw % 19 == 0 else 1 + draw % len(choices)
        return f'```json\n{{"answer": {number}}}\n```'
    if _is_probe(prompt):
        return f"```json\n{json.dumps(_values(prompt, draw))}\n```"
    if '"role": "user"' in prompt:
        return json.dumps({f"label_{(draw >> shift) % LABELS}": f"note {draw >> shift} {{x}}" for shift in (0, 7, 13)})
    return f"Sentence {draw}."


def _rewritten(prompt: str, draw: int) -> str:
    """Rewrite a prompt; now and then slots go missing, and braces turn up."""
    if '"new_types"' in prompt:
        reply = {"new_types": f"1. Type {draw}\n2. Type {draw >> 7}", "changes": ["all of it"]}
    else:
        parts = [f"Note {draw}.", "Known: {current_memories}", "Said: {conversation}", 'JSON like {"a": "b"} or {}.']
        kept = [part for i, part in enumerate(parts) if i == 0 or draw >> i & 3]
        reply = {"new_prompt": "\n".join(kept), "changes": ["some"]}
    return f"Here it is:\n```json\n{json.dumps(reply)}\n```"


def _draw(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def _is_probe(prompt: str) -> bool:
    return bool(_SCHEMA_START.search(prompt)) and "```json" in prompt


def _values(prompt: str, draw: int) -> dict[str, str]:
    """Choose for each key of the schema; a few keys go missing."""
    values = {}
    for match in _SCHEMA_START.finditer(prompt):
        options = re.findall(r'"([^"]*)"', prompt[match.end() : prompt.index("]", match.end())])
        choice = _draw(f"{draw} {match[1]}")
        if choice % 11:
            values[match[1]] = options[choice % len(options)]
    return values


class _Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive; nothing but what chat completions need, so that it costs next to nothing."""

    def __init__(self, latency: float, record: TextIO | None, length: int) -> None:
        self.latency = latency
        self.record = record
        self.length = length
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].decode("latin-1").lower()
            length = re.search(r"\r\ncontent-length: *(\d+)", head)
            size = int(length[1]) if length else 0
            if len(self.buffer) < end + 4 + size:
                return
            body, self.buffer = self.buffer[end + 4 : end + 4 + size], self.buffer[end + 4 + size :]
            role = re.search(r"\r\nx-mnemotune-role: *(\w+)", head)
            asyncio.get_running_loop().call_later(self.latency, self.reply, body, role[1] if role else "")

    def reply(self, body: bytes, role: str) -> None:
        request = json.loads(body)
        if self.record is not None:
            self.record.write(json.dumps({"role": role, "body": request}) + "\n")
            self.record.flush()
        text = answer(request["messages"]).ljust(self.length if role == "reply" else 0, ".")
        completion: dict[str, Any] = {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
        reply = json.dumps(completion).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(reply)}\r\n\r\n"
        if not self.transport.is_closing():
            self.transport.write(head.encode() + reply)


@contextmanager
def running(port: int, *options: str) -> Iterator[str]:
    """Run the server in a process of its own; return its URL."""
    command = [sys.executable, "-m", "mnemotune.experiments.amemgym.server", str(port), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        if server.stdout is not None:
            server.stdout.readline()
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()


async def serve(port: int, latency: float, record: TextIO | None, length: int) -> None:
    """Serve until the process ends; says so on standard output once it listens."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(latency, record, length), "127.0.0.1", port)
    print(f"listening on {port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds")
    parser.add_argument("--record", type=argparse.FileType("a", encoding="utf-8"), help="a file for what is asked")
    parser.add_argument("--length", type=int, default=0, help="characters of a reply to the user")
    given = parser.parse_args()
    asyncio.run(serve(given.port, given.latency, given.record, given.length))

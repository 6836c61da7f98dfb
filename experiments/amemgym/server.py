"""A deterministic OpenAI-compatible server: what it says depends on the messages alone, after a set latency.

python -m mnemotune.experiments.amemgym.server PORT [--latency SECONDS] [--record FILE] [--length CHARACTERS]
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Annotated, Any, TextIO

import typer

from ..child import start
from ..command import run

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
    if _SCHEMA_START.search(prompt) and "```json" in prompt:
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


def _values(prompt: str, draw: int) -> dict[str, str]:
    """Choose for each key of the schema; a few keys go missing."""
    values = {}
    for match in _SCHEMA_START.finditer(prompt):
        options = re.findall(r'"([^"]*)"', prompt[match.end() : prompt.index("]", match.end())])
        choice = _draw(f"{draw} {match[1]}")
        if choice % 11:
            values[match[1]] = options[choice % len(options)]
    return values


async def respond(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, latency: float, record: TextIO | None, length: int
) -> None:
    """Answer a connection's requests; HTTP/1.1 with nothing but what chat completions need costs next to nothing."""
    with suppress(asyncio.IncompleteReadError, ConnectionError), closing(writer):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            fields = dict(re.findall(r"\r\n(content-length|x-mnemotune-role): *(\w+)", head))
            request = json.loads(await reader.readexactly(int(fields.get("content-length", 0))))
            role = fields.get("x-mnemotune-role", "")
            await asyncio.sleep(latency)
            if record is not None:
                print(json.dumps({"role": role, "body": request}), file=record, flush=True)
            text = answer(request["messages"]).ljust(length if role == "reply" else 0, ".")
            message = {"role": "assistant", "content": text}
            completion: dict[str, Any] = {
                "id": "x",
                "object": "chat.completion",
                "created": 0,
                "model": request["model"],
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            }
            body = json.dumps(completion).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)


@contextmanager
def running(port: int, *options: str) -> Iterator[str]:
    """Run the server in a process of its own; return its URL."""
    with start(__name__, str(port), *options, stdout=subprocess.PIPE) as server:
        if server.stdout is not None:
            server.stdout.readline()
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()


async def serve(port: int, **behaviour: Any) -> None:
    """Serve until the process ends; says so on standard output once it listens."""
    server = await asyncio.start_server(partial(respond, **behaviour), "127.0.0.1", port)
    print(f"listening on {port}", flush=True)
    await server.serve_forever()


def main(
    port: int,
    latency: Annotated[float, typer.Option(help="Seconds.")] = 0.0,
    record: Annotated[typer.FileTextWrite | None, typer.Option(mode="a", help="A file for what is asked.")] = None,
    length: Annotated[int, typer.Option(help="Characters of a reply to the user.")] = 0,
) -> None:
    """Serve until the process ends."""
    asyncio.run(serve(port, latency=latency, record=record, length=length))


if __name__ == "__main__":
    run(main)

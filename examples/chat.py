"""Chat in the terminal with an assistant that remembers, also from one start to the next.

Without --model the embedded model answers, which is a reader and no language model: it shows what memory does, and
converses badly.

    python examples/chat.py
    python examples/chat.py --policy runs/quickstart-001/best_policy.yaml --model my-model --url http://localhost:8000/v1
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from mnemotune import (
    Assistant,
    EmbeddedModel,
    Memory,
    OpenAIModel,
    load_memory,
    load_policy,
    open_embedder,
    open_memory,
    save_memory,
)

HELP = "/memories shows what is remembered, /forget WORD removes what has the word, an empty line ends"


async def chat(assistant: Assistant, memory: Memory, kept: Path) -> None:
    """Talk until an empty line; what is remembered is kept in a file."""
    if kept.is_file():
        await load_memory(memory, kept)
    print(f"{len(await memory.listing())} memories; {HELP}")
    while message := (await asyncio.to_thread(read_line)).strip():
        command, _, word = message.partition(" ")
        if command == "/memories":
            print("\n".join(f"- {item.text}" for item in await memory.listing()) or "nothing yet")
        elif command == "/forget" and word:
            gone = await memory.forget(lambda text, word=word: word.lower() in text.lower())
            print(f"{gone} forgotten")
        else:
            reply, writes = await assistant.reply(message)
            print(f"assistant: {reply}")
            for write in writes:
                print("".join(f"  [noted: {line}]\n" for line in write.after if line not in write.before), end="")
        await save_memory(memory, kept)


def read_line() -> str:
    """Return the next message; nothing at the end of the input."""
    try:
        return input("you: ")
    except EOFError:
        return ""


async def main() -> None:
    """Make the assistant and talk."""
    parser = argparse.ArgumentParser(description="Chat with an assistant that remembers.")
    parser.add_argument("--policy", default="awe", help="a preset or a policy file")
    parser.add_argument("--model", help="a model's name; without it the embedded model answers")
    parser.add_argument("--url", help="an OpenAI-compatible endpoint; else OPENAI_BASE_URL")
    parser.add_argument("--embedder", default="lexical:1024", help="take the one in the run's deployment.yaml")
    parser.add_argument("--context-tokens", type=int, default=1000, help="most that memory shows in a call")
    parser.add_argument("--keep", type=Path, default=Path("chat.json"), help="the file of what is remembered")
    given = parser.parse_args()

    model = OpenAIModel(given.model, base_url=given.url) if given.model else EmbeddedModel()
    memory = open_memory(load_policy(given.policy), model, open_embedder(given.embedder))
    try:
        await chat(Assistant(model, memory, context_tokens=given.context_tokens), memory, given.keep)
    finally:
        await model.aclose()


if __name__ == "__main__":
    asyncio.run(main())

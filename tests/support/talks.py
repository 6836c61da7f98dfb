"""Rows in the shapes of LoCoMo and LongMemEval, and lines of chat, with texts of our own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mnemotune.data.conversations.importing import Import, import_benchmark
from mnemotune.data.conversations.omissions import Omissions
from mnemotune.policies.lm import Completion, Request
from mnemotune.policies.lm.base import Wrapper
from mnemotune.policies.lm.embedded import EmbeddedModel

LOCOMO: dict[str, Any] = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Bo",
        "session_2_date_time": "9:30 am on 2 June, 2023",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_10_date_time": "8:00 pm on 3 July, 2023",
        "session_11_date_time": "8:00 pm on 4 July, 2023",
        "session_10": [
            {"speaker": "Bo", "dia_id": "D10:1", "text": "My violin was stolen in Lisbon.", "blip_caption": "a case"},
            {"speaker": "Ada", "dia_id": "D10:2", "text": "Oh no, how dreadful!"},
        ],
        "session_1": [{"speaker": "Ada", "dia_id": "D1:1", "text": "I adopted a grey parrot named Figaro."}],
        "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "The bakery gave me the morning shift."}],
    },
    "qa": [
        {"question": "Which pet has Ada?", "answer": "a grey parrot", "evidence": ["D1:1"], "category": 4},
        {"question": "Who lost what?", "answer": "Bo a violin", "evidence": ["D10:1; D1:1"], "category": 1},
        {"question": "In which year was it stolen?", "answer": 2023, "evidence": ["D10:1"], "category": 2},
        {"question": "When did Cy sing?", "adversarial_answer": "never", "evidence": ["D2:1"], "category": 5},
        {"question": "What is unknown?", "answer": "?", "evidence": [], "category": 3},
        {"question": "What is lost?", "answer": "?", "evidence": ["D99:1"], "category": 3},
    ],
}

LONGMEMEVAL: dict[str, Any] = {
    "question_id": "gpt4_7",
    "question_type": "knowledge-update",
    "question": "Where do I keep my ladder?",
    "answer": "in the cellar",
    "question_date": "2023/06/30 (Fri) 23:40",
    "haystack_session_ids": ["answer_2", "filler_1", "answer_1"],
    "haystack_dates": ["2023/05/30 (Tue) 10:00", "2023/05/21 (Sun) 09:00", "2023/05/20 (Sat) 02:21"],
    "haystack_sessions": [
        [
            {"role": "user", "content": "I moved the ladder from the shed to the cellar.", "has_answer": True},
            {"role": "assistant", "content": "A dry place for it."},
        ],
        [{"role": "user", "content": "Tell me about glaciers."}, {"role": "assistant", "content": "They move slowly."}],
        [{"role": "user", "content": "I keep my ladder in the shed.", "has_answer": True}],
    ],
    "answer_session_ids": ["answer_1", "answer_2"],
}
ABSTAINS = LONGMEMEVAL | {
    "question_id": "gpt4_7_abs",
    "question": "Where do I keep my canoe?",
    "answer": "You never said.",
}


def written(path: Path, rows: Iterable[Any]) -> Path:
    """Write rows as JSON lines, or as one list where the file's name says so; a text is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    text = f"[{', '.join(lines)}]" if path.suffix == ".json" else "".join(f"{line}\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return path


def two_histories(folder: Path) -> Path:
    """Write a file of two LoCoMo conversations for the track."""
    rows = [LOCOMO, LOCOMO | {"sample_id": "conv-2"}]
    out = folder / "histories.jsonl"
    import_benchmark("locomo", written(folder / "locomo.json", rows), Import(out, Omissions()))
    return out


def on_the_first_thing(excerpt: str) -> str:
    """Make a question on the first message that says where something stands; say so where none does."""
    match = re.search(r"^(\d+)\. .*?My (\w+) stands in (room \d+)", excerpt, re.MULTILINE)
    if match is None:
        return "Nothing stands anywhere."
    number, thing, place = match.groups()
    return json.dumps({"question": f"Where is my {thing}?", "answer": place, "evidence": [int(number)]})


class Maker(Wrapper):
    """Makes questions as it is told to, from what it is shown; the embedded model answers everything else."""

    name = "maker"

    def __init__(self, make: Callable[[str], str] = on_the_first_thing) -> None:
        super().__init__(EmbeddedModel())
        self.make = make
        self.calls = 0

    async def complete(self, request: Request) -> Completion:
        self.calls += 1
        reply = await self.model.complete(request)
        prompt = request.messages[-1].content
        if "Make one question" not in prompt:
            return reply
        return Completion(self.make(prompt.split("\n\n")[0]), reply.usage)

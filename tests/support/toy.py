"""A track in sixty lines: letters tell where things are kept, and checks ask for it at the end of each letter."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from mnemotune.data.task import Check, Fact, TaskError
from mnemotune.env.episode import Mark
from mnemotune.env.reading import ReadingTrack
from mnemotune.policies.lm import Completion, LanguageModel, Message, Request
from mnemotune.policies.lm.base import Wrapper
from mnemotune.policies.prompts import Templates, render
from mnemotune.policies.replies import ReplyError, read_json_object

PLACES = ("attic", "cellar", "garage", "kitchen")
THINGS = ("lantern", "ladder", "violin", "tent", "kettle", "globe")


@dataclass(frozen=True)
class Letters:
    id: str
    group: str
    stages: int

    @cached_property
    def facts(self) -> Mapping[str, Fact]:
        texts = {t: f"I keep my {t} in the {random.Random(self.id + t).choice(PLACES)}." for t in THINGS[: self.stages]}
        return {t: Fact(t, t, "things", text, s, sources=(text,)) for s, (t, text) in enumerate(texts.items())}

    @cached_property
    def checks(self) -> Mapping[str, Check]:
        asked = [(s, thing) for s in range(self.stages) for thing in THINGS[: s + 1]]
        return {f"{s}.{t}": Check(f"{s}.{t}", t, s, (t,), 0.25, f"Where do I keep my {t}?") for s, t in asked}


class LettersTrack(ReadingTrack[Letters]):
    name, noun, stage_noun = "letters", "writer", "letter"

    def __init__(self, templates: Templates) -> None:
        self.templates = templates

    def load(self, source: str, *, groups: Collection[str] | None = None) -> Sequence[Letters]:
        _, count, stages = source.split(":")
        tasks = [Letters(f"letters-{i}", f"writer-{i // 2}", int(stages)) for i in range(2 * int(count))]
        for unknown in sorted(set(groups or ()) - {task.group for task in tasks}):
            raise TaskError(f"{source}: no writer {unknown}")
        return [task for task in tasks if groups is None or task.group in groups]

    def heard(self, task: Letters, stage: int) -> Sequence[tuple[Message, ...]]:
        return [(Message("user", task.facts[THINGS[stage]].text), Message("assistant", "Thank you for your letter."))]

    def query(self, task: Letters, check: Check) -> str:
        choices = "\n".join(f"{i}: In the {place}." for i, place in enumerate(PLACES, 1))
        return render(self.templates.answer, query=check.text, choices=choices)

    def mark(self, task: Letters, check: Check, raw: str) -> Mark:
        try:
            place = PLACES[int(read_json_object(raw)["answer"]) - 1]
        except (ReplyError, LookupError, TypeError, ValueError):
            return Mark(check.id, raw, 0.0, readable=False)
        return Mark(check.id, raw, float(f"the {place}." in task.facts[check.needs[0]].text))


class Closing(Wrapper):
    """A model that leaves a file in a folder when it is closed."""

    def __init__(self, model: LanguageModel, folder: Path) -> None:
        super().__init__(model)
        self.folder = folder

    async def complete(self, request: Request) -> Completion:
        return await self.model.complete(request)

    async def aclose(self) -> None:
        (self.folder / uuid4().hex).touch()
        await super().aclose()


def make(templates: Templates, options: Mapping[str, Any]) -> LettersTrack:
    return LettersTrack(templates)

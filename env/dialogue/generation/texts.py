"""The texts by which a language model is asked for new users."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError, model_validator

from ....data.record import Record
from ....data.resources import resource

REQUIRED_SLOTS: Mapping[str, tuple[str, ...]] = {
    "profile": ("persona",),
    "questions": ("profile", "questions", "states", "choices"),
    "merge_schema": ("questions",),
    "unify_choices": ("types", "choices"),
    "initial_state": ("profile", "schema"),
    "update": ("schema", "state", "counts", "changes", "most"),
    "events": ("updates",),
    "answers": ("question", "variants"),
    "check_answer": ("question", "state", "choices"),
    "refine_answer": ("question", "answer", "state", "others", "problem"),
    "first_queries": ("state", "schema", "most"),
    "update_queries": ("events", "schema"),
    "check_query": ("query", "schema"),
    "refine_query": ("query", "state", "schema", "problem"),
    "repair": ("problems",),
}
OPTIONAL_SLOTS: Mapping[str, tuple[str, ...]] = {
    "profile": ("language",),
    "questions": ("start_date", "language"),
    "initial_state": ("start_date",),
    "update": ("profile", "history", "period_start", "period_end", "language"),
    "events": ("profile", "summary", "period_start", "period_end", "language"),
    "answers": ("language",),
    "refine_answer": ("language",),
    "first_queries": ("profile", "start_date", "language"),
    "update_queries": ("profile", "period_start", "period_end", "language"),
    "refine_query": ("language",),
}


class GenerationTexts(Record):
    """What each stage of a generation asks; slots are checked when the texts are made."""

    profile: str
    questions: str
    merge_schema: str
    unify_choices: str
    initial_state: str
    update: str
    events: str
    answers: str
    check_answer: str
    refine_answer: str
    first_queries: str
    update_queries: str
    check_query: str
    refine_query: str
    repair: str

    @model_validator(mode="after")
    def _check_slots(self) -> GenerationTexts:
        for kind, slots in REQUIRED_SLOTS.items():
            missing = [f"{{{slot}}}" for slot in slots if f"{{{slot}}}" not in getattr(self, kind)]
            if missing:
                raise ValueError(f"{kind}: lacks {', '.join(missing)}")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of all texts."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()


@cache
def default_texts() -> GenerationTexts:
    """Return the bundled texts."""
    text = resource("configs", "templates", "generation.yaml").read_text(encoding="utf-8")
    return GenerationTexts.model_validate(yaml.safe_load(text))


def load_texts(path: Path) -> GenerationTexts:
    """Read a set of texts from a YAML file; kinds that it leaves out are the bundled ones.

    Raises ValueError naming the file and the text.
    """
    try:
        return GenerationTexts.model_validate(complete_texts(yaml.safe_load(path.read_text(encoding="utf-8")) or {}))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 text ({error})") from None
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, e['loc'])) or 'texts'}: {e['msg']}" for e in error.errors())
        raise ValueError(f"{path}: {'; '.join(problems)}") from None
    except (yaml.YAMLError, TypeError) as error:
        raise ValueError(f"{path}: must be a mapping of names to texts: {error}") from None


def complete_texts(given: Any) -> Any:
    """Add the bundled texts to those of a mapping by kind."""
    return {**default_texts().model_dump(), **given} if isinstance(given, Mapping) else given

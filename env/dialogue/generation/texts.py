"""The texts by which a language model is asked for new users."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from ....policies.prompts import TextSet

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


class GenerationTexts(TextSet):
    """What each stage of a generation asks."""

    bundle = "generation.yaml"
    required_slots = REQUIRED_SLOTS

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

    @property
    def digest(self) -> str:
        """SHA-256 of all texts."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()


def default_texts() -> GenerationTexts:
    """Return the bundled texts."""
    return GenerationTexts.bundled()

"""The texts by which a language model is asked for new users."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated

from ....policies.prompts import Slots, TextSet


class GenerationTexts(TextSet):
    """What each stage of a generation asks."""

    bundle = "generation.yaml"

    profile: Annotated[str, Slots(("persona",), ("language",))]
    questions: Annotated[str, Slots(("profile", "questions", "states", "choices"), ("start_date", "language"))]
    merge_schema: Annotated[str, Slots(("questions",))]
    unify_choices: Annotated[str, Slots(("types", "choices"))]
    initial_state: Annotated[str, Slots(("profile", "schema"), ("start_date",))]
    update: Annotated[
        str,
        Slots(
            ("schema", "state", "counts", "changes", "most"),
            ("profile", "history", "period_start", "period_end", "language"),
        ),
    ]
    events: Annotated[str, Slots(("updates",), ("profile", "summary", "period_start", "period_end", "language"))]
    answers: Annotated[str, Slots(("question", "variants"), ("language",))]
    check_answer: Annotated[str, Slots(("question", "state", "choices"))]
    refine_answer: Annotated[str, Slots(("question", "answer", "state", "others", "problem"), ("language",))]
    first_queries: Annotated[str, Slots(("state", "schema", "most"), ("profile", "start_date", "language"))]
    update_queries: Annotated[str, Slots(("events", "schema"), ("profile", "period_start", "period_end", "language"))]
    check_query: Annotated[str, Slots(("query", "schema"))]
    refine_query: Annotated[str, Slots(("query", "state", "schema", "problem"), ("language",))]
    repair: Annotated[str, Slots(("problems",))]

    @property
    def digest(self) -> str:
        """SHA-256 of all texts."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()


def default_texts() -> GenerationTexts:
    """Return the bundled texts."""
    return GenerationTexts.bundled()

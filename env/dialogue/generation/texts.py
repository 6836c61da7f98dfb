"""The texts by which a language model is asked for new users."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated

from ....policies.prompts import TextSet, TextSlots


class GenerationTexts(TextSet):
    """What each stage of a generation asks."""

    bundle = "generation.yaml"

    profile: Annotated[str, TextSlots(("persona",), ("language",))]
    questions: Annotated[str, TextSlots(("profile", "questions", "states", "choices"), ("start_date", "language"))]
    merge_schema: Annotated[str, TextSlots(("questions",))]
    unify_choices: Annotated[str, TextSlots(("types", "choices"))]
    initial_state: Annotated[str, TextSlots(("profile", "schema"), ("start_date",))]
    update: Annotated[
        str,
        TextSlots(
            ("schema", "state", "counts", "changes", "most"),
            ("profile", "history", "period_start", "period_end", "language"),
        ),
    ]
    events: Annotated[str, TextSlots(("updates",), ("profile", "summary", "period_start", "period_end", "language"))]
    answers: Annotated[str, TextSlots(("question", "variants"), ("language",))]
    check_answer: Annotated[str, TextSlots(("question", "state", "choices"))]
    refine_answer: Annotated[str, TextSlots(("question", "answer", "state", "others", "problem"), ("language",))]
    first_queries: Annotated[str, TextSlots(("state", "schema", "most"), ("profile", "start_date", "language"))]
    update_queries: Annotated[
        str, TextSlots(("events", "schema"), ("profile", "period_start", "period_end", "language"))
    ]
    check_query: Annotated[str, TextSlots(("query", "schema"))]
    refine_query: Annotated[str, TextSlots(("query", "state", "schema", "problem"), ("language",))]
    repair: Annotated[str, TextSlots(("problems",))]

    @property
    def digest(self) -> str:
        """SHA-256 of all texts."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()

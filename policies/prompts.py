"""Prompt texts with named slots."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import ValidationError, model_validator

from ..data.record import Record
from ..data.resources import resource
from ..data.yaml_texts import parse_yaml, read_utf8


def render(template: str, **slots: str) -> str:
    """Fill the named slots in one pass; every other brace, also inside a slot's text, is left alone."""
    return _pattern(tuple(slots)).sub(lambda match: slots[match[1]], template) if slots else template


@cache
def _pattern(slots: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\{{({'|'.join(map(re.escape, slots))})\}}")


@dataclass(frozen=True, slots=True)
class TextSlots:
    """The slots of a kind of text: those that it must have, and those that it may have."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


class TextSet(Record):
    """Texts by kind; their slots are checked when the set is made. A subclass has a field for each kind."""

    bundle: ClassVar[str]
    """The bundled set's file in ``configs/templates``."""
    other_forms: ClassVar[Mapping[str, str]] = {}
    """Slots that may stand in for others: the same content in another form."""

    @model_validator(mode="after")
    def _check_slots(self) -> Self:
        for kind in self.slots():
            if missing := self.missing_slots(kind, getattr(self, kind)):
                raise ValueError(f"{kind}: lacks {', '.join(f'{{{slot}}}' for slot in missing)}")
        return self

    @classmethod
    @cache
    def slots(cls) -> Mapping[str, TextSlots]:
        """Return the slots of each kind."""
        return {kind: field.metadata[0] for kind, field in cls.model_fields.items()}

    @classmethod
    def missing_slots(cls, kind: str, text: str) -> list[str]:
        """Return the slots that a text of this kind needs and ``text`` lacks, in one form or the other."""
        return [slot for slot in cls.slots()[kind].required if not cls.has_slot(slot, text)]

    @classmethod
    def has_slot(cls, slot: str, text: str) -> bool:
        """Tell whether a text has a slot, in one form or the other."""
        return any(f"{{{name}}}" in text for name in (slot, cls.other_forms.get(slot, slot)))

    @classmethod
    @cache
    def bundled(cls) -> Self:
        """Return the bundled set."""
        text = resource("configs", "templates", cls.bundle).read_text(encoding="utf-8")
        return cls.model_validate(parse_yaml(text))

    @classmethod
    def completed(cls, given: Any) -> Any:
        """Add the bundled texts to those of a mapping by kind."""
        return {**cls.bundled().model_dump(), **given} if isinstance(given, Mapping) else given

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a set of texts from a YAML file; kinds that it leaves out are the bundled ones.

        Raises ValueError naming the file and the text.
        """
        try:
            given = parse_yaml(read_utf8(path)) or {}
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        try:
            return cls.model_validate(cls.completed(given))
        except ValidationError as error:
            problems = (f"{'.'.join(map(str, e['loc'])) or 'texts'}: {e['msg']}" for e in error.errors())
            raise ValueError(f"{path}: {'; '.join(problems)}") from None
        except TypeError as error:
            raise ValueError(f"{path}: must be a mapping of names to texts: {error}") from None


class Templates(TextSet):
    """The environment's prompt texts, the prompts that a policy starts from, and those that rewrite prompts."""

    bundle = "default.yaml"
    other_forms = {"schema": "schema_json", "memories": "current_memories", "feedback": "feedback_ascii"}

    user: Annotated[str, TextSlots(("profile", "query", "exchange", "schema"))]
    answer: Annotated[str, TextSlots(("query", "choices"))]
    answer_reworded: Annotated[str, TextSlots(("query", "choices"))]
    """How the sealed test also puts a question; no proposer sees it."""
    upper_bound: Annotated[str, TextSlots(("query", "state", "choices"))]
    probe: Annotated[str, TextSlots(("schema",))]
    slot: Annotated[str, TextSlots(("query",))]
    """How an agent's step asks for a value that it needs."""
    slot_reworded: Annotated[str, TextSlots(("query",))]
    recollect: Annotated[str, TextSlots(("query",), ("today",))]
    """How a question on conversations is put."""
    make_question: Annotated[str, TextSlots(("excerpt",))]
    """How a model is asked to make a question on a part of a conversation."""
    judge: Annotated[str, TextSlots(("query", "right", "answer"))]
    """How a model is asked whether an answer is right."""
    agent: Annotated[str, TextSlots(("message",), ("policy",))]
    """How an agent that plans by itself is asked to go on with a customer."""
    customer: Annotated[str, TextSlots(("script", "talk"))]
    """How a model is asked to play the customer; ``DONE`` ends what it has to say."""
    searcher: Annotated[str, TextSlots(("query",))]
    """How an agent that plans by itself is asked to search for an answer."""
    clerk: Annotated[str, TextSlots(("instruction",))]
    """How an agent that plans by itself is asked to work in a browser."""
    engineer: Annotated[str, TextSlots(("problem",))]
    """How an agent that plans by itself is asked to repair a program."""
    reply_context: Annotated[str, TextSlots(("memories",))]
    reply_external: Annotated[str, TextSlots(("memories",))]
    reply_summary: Annotated[str, TextSlots(("memories",))]
    write_profile: Annotated[str, TextSlots(("memories", "conversation"))]
    info_types: Annotated[str, TextSlots()]
    """The types of information to note: what ``{info_types}`` in a write prompt stands for."""
    write_profile_minimal: Annotated[str, TextSlots(("memories", "conversation"))]
    write_profile_labels: Annotated[str, TextSlots(("memories", "conversation", "labels"))]
    """What a profile with a schema starts from."""
    write_summary: Annotated[str, TextSlots(("memories", "conversation"), ("tokens",))]
    write_facts: Annotated[str, TextSlots(("conversation",))]
    write_facts_minimal: Annotated[str, TextSlots(("conversation",))]
    write_facts_medium: Annotated[str, TextSlots(("conversation",))]
    write_linked_facts: Annotated[str, TextSlots(("conversation",), ("memories",))]
    """What facts with entities start from."""
    write_linked_notes: Annotated[str, TextSlots(("conversation",))]
    link_notes: Annotated[str, TextSlots(("memories", "facts"))]
    """What notes with links start from."""
    write_episodes: Annotated[str, TextSlots(("conversation",))]
    note_gap: Annotated[str, TextSlots(("memories", "facts"))]
    """What episodes start from; the facts of the second are the messages that were said."""
    write_relations: Annotated[str, TextSlots(("conversation",))]
    settle_relations: Annotated[str, TextSlots(("memories", "facts"))]
    """What a graph starts from."""
    write_playbook: Annotated[str, TextSlots(("conversation",), ("memories",))]
    edit_playbook: Annotated[str, TextSlots(("memories", "facts"))]
    """What a playbook starts from."""
    edit_core: Annotated[str, TextSlots(("memories", "conversation"), ("tokens",))]
    """What a core with an archive starts from."""
    merge: Annotated[str, TextSlots(("memories", "facts"))]
    evolve_info_types_system: Annotated[str, TextSlots()]
    evolve_info_types_guided: Annotated[str, TextSlots()]
    evolve_info_types: Annotated[str, TextSlots(("info_types", "feedback"))]
    evolve_prompt_system: Annotated[str, TextSlots()]
    evolve_prompt: Annotated[str, TextSlots(("prompt", "feedback"))]
    lost_slots: Annotated[str, TextSlots()]
    """Paragraphs that are added to a rewritten prompt that lacks their slot; the one without a slot, where it does not
    speak of JSON."""

    def starting(self, kind: str) -> str:
        """Return the text that a prompt of this kind starts from, the types of information filled in."""
        return render(getattr(self, kind), info_types=self.info_types)

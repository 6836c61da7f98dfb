"""Prompt texts with named slots."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

import yaml
from pydantic import ValidationError, model_validator

from ..data.record import Record
from ..data.resources import resource

REQUIRED_SLOTS: Mapping[str, tuple[str, ...]] = {
    "user": ("profile", "query", "exchange", "schema"),
    "answer": ("query", "choices"),
    "answer_reworded": ("query", "choices"),
    "upper_bound": ("query", "state", "choices"),
    "probe": ("schema",),
    "reply_context": ("memories",),
    "reply_external": ("memories",),
    "write_profile": ("memories", "conversation"),
    "write_facts": ("conversation",),
    "merge": ("memories", "facts"),
    "info_types": (),
    "write_profile_minimal": ("memories", "conversation"),
    "write_facts_minimal": ("conversation",),
    "write_facts_medium": ("conversation",),
    "evolve_info_types_system": (),
    "evolve_info_types_guided": (),
    "evolve_info_types": ("info_types", "feedback"),
    "evolve_prompt_system": (),
    "evolve_prompt": ("prompt", "feedback"),
    "lost_slots": (),
}
OTHER_FORMS: Mapping[str, str] = {
    "schema": "schema_json",
    "memories": "current_memories",
    "feedback": "feedback_ascii",
}
"""Slots that may stand in for others: the same content in another form."""


def missing_slots(kind: str, text: str) -> list[str]:
    """Return the slots that a prompt of this kind needs and ``text`` lacks."""
    return [slot for slot in REQUIRED_SLOTS[kind] if not has_slot(slot, text)]


def has_slot(slot: str, text: str) -> bool:
    """Tell whether a text has a slot, in one form or the other."""
    return _has_slot(slot, text, OTHER_FORMS)


def _has_slot(slot: str, text: str, other_forms: Mapping[str, str]) -> bool:
    return any(f"{{{name}}}" in text for name in (slot, other_forms.get(slot, slot)))


def render(template: str, **slots: str) -> str:
    """Fill the named slots in one pass; every other brace, also inside a slot's text, is left alone."""
    if not slots:
        return template
    pattern = "|".join(re.escape(name) for name in slots)
    return re.sub(rf"\{{({pattern})\}}", lambda match: slots[match[1]], template)


class TextSet(Record):
    """Texts by kind; their slots are checked when the set is made. A subclass names its kinds as fields."""

    bundle: ClassVar[str]
    """The bundled set's file in ``configs/templates``."""
    required_slots: ClassVar[Mapping[str, tuple[str, ...]]]
    """By kind."""
    other_forms: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Slots that may stand in for others."""

    @model_validator(mode="after")
    def _check_slots(self) -> Self:
        for kind, slots in self.required_slots.items():
            missing = [slot for slot in slots if not _has_slot(slot, getattr(self, kind), self.other_forms)]
            if missing:
                raise ValueError(f"{kind}: lacks {', '.join(f'{{{slot}}}' for slot in missing)}")
        return self

    @classmethod
    @cache
    def bundled(cls) -> Self:
        """Return the bundled set."""
        text = resource("configs", "templates", cls.bundle).read_text(encoding="utf-8")
        return cls.model_validate(yaml.safe_load(text))

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
            return cls.model_validate(cls.completed(yaml.safe_load(path.read_text(encoding="utf-8")) or {}))
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: is not UTF-8 text ({error})") from None
        except ValidationError as error:
            problems = (f"{'.'.join(map(str, e['loc'])) or 'texts'}: {e['msg']}" for e in error.errors())
            raise ValueError(f"{path}: {'; '.join(problems)}") from None
        except (yaml.YAMLError, TypeError) as error:
            raise ValueError(f"{path}: must be a mapping of names to texts: {error}") from None


class Templates(TextSet):
    """The environment's prompt texts, the prompts that a policy starts from, and those that rewrite prompts."""

    bundle = "default.yaml"
    required_slots = REQUIRED_SLOTS
    other_forms = OTHER_FORMS

    user: str
    answer: str
    answer_reworded: str
    """How the sealed test also puts a question; no proposer sees it."""
    upper_bound: str
    probe: str
    reply_context: str
    reply_external: str
    write_profile: str
    info_types: str
    """The types of information to note: what ``{info_types}`` in a write prompt stands for."""
    write_profile_minimal: str
    write_facts: str
    write_facts_minimal: str
    write_facts_medium: str
    merge: str
    evolve_info_types_system: str
    evolve_info_types_guided: str
    evolve_info_types: str
    evolve_prompt_system: str
    evolve_prompt: str
    lost_slots: str
    """Paragraphs that are added to a rewritten prompt that lacks their slot; the one without a slot, where it does not
    speak of JSON."""

    def starting(self, kind: str) -> str:
        """Return the text that a prompt of this kind starts from, the types of information filled in."""
        return render(getattr(self, kind), info_types=self.info_types)


def default_templates() -> Templates:
    """Return the bundled texts."""
    return Templates.bundled()

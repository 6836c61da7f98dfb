"""A slot: a value that an agent's next step needs, which memory has to give back."""

from __future__ import annotations

from ..policies.forms import TEXT, ReplyForm, record
from ..policies.prompts import Templates, render
from ..policies.replies import ReplyError, read_json_object
from ..policies.text import whole

SLOT_FORM = ReplyForm.of("value", record(value=TEXT))


def slot_query(question: str, templates: Templates) -> str:
    """Return how a question for a value is put."""
    return render(templates.slot, query=question)


def slot_query_reworded(question: str, templates: Templates) -> str:
    """Return how the sealed test also puts it."""
    return render(templates.slot_reworded, query=question)


def read_slot(raw: str) -> str | None:
    """Return the value that a reply names; None where it names none."""
    try:
        value = read_json_object(raw)["value"]
    except (ReplyError, KeyError):
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return whole(str(value)).strip() or None

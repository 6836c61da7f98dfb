"""Find out from the last message what a call wants, and do it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..base import Message
from ..tool_texts import tools_in
from .answering import answer_choices, fill_probe, find_choices, find_schema
from .asking import asked_for_question
from .blocks import json_blocks, texts_in
from .composing import compose
from .describing import events_in, expectation_in, fact_form
from .engineering import find_engineering_task, improve
from .episodic import episodic
from .evolving import describe_messages, describe_note, evolve_note, notes_to_describe
from .extracting import extract, extract_by_tools, facts_to_merge
from .fields import find_form, without_form
from .graphs import call_graph_tools
from .instructions import read_labels
from .linking import link_notes, notes_to_link, relations_to_settle, settle
from .reading import Reading
from .revising import revise
from .segmenting import divide, parts_in
from .summarizing import only_labels, write_labels, write_summary
from .talking import follow_up, reply
from .values import answer_value, asks_value
from .writing import edit_memory, merge_facts, write_facts, write_profile

_PLAYS_USER = re.compile(
    r"\b(role-?play|play(?:ing)? the (?:role|part)|act(?:ing)? as|simulat\w+)\b[^.\n]*\buser\b", re.I
)
_CONVERSATION = re.compile(r"^#*\s*(?:the )?conversation:?\s*$", re.IGNORECASE | re.MULTILINE)


def read_and_reply(messages: Sequence[Message], reading: Reading) -> str:
    """Reply to a conversation, knowing nothing but its messages."""
    if not messages:
        return ""
    if len(messages) > 1 and (tools := tools_in(messages[-1])):
        *asked, _ = messages
        return call_graph_tools(tools, asked) or extract_by_tools(tools, asked) or read_and_reply(asked, reading)
    if (composed := compose(messages, reading)) is not None:
        return composed
    *history, last = messages
    text = last.content
    if (question := asked_for_question(text)) is not None:
        return question
    if (engineering := find_engineering_task(text)) is not None:
        return improve(engineering)
    if (question := asks_value(text)) is not None:
        return answer_value(question, history)
    blocks = list(json_blocks(text))
    if (revised := revise(text, blocks)) is not None:
        return revised
    if (relations := relations_to_settle(blocks)) is not None:
        return settle(_without(text, blocks), *relations)
    if (linked := notes_to_link(blocks)) is not None:
        return link_notes(*linked)
    if (described := describe_note(text) or evolve_note(text) or episodic(text)) is not None:
        return described
    if (merging := facts_to_merge(text)) is not None:
        return merge_facts(*merging)
    if '"ADD"' in text and len(blocks) >= 2:
        facts = blocks[1][1]
        listed = list(map(str, facts)) if isinstance(facts, list) else []
        return merge_facts(_without(text, blocks), texts_in(blocks[0][1]), listed)
    conversation = next((b for b in reversed(blocks) if _is_conversation(b[1])), None)
    if conversation is not None and _CONVERSATION.search(text):
        return _write(text, blocks, conversation)
    if (choices := find_choices(text)) is not None:
        return answer_choices(*choices, history, reading)
    if (schema := find_schema(text)) and "json" in text.lower():
        return fill_probe(schema, text, history, reading)
    if (extracted := extract(messages)) is not None:
        return extracted
    if not history and _PLAYS_USER.search(text):
        return follow_up(text)
    if (form := find_form(text)) is not None:
        plain = [without_form(message) for message in messages]
        return form.filled(reply(plain, reading), heard=plain[-1].content)
    return reply(messages, reading)


def _write(text: str, blocks: Sequence[tuple[str, Any]], conversation: tuple[str, Any]) -> str:
    instructions = _without(text, blocks)
    if (events := events_in(blocks)) is not None:
        shown = next((texts_in(value) for _, value in blocks if isinstance(value, dict)), {})
        return edit_memory(instructions, shown, conversation[1], events)
    if (parts := parts_in(blocks)) is not None:
        return divide(instructions, conversation[1], *parts)
    if (asked := notes_to_describe(blocks)) is not None:
        return describe_messages(conversation[1], *asked)
    if '"facts"' in text.replace(conversation[0], ""):
        form = fact_form(blocks)
        shown = next((texts_in(value) for _, value in blocks if isinstance(value, dict)), {}) if form else {}
        known, expected = [*shown.values()], expectation_in(blocks)
        return write_facts(instructions, conversation[1], form=form, known=known, expected=expected)
    if '"summary"' in instructions or any(map(_is_summary_form, blocks)):
        known = [texts_in(block[1]).get("summary", "") for block in blocks if not _is_summary_form(block)]
        return write_summary(instructions, next(filter(None, known), ""), conversation[1])
    memories = next((value for _, value in blocks if isinstance(value, dict)), {})
    if read_labels(only_labels(instructions)).kinds:
        return write_labels(instructions, texts_in(memories), conversation[1])
    return write_profile(instructions, texts_in(memories), conversation[1])


def _without(text: str, blocks: Sequence[tuple[str, Any]]) -> str:
    """Return a prompt without its JSON: what it asks for, and nothing of what is to be read."""
    for source, _ in blocks:
        text = text.replace(source, "", 1)
    return text


def _is_summary_form(block: tuple[str, Any]) -> bool:
    """Tell whether a block shows the form of a summary, and holds none."""
    return isinstance(block[1], dict) and re.fullmatch(r"<.*>|\.\.\.|", str(block[1].get("summary", "?"))) is not None


def _is_conversation(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(m, dict) and "content" in m for m in value)

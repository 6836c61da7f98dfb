"""Find out from the last message what a call wants, and do it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..base import Message
from ..tool_texts import tools_in
from .answering import answer_choices, fill_probe, find_choices, find_schema
from .asking import asked_for_question
from .blocks import json_blocks
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
from .shown import DEEPEST, Block, blocks_in, conversation_shown, facts_shown, memories_shown, without
from .summarizing import only_labels, write_labels, write_summary
from .talking import follow_up, reply
from .values import answer_value, asks_value
from .writing import edit_memory, merge_facts, write_facts, write_profile

_PLAYS_USER = re.compile(
    r"\b(role-?play|play(?:ing)? the (?:role|part)|act(?:ing)? as|simulat\w+)\b[^.\n]*\buser\b", re.I
)
_ADDS, _CHANGES = re.compile(r"\bADD\b"), re.compile(r"\b(?:UPDATE|DELETE|NONE)\b|\bevent[\"']?\s*:")
"""Names of the events of a merge, and what stands before one in a form."""
_JSON = re.compile(r"\b(?:json|objects?|dictionar(?:y|ies)|mapping|keys?)\b", re.IGNORECASE)
_KEYS: Mapping[str, type] = {"facts": list, "summary": str}
"""What stands under a key by which a form of notes is known."""
_SUMMARY = re.compile(r"\bsummar", re.IGNORECASE)
_FACTS = re.compile(r"\bfacts\b", re.IGNORECASE)
_SAID = re.compile(r"^\s*(?:user|assistant|human|ai): .*$", re.IGNORECASE | re.MULTILINE)
"""What somebody says in an example."""
_CONVERSATION = re.compile(r"^#*\s*(?:the )?conversation:?\s*$", re.IGNORECASE | re.MULTILINE)

WORDS_OF_A_HEADING = 12
"""Words of a message, at most, that just shows something."""


def read_and_reply(messages: Sequence[Message], reading: Reading) -> str:
    """Reply to a conversation, knowing nothing but its messages."""
    if not messages:
        return ""
    if len(messages) > 1 and (tools := tools_in(messages[-1])):
        *asked, _ = messages
        return call_graph_tools(tools, asked) or extract_by_tools(tools, asked) or read_and_reply(asked, reading)
    prompt = _prompt_in(messages)
    blocks = blocks_in(prompt)
    talk = _talk_to_note(prompt, blocks)
    if talk is None and (composed := compose(messages, reading)) is not None:
        return composed
    *history, last = messages
    text = last.content
    if (question := asked_for_question(text)) is not None:
        return question
    if (engineering := find_engineering_task(text)) is not None:
        return improve(engineering)
    if talk is None and (question := asks_value(text)) is not None:
        return answer_value(question, history)
    if (revised := revise(text, [*json_blocks(text)])) is not None:
        return revised
    if (relations := relations_to_settle(blocks)) is not None:
        return settle(without(prompt, blocks), *relations)
    if (linked := notes_to_link(blocks)) is not None:
        return link_notes(*linked)
    if (described := describe_note(text) or evolve_note(text) or episodic(text)) is not None:
        return described
    if (merging := facts_to_merge(text)) is not None:
        return merge_facts(*merging)
    if talk is not None:
        return _write(prompt, blocks, talk)
    if (merged := _merge(prompt, blocks)) is not None:
        return merged
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


def _prompt_in(messages: Sequence[Message]) -> str:
    """Return the prompt that may ask for something of what it shows; nothing where people talk.

    It stands alone, or in a system message before what is shown, or has a heading that announces a conversation.
    """
    *history, last = messages
    if not history:
        return last.content
    own = without(last.content, blocks_in(last.content))
    is_shown = own != last.content and len(own.split()) <= WORDS_OF_A_HEADING and "?" not in own
    if is_shown and all(message.role == "system" for message in history):
        return "\n\n".join(message.content for message in messages)
    return last.content if _CONVERSATION.search(last.content) else ""


def _merge(prompt: str, blocks: Sequence[Block]) -> str | None:
    """Return what new facts do to known ones; None where a prompt does not show both, and ask for it."""
    facts = facts_shown(blocks)
    known = memories_shown(blocks, facts)
    if facts and known and _ADDS.search(prompt) and _CHANGES.search(prompt):
        return merge_facts(without(prompt, blocks), known.value, facts.value)
    return None


def _talk_to_note(prompt: str, blocks: Sequence[Block]) -> Block | None:
    """Return the conversation that a prompt shows and asks for notes on; None where there is none."""
    talk = conversation_shown(blocks)
    if talk is None or _CONVERSATION.search(prompt):
        return talk
    others = [block for block in blocks if block is not talk]
    return talk if _asks_to_note(without(prompt, blocks), others, talk) else None


def _asks_to_note(rest: str, others: Sequence[Block], talk: Block) -> bool:
    """Tell whether a prompt asks for notes on the conversation that it shows, in a form of JSON that is known."""
    if not talk.is_apart or not all("role" in message for message in talk.value):
        return False
    finds = (events_in, parts_in, notes_to_describe)
    if _names(others, rest, "facts") or _names(others, rest, "summary") or any(find(others) for find in finds):
        return True
    asks = ("?" not in rest or _JSON.search(rest) is not None) and find_choices(rest) is None
    return (asks and _FACTS.search(rest) is not None) or (
        memories_shown(others) is not None and (asks or len(others) > 1)
    )


def _names(blocks: Sequence[Block], instructions: str, key: str) -> bool:
    """Tell whether a prompt shows an object with a key, or writes the key as in one."""
    named = rf"\b(?:keys?|fields?|list|under|named|called|names?)\W+[\"'`]?{key}\b"
    written = rf"[\"'`]{key}[\"'`]\s*:|{named}|^\W*{key}: *(?:list|str)"
    is_written = re.search(written, instructions, re.MULTILINE) is not None
    return is_written or any(_holds(block.value, key) for block in blocks)


def _holds(value: Any, key: str, depth: int = 0) -> bool:
    """Tell whether a form has a key, or a schema has it among its properties."""
    if not isinstance(value, dict) or depth > DEEPEST:
        return False
    is_property = isinstance(value.get("properties"), dict) and key in value["properties"]
    is_key = is_property or isinstance(value.get(key), _KEYS[key])
    return is_key or any(_holds(inner, key, depth + 1) for inner in value.values())


def _write(prompt: str, blocks: Sequence[Block], shown: Block) -> str:
    """Return what is noted of the conversation that is ``shown``, in the form that the prompt asks for."""
    instructions, known = _SAID.sub("", without(prompt, blocks)), memories_shown(blocks, shown)
    blocks = [block for block in blocks if block is not shown]
    memories: dict[str, str] = known.value if known else {}
    talk: list[dict[str, Any]] = shown.value
    if (events := events_in(blocks)) is not None:
        return edit_memory(instructions, memories, talk, events)
    if (parts := parts_in(blocks)) is not None:
        return divide(instructions, talk, *parts)
    if (asked := notes_to_describe(blocks)) is not None:
        return describe_messages(talk, *asked)
    if (summary := _summary_so_far(instructions, blocks)) is not None:
        return write_summary(instructions, summary, talk)
    is_named = _names(blocks, instructions, "facts")
    if not is_named and read_labels(only_labels(instructions)).kinds:
        return write_labels(instructions, memories, talk)
    if is_named or (known is None and _FACTS.search(instructions)):
        form = fact_form(blocks)
        told = [*memories.values()] if form else []
        return write_facts(instructions, talk, form=form, known=told, expected=expectation_in(blocks))
    return write_profile(instructions, memories, talk)


def _summary_so_far(instructions: str, blocks: Sequence[Block]) -> str | None:
    """Return the summary that a prompt shows, empty where it shows none yet; None where it asks for no summary."""
    shown = [block for block in blocks if isinstance(block.value, dict) and block.value.keys() == {"summary"}]
    others = [block for block in blocks if block not in shown]
    is_named = _names(others, instructions, "summary") or (bool(shown) and _SUMMARY.search(instructions) is not None)
    if len(shown) < 2 and not is_named:
        return None
    known = memories_shown(shown)
    is_known = known is not None and not known.is_form and (known.has_lines or not known.is_reply)
    return str(known.value["summary"]) if known and is_known else ""

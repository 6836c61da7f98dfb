"""Things and relations, by the tools of packages that keep a graph."""

from __future__ import annotations

from typing import Any

import pytest

from mnemotune.policies.lm import Message
from mnemotune.policies.lm.embedded.readers import READERS
from mnemotune.policies.lm.embedded.tasks import read_and_reply
from mnemotune.policies.lm.tool_texts import calls_in, tools_message

TEXT = {"type": "string"}
RELATION = {"source": TEXT, "relationship": TEXT, "destination": TEXT}
SYSTEM = "Extract what the text names. If it says I or me, then use user-7 as the source entity."


def tool(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "parameters": {"type": "object", "properties": parameters}}


def listed(**parts: Any) -> dict[str, Any]:
    return {"entities": {"type": "array", "items": {"type": "object", "properties": parts}}}


THINGS = tool("extract_entities", listed(entity=TEXT, entity_type=TEXT))
RELATIONS = tool("establish_relationships", listed(**RELATION))
DELETES = tool("delete_graph_memory", RELATION)


def reply(offered: dict[str, Any], text: str) -> str:
    messages = [Message("system", SYSTEM), Message("user", text), tools_message([offered])]
    return read_and_reply(messages, next(iter(READERS.values())))


def test_the_user_and_what_a_text_names_are_its_things() -> None:
    ((name, arguments),) = calls_in(reply(THINGS, "My sister Ana lives in Porto."))
    assert name == "extract_entities"
    assert arguments["entities"][0] == {"entity": "user-7", "entity_type": "person"}
    assert {"Ana", "Porto"} <= {thing["entity"] for thing in arguments["entities"]}


def test_what_the_user_says_of_the_user_are_relations() -> None:
    text = "List of entities: ['user-7']. \n\nText: I have moved to Lisbon in May, and I like it. Where is a bakery?"
    ((_, arguments),) = calls_in(reply(RELATIONS, text))
    moved = {"source": "user-7", "relationship": "moved_to", "destination": "Lisbon in May"}
    assert arguments["entities"] == [moved]


@pytest.mark.parametrize("offered", [tool("note", {"content": True}), tool("list", {"entities": {"items": True}})])
def test_a_tool_that_takes_anything_is_no_tool_for_things(offered: dict[str, Any]) -> None:
    assert calls_in(reply(offered, "Text: I have moved to Lisbon.\nuser: I have a cat.")) == []


def test_without_a_statement_there_is_no_relation() -> None:
    assert calls_in(reply(RELATIONS, "Text: Which bakery opens early there?")) == []


def test_no_relation_is_deleted() -> None:
    text = "Here are the existing memories: user-7 -- lives_in -- porto \n\n New Information: I moved to Lisbon."
    assert calls_in(reply(DELETES, text)) == []

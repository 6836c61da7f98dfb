"""Running summaries and profiles with a schema.

Invariants:

1. A summary takes at most its tokens, whatever the model writes.
2. A profile with a schema has no other labels.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemotune.policies import load_policy
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import BuiltinMemory, open_memory
from remembering import lines, observe_all, shown

if TYPE_CHECKING:
    from ..conftest import MakeModel, MakePolicy, Pair

LABELS = ["User wishes", "done so far"]


def summary(text: object) -> str:
    return json.dumps({"summary": text})


def schema(make_policy: MakePolicy, *labels: str) -> Any:
    return make_policy("profile", buffer_size=0, write={"mode": "profile", "labels": labels or LABELS})


async def test_a_summary_is_rewritten_from_what_it_said_and_what_is_evicted(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model(summary("Likes tea.\n- Lives in Faro.\n\n Since May."), summary("Lives in Faro.\n Since May."))
    memory = open_memory(make_policy("summary", buffer_size=0), model, LexicalEmbedder())
    (first, second) = await observe_all(memory, [pair("Tea, please."), pair("No tea.")])
    assert first.after == ("Likes tea.", "Lives in Faro.\n Since May.") == second.before
    assert second.after == ("Lives in Faro.\n Since May.",)
    assert [item.id for item in await memory.listing()] == ["1"]
    known, told = model.prompts[1].split("|")
    assert json.loads(known) == {"summary": "Likes tea.\nLives in Faro.\n Since May."}
    assert [message["content"] for message in json.loads(told)] == ["No tea.", "I see."]
    (system,) = await shown(memory, "What now?")
    assert system.content == "I know:\n- Lives in Faro.\n Since May."


async def test_the_prompt_says_how_long_the_summary_may_be(make_model: MakeModel, pair: Pair) -> None:
    model = make_model(summary("Nothing."))
    policy = load_policy("adaptive_token_budget").model_copy(update={"buffer_size": 0, "keep_first": 0})
    await open_memory(policy, model, LexicalEmbedder()).observe(pair("Hello."))
    assert "At most 300 tokens in all." in model.prompts[0]
    assert model.requests[0].form is not None
    assert model.requests[0].form.strict


@pytest.mark.parametrize("reply", ["nothing", "{}", summary(""), summary(" \n "), summary(None)])
async def test_a_reply_without_a_summary_leaves_it_as_it_was(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair, reply: str
) -> None:
    memory = open_memory(
        make_policy("summary", buffer_size=0), make_model(summary("Likes tea."), reply), LexicalEmbedder()
    )
    (_, event) = await observe_all(memory, [pair("Tea."), pair("Hm.")])
    assert event.error is not None
    assert event.after == event.before == ("Likes tea.",)


@settings(deadline=None)
@given(text=st.text(max_size=300), tokens=st.integers(16, 60))
def test_a_summary_takes_at_most_its_tokens_invariant_1(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair, text: str, tokens: int
) -> None:
    policy = make_policy("summary", buffer_size=0, write={"mode": "summary", "tokens": tokens})
    memory = open_memory(policy, make_model(summary(text)), LexicalEmbedder())
    asyncio.run(memory.observe(pair("Hello.")))
    size = len("\n".join(asyncio.run(lines(memory))).encode("utf-8", "surrogatepass"))
    assert size <= 4 * tokens


async def test_what_is_forgotten_leaves_the_rest_of_a_summary(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model(summary("Order W1:\n status: open\nLikes tea."))
    memory = open_memory(make_policy("summary", buffer_size=0), model, LexicalEmbedder())
    await memory.observe(pair("Hello."))
    assert await memory.forget(lambda text: "status" in text) == 1
    assert await lines(memory) == ["Likes tea."]


# Schemas


async def test_labels_are_shown_and_asked_for_and_other_spellings_are_the_same(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model(json.dumps({"user_wishes": "Tea.", "DONE SO FAR": "Booked.", "mood": "Good."}))
    memory = open_memory(schema(make_policy), model, LexicalEmbedder())
    await memory.observe(pair("Tea."))
    assert await lines(memory) == ["User wishes: Tea.", "done so far: Booked."]
    assert model.prompts[0].endswith("|- User wishes\n- done so far")
    form = model.requests[0].form
    assert form is not None
    assert list(json.loads(form.schema or "")["properties"]) == LABELS


async def test_a_label_with_nothing_under_it_keeps_what_it_has(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model(json.dumps({"done so far": "Booked."}), json.dumps({"done so far": " ", "User wishes": "Tea."}))
    memory = open_memory(schema(make_policy), model, LexicalEmbedder())
    await memory.observe(pair("Book it."))
    (event,) = await memory.observe(pair("Tea."))
    assert (event.after, event.error) == (("done so far: Booked.", "User wishes: Tea."), None)


async def test_what_is_told_under_two_headings_is_kept_under_both(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    told = "## W1\n- Paid: yes\n- shipped\n## W2\n- Paid: yes\n- open"
    model = make_model(json.dumps({"summary": told}), json.dumps({"summary": told + "\n- late"}))
    memory = open_memory(make_policy("summary", buffer_size=0), model, LexicalEmbedder())
    await memory.observe(pair("Two orders."))
    before = await memory.snapshot()
    (event,) = await memory.observe(pair("The second is late."))
    assert event.before == ("## W1", "Paid: yes", "shipped", "## W2", "Paid: yes", "open")
    assert event.after == (*event.before, "late")
    assert (await memory.snapshot()).entries[:6] == before.entries, "each keeps its id"


async def test_two_spellings_of_a_label_in_a_reply_are_kept_together(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    model = make_model(json.dumps({"user wishes": "Tea.", "User Wishes": "Cake."}))
    memory = open_memory(schema(make_policy), model, LexicalEmbedder())
    await memory.observe(pair("Tea."))
    assert await lines(memory) == ["User wishes: Tea.\nCake."]


async def test_a_reply_outside_of_the_schema_is_of_no_use(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair
) -> None:
    memory = open_memory(schema(make_policy), make_model('{"mood": "Good."}'), LexicalEmbedder())
    (event,) = await memory.observe(pair("Tea."))
    assert event.error == "the reply writes under 'mood', outside of write.labels"
    assert await lines(memory) == []


async def test_nothing_to_note_is_no_mistake(make_model: MakeModel, make_policy: MakePolicy, pair: Pair) -> None:
    (event,) = await open_memory(schema(make_policy), make_model("{}"), LexicalEmbedder()).observe(pair("Tea."))
    assert event.error is None


NAMES = st.text("ab _-X", min_size=1, max_size=4)


@settings(deadline=None)
@given(replies=st.lists(st.dictionaries(NAMES, st.text(max_size=8)), min_size=1, max_size=4))
def test_a_profile_has_no_labels_but_its_schema_s_invariant_2(
    make_model: MakeModel, make_policy: MakePolicy, pair: Pair, replies: list[dict[str, str]]
) -> None:
    memory = BuiltinMemory(schema(make_policy, "a b", "x"), make_model(*map(json.dumps, replies)), LexicalEmbedder())
    asyncio.run(observe_all(memory, [pair("Hello.") for _ in replies]))
    state = asyncio.run(memory.snapshot())
    assert {entry.label for entry in state.entries} <= {"a b", "x"}


def test_a_vowel_sign_tells_labels_apart(make_policy: MakePolicy) -> None:
    policy = schema(make_policy, "चाचा", "चाची")
    assert policy.write.labels == ("चाचा", "चाची")
    with pytest.raises(ValueError, match=r"name each once: 'C\+\+' and 'C#' are one, by their letters and digits"):
        schema(make_policy, "C++", "C#")

"""What has an effect with which memory.

1. A knob of some memories has no effect with any other.
2. A memory that ships has an effect with ``write.mode: facts`` alone; one that a package brings has in every mode.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from mnemotune.optimizer.proposers.numbers import anywhere, apply_point
from mnemotune.optimizer.proposers.proposer import moved
from mnemotune.optimizer.views.changes import compare_knobs
from mnemotune.optimizer.views.tracking.figures import policy_params
from mnemotune.policies import MemoryPolicy, PolicyError, load_policy
from mnemotune.policies.files import parse_policy
from mnemotune.policies.knob import Choices, Knob, Range, When
from mnemotune.policies.memory.backends import SHIPPED
from mnemotune.policies.memory.packages.memory import PackageMemory
from mnemotune.policies.prompts import Templates
from mnemotune.policies.space import BUILTIN, NATIVE, OF_MEMORIES, PACKAGES, REGISTERED, Space

OF_LINKS = {"knobs.links": 1, "knobs.neighbours": 10}
SHARED = {"write": {"mode": "facts"}, "update_every": 2, "buffer_size": 4, "store": "external", "top_k": 30}


def under(backend: str | None, **values: Any) -> MemoryPolicy:
    return MemoryPolicy.model_validate({**SHARED, "backend": backend, **values})


def test_the_table_knows_which_memories_ship_and_which_of_them_are_packages() -> None:
    packages = {name for name, made in SHIPPED.items() if isinstance(made, type) and issubclass(made, PackageMemory)}
    assert packages == {*PACKAGES}
    assert SHIPPED.keys() - packages == {BUILTIN, *NATIVE}


def test_each_knob_of_a_memory_that_ships_names_its_memories_invariant_1() -> None:
    for knob in OF_MEMORIES.values():
        assert knob.when is not None
        named = [value for when in knob.when.parts if when.knob == "backend" for value in when.values]
        assert named
        assert {*named} <= {*NATIVE}, knob.name


@pytest.mark.parametrize(
    ("name", "has"),
    [
        *(("awe", {}), ("rag", {}), ("window", {}), ("ace", {}), ("letta", {"knobs.core_tokens": 256})),
        *(("mem0", OF_LINKS), ("mem0-g", OF_LINKS), ("a-mem", OF_LINKS)),
        ("nemori", {"knobs.episodes": 10, "knobs.neighbours": 10}),
    ],
)
def test_mlflow_and_comparisons_show_the_knobs_that_have_an_effect_invariant_1(name: str, has: dict[str, Any]) -> None:
    params = policy_params(load_policy(name))
    assert {path: value for path, value in params.items() if path.startswith("knobs.")} == has
    assert params.get("backend") == load_policy(name).backend


def test_a_comparison_says_the_memory_and_the_knobs_that_came_with_it_invariant_1() -> None:
    changes = compare_knobs(under(None), under("linked-notes", knobs={"links": 3}))
    assert {c.knob.path: (c.before, c.after) for c in changes if c.changed} == {
        "backend": ("builtin", "linked-notes"),
        "knobs.links": ("-", "3 memories"),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("knobs: {links: 3}", "knobs.links: has no effect with backend: builtin; leave it out"),
        ("backend: playbook, knobs: {neighbours: 3}", "knobs.neighbours: has no effect with backend: playbook"),
        ("backend: linked-facts, prompts: {merge: mine}", "prompts.merge: has no effect with backend: linked-facts"),
        ("backend: episodes, initial: minimal", "initial: backend: episodes can start from default, not"),
        ("backend: mem0ai, read: {recency: 10}", "read.recency: has no effect with backend: mem0ai"),
    ],
)
def test_what_has_no_effect_with_a_memory_is_refused_invariant_1(text: str, why: str) -> None:
    shared = "write: {mode: facts}, update_every: 2, buffer_size: 4, store: external, top_k: 30"
    with pytest.raises(PolicyError, match=why):
        parse_policy(f"{{{shared}, {text}}}", where="mine")


def test_links_have_no_effect_without_a_search_invariant_1() -> None:
    with pytest.raises(ValueError, match="links: has no effect with store: context"):
        under("linked-facts", store="context", top_k=None, knobs={"links": 3})


@pytest.mark.parametrize("mode", ["verbatim", "profile"])
def test_a_memory_that_ships_is_the_built_in_one_with_another_mode_invariant_2(mode: str) -> None:
    with pytest.raises(ValueError, match=f"backend: has no effect with write.mode: {mode}; leave it out"):
        under("linked-facts", write={"mode": mode})
    assert under("notebook", write={"mode": mode}).backend == "notebook"


def test_prompts_start_from_the_texts_of_the_memory() -> None:
    texts = Templates.bundled()
    for name, kinds in {
        "awe": {"write": "write_facts", "merge": "merge"},
        "mem0": {"write": "write_linked_facts"},
        "a-mem": {"write": "write_linked_notes", "merge": "link_notes"},
        "ace": {"write": "write_playbook", "merge": "edit_playbook"},
    }.items():
        policy = load_policy(name)
        assert {slot: kind for slot, kind in policy.prompt_kinds.items() if slot != "reply"} == kinds
        assert policy.prompts.write == texts.starting(kinds["write"])
        assert policy.prompts.merge == (texts.starting(kinds["merge"]) if "merge" in kinds else None)


def test_a_policy_that_moves_to_another_mode_loses_what_has_no_effect_there_invariant_2() -> None:
    space, texts = Space(), Templates.bundled()
    verbatim = {"mode": "verbatim", "update_every": 2, "buffer_size": 4, "roles": "user", "store": "context"}
    for backend, kept in (("linked-facts", None), ("notebook", "notebook"), (None, None)):
        values = moved(under(backend), verbatim, space, texts)
        assert MemoryPolicy.model_validate(values).backend == kept
        facts = {**verbatim, "mode": "facts"}
        policy = MemoryPolicy.model_validate(moved(under(backend), facts, space, texts))
        assert (policy.backend, policy.prompts.write) == (backend, under(backend).prompts.write)


def test_a_policy_that_writes_facts_again_has_the_memory_of_the_space() -> None:
    space, point = replace(Space(), backend="linked-facts"), Space().point_of(under(None))
    assert point is not None
    again = MemoryPolicy.model_validate(moved(load_policy("rag"), point, space, Templates.bundled()))
    assert again == under("linked-facts")


def test_a_limit_whose_condition_names_a_knob_that_is_not_searched_may_have_an_effect() -> None:
    style = Knob("style", "knobs.style", Choices(("plain", "odd")), default="plain", named=True)
    oddness = Knob(
        "oddness", "knobs.oddness", Range((1, 5)), When("style", ("odd",), "with odd"), default=1, named=True
    )
    for knob in (style, oddness):
        REGISTERED.register(knob.name, knob)
    try:
        assert Space.within({"oddness": (1, 3)}).idle == []
        assert [knob.name for knob in Space.within({"oddness": (1, 3), "style": ("plain",)}).idle] == ["oddness"]
    finally:
        for knob in (style, oddness):
            REGISTERED.unregister(knob.name)


def test_links_are_drawn_for_the_memories_that_have_them_invariant_1() -> None:
    limits = {"modes": ["facts"], "stores": ["external"], "links": [2, 4]}
    space, rng = Space.within(limits), random.Random(0)
    assert not any("links" in anywhere(space, rng) for _ in range(9))
    mixed = Space.within({**limits, "backends": ["builtin", "linked-facts", "playbook"]})
    points = [anywhere(mixed, rng) for _ in range(60)]
    assert {point["backend"] for point in points} == {"builtin", "linked-facts", "playbook"}
    assert all(("links" in point) == (point["backend"] == "linked-facts") for point in points)
    for point in points:
        assert mixed.point_of(apply_point(point, mixed, {})) == point


@pytest.mark.parametrize("mode", ["none", "facts"])
def test_a_knob_of_another_package_s_memory_has_an_effect_with_that_one_invariants_1_2(mode: str) -> None:
    when = When("backend", ("notebook",), "with backend: notebook")
    knob = Knob("half_life", "knobs.half_life", Range((1, 50)), when, default=10, named=True)
    REGISTERED.register(knob.name, knob)
    try:
        values = {**SHARED} if mode == "facts" else {"write": {"mode": "none"}}
        notebook, plain = (MemoryPolicy.model_validate({**values, "backend": name}) for name in ("notebook", None))
        assert policy_params(notebook)["knobs.half_life"] == 10
        assert "knobs.half_life" not in policy_params(plain)
        with pytest.raises(ValueError, match=r"knobs\.half_life: has no effect with "):
            MemoryPolicy.model_validate({**values, "knobs": {"half_life": 3}})
        kept = MemoryPolicy.model_validate({**values, "backend": "notebook", "knobs": {"half_life": 3}})
        point = Space().point_of(kept)
        assert point is not None
        assert MemoryPolicy.model_validate(moved(kept, point, Space(), Templates.bundled())) == kept
    finally:
        REGISTERED.unregister(knob.name)

"""Which memories a search may mix, as its config says."""

from __future__ import annotations

import pytest

from mnemotune.optimizer.config import Config, ConfigError, dump_config, load_config, parse_config
from mnemotune.policies.space import Space


def config(*overrides: str) -> Config:
    return load_config("quickstart.yaml", overrides=overrides)


@pytest.mark.parametrize(("seed", "memories"), [("awe", ("builtin",)), ("mem0", ("linked-facts",))])
def test_unless_it_names_any_a_search_has_the_memory_of_its_seed_policy(seed: str, memories: tuple[str, ...]) -> None:
    space = config(f"seed_policy={seed}").search.space
    assert space.memories == memories
    assert space.limits == config().search.space.limits, "nothing else is searched"


def test_the_memories_that_it_names_are_searched() -> None:
    named = config("search.space.backends=[builtin, linked-facts]", "search.space.links=[0, 4]")
    assert named.search.space.memories == ("builtin", "linked-facts")
    assert parse_config(dump_config(named), where="again") == named
    assert named.search.space == Space.within(named.search.space)


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (["search.space.backends=[bultin]"], "search.space: there is no memory 'bultin'; the nearest is builtin"),
        (["search.space.backends=[]"], "search.space.backends"),
        (["search.space.links=[0, 4]"], "search.space.links: has an effect only with .*linked-facts, .*linked-notes"),
        (["seed_policy=ace", "search.space.neighbours=[1, 4]"], "search.space.neighbours: has an effect only with"),
        (
            ["search.space.backends=[playbook]", "search.space.modes=[profile]"],
            "search.space.backends: has an effect only with write.mode: facts; allow that, or leave it out",
        ),
    ],
)
def test_what_has_no_effect_in_the_search_is_refused(overrides: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        config(*overrides)

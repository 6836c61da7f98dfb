"""Many memory policies to learn from: presets, files, random points of the space, and damaged ones."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...data.resources import load_yaml, resource
from ...policies.files import PolicyError, load_policy
from ...policies.policy import MemoryPolicy, default_prompts
from ...policies.prompts import Templates
from ...policies.space import Space
from .known import STRATEGIES
from .numbers import NumberSampler, apply_point

Origin = Literal["preset", "file", "random", "damaged"]
DAMAGES = (
    "too many kinds", "others", "brief and shared", "no form", "merge replaces", "merge drops", "too much at once",
)  # fmt: skip
MODES = ("verbatim", "facts", "facts", "profile", "profile")
"""Write modes of random policies; verbatim ones teach little, as they lose nothing."""
GOOD_UPDATES, GOOD_BUFFERS = (2, 8), (0, 12)
"""Ranges of ``update_every`` and ``buffer_size`` that do no harm, for policies that are damaged otherwise."""

_TEXTS: Mapping[str, Any] = load_yaml(resource("optimizer", "proposers", "population.yaml").read_text(encoding="utf-8"))
KINDS: tuple[str, ...] = tuple(_TEXTS["kinds"])
"""Kinds of information that suit most people's lives."""
TOO_MANY = tuple(f"{subject} and {feeling}" for subject in _TEXTS["subjects"] for feeling in _TEXTS["feelings"])
"""So many kinds that none gets much attention."""
PROFILE, FACTS = _TEXTS["profile"], _TEXTS["facts"]
"""Write prompts, as Python formats them: ``{what}`` says what is to be noted."""


@dataclass(frozen=True, slots=True)
class Member:
    """One policy of a population."""

    name: str
    origin: Origin
    prompt: str
    """What its write prompt is like, in a few words; empty where it has none."""
    policy: MemoryPolicy


def population(names: Sequence[str], *, seed: int, templates: Templates | None = None) -> list[Member]:
    """Return the policies that names stand for, each once.

    A name is ``presets``, ``random:N``, ``damaged:N``, a preset's name or a policy's file. Equal names and seeds give
    equal policies. Raises PolicyError naming the file and the field, or the form of a name.
    """
    members: dict[str, Member] = {}
    for name in names:
        for member in _members(name, seed, templates):
            members.setdefault(member.policy.key, member)
    return list(members.values())


def dealt(members: Sequence[Member], tasks: Sequence[str], *, each: int | None, seed: int) -> dict[str, list[Member]]:
    """Return the members for each task: ``each`` of them, or all.

    Members are dealt like cards from a deck that is shuffled anew when it is empty, so that each meets about as many
    tasks.
    """
    if each is None or each >= len(members):
        return {task: list(members) for task in tasks}
    rng, deck, hands = random.Random(f"deal:{seed}"), list[Member](), dict[str, list[Member]]()
    for task in tasks:
        hand = deck[:each]
        deck = deck[each:]
        if len(hand) < each:
            deck = rng.sample(list(members), len(members))
            more = [member for member in deck if member not in hand][: each - len(hand)]
            hand, deck = hand + more, [member for member in deck if member not in more]
        hands[task] = sorted(hand, key=members.index)
    return hands


def _members(name: str, seed: int, templates: Templates | None) -> Iterator[Member]:
    kind, colon, count = name.partition(":")
    if colon and kind in {"random", "damaged"}:
        if not re.fullmatch("[1-9][0-9]{0,3}", count):
            raise PolicyError(f"{name}: write {kind}:N with the number of policies below 10,000, such as {kind}:20")
        for i in range(int(count)):
            rng = random.Random(f"{kind}:{seed}:{i}")
            yield (_random if kind == "random" else _damaged)(f"{kind}-{i}", rng, templates)
        return
    for source in STRATEGIES if name == "presets" else (name,):
        policy = load_policy(source, templates=templates)
        prompt = "" if policy.prompts.write is None else "its own"
        yield Member(source, "preset" if source in STRATEGIES else "file", prompt, policy)


def _random(name: str, rng: random.Random, templates: Templates | None) -> Member:
    space = Space.within({"modes": [rng.choice(MODES)]})
    return _member(name, "random", space, *_ordinary(rng), rng, templates)


def _ordinary(rng: random.Random) -> tuple[str, str]:
    kinds = rng.choice((0, 0, 5, 10, 15))
    listed = rng.sample(KINDS, kinds)
    return _wish(listed, *(rng.choice(list(_TEXTS[part])) for part in ("lengths", "labels", "further")))


def _wish(listed: Sequence[str], length: str, labels: str, further: str) -> tuple[str, str]:
    """Return what a write prompt asks for: in a few words, and as its text."""
    name = " ".join(filter(None, [f"{len(listed)} kinds" if listed else "vague", length, labels, further]))
    parts = _TEXTS["lengths"][length], _TEXTS["labels"][labels], _TEXTS["further"][further]
    lines = "Note what the conversation tells about:\n" + "\n".join(f"- {kind}" for kind in listed)
    return name, "\n".join(filter(None, [" ".join(filter(None, parts)), lines if listed else "Note what matters."]))


def _damaged(name: str, rng: random.Random, templates: Templates | None) -> Member:
    """Damage an ordinary policy in one way: its write prompt, its merge prompt, or how much it has to write at once."""
    damage = rng.choice(DAMAGES)
    mode = "facts" if damage.startswith("merge") else rng.choice(("facts", "profile"))
    updates = (12, 24) if damage == "too much at once" else GOOD_UPDATES
    space = Space.within({"modes": [mode], "update_every": updates, "buffer_size": GOOD_BUFFERS})
    wishes = {
        "too many kinds": _wish(rng.sample(TOO_MANY, rng.choice((40, 50, 60))), "", "", ""),
        "others": _wish(_TEXTS["others"], rng.choice(["", "full"]), "", ""),
        "brief and shared": _wish([], "brief", "topic", "replaces"),
    }
    _, what = wishes.get(damage) or _ordinary(rng)
    return _member(name, "damaged", space, damage, what, rng, templates)


def _member(
    name: str, origin: Origin, space: Space, label: str, what: str, rng: random.Random, templates: Templates | None
) -> Member:
    point = NumberSampler(space, [], seed=rng.randrange(2**31)).jump()
    mode = point["mode"]
    prompts = default_prompts(mode, point["store"], templates)
    if mode == "verbatim":
        return Member(name, origin, "", apply_point(point, space, prompts))
    prompts["write"] = (PROFILE if mode == "profile" else FACTS).format(what=what)
    if label == "no form":  # it asks for talk, so that what is written cannot be read
        asks = "What do you make of it?\n\nEarlier:\n{conversation}"
        prompts["write"] = re.sub(r"^Return .*", asks, prompts["write"], flags=re.DOTALL | re.MULTILINE)
    if label == "merge replaces":
        prompts["merge"] = f"{_TEXTS['replaces_all']}\n{prompts['merge']}"
    if label == "merge drops":  # what is new is to be written over something known, or not at all
        prompts["merge"] = prompts["merge"].replace('"ADD" it, ', "").replace('"event": "ADD", ', '"event": "NONE", ')
    return Member(name, origin, label, apply_point(point, space, prompts))

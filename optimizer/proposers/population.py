"""Many memory policies to learn from: presets, files, random points of the space, and damaged ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ...policies.files import PolicyError, load_policy
from ...policies.policy import MemoryPolicy, default_prompts
from ...policies.prompts import Templates
from ...policies.space import Space
from .known import STRATEGIES
from .numbers import NumberSampler, apply_point

Origin = Literal["preset", "file", "random", "damaged"]
DAMAGES = (
    "too many kinds", "others", "brief and shared", "unheard", "merge replaces", "merge drops", "too much at once",
)  # fmt: skip
MODES = ("verbatim", "facts", "facts", "profile", "profile")
"""What a random policy writes; messages as they are teach little, since nothing is ever lost."""
GOOD_UPDATES, GOOD_BUFFERS = (2, 8), (0, 12)
"""Messages at a time and messages kept of a policy that is about to be damaged: it is to suffer from nothing else."""

KINDS = (
    "place: home, garden, kitchen, outdoors, town",
    "equipment: tools, gear, machines, materials",
    "time of day: morning, lunch, afternoon, evening, night",
    "how often: daily, weekly, monthly, rarely",
    "how long: minutes, hours, a weekend",
    "money: budget, price, savings, income",
    "company: alone, partner, family, friends, club",
    "purpose: fun, health, competition, learning, business",
    "level: beginner, experienced, expert",
    "method: by hand, by machine, from a book, online",
    "health: pain, injury, fitness, sleep",
    "food and drink: meals, diet, ingredients",
    "animals: dog, cat, birds, fish",
    "work: office, remote, shifts, customers",
    "travel: car, train, bicycle, on foot",
)
"""Kinds of information that suit most people's lives."""
OTHERS = (
    "friends, neighbours and colleagues: what they do, own and like",
    "relatives: brother, sister, mother, father, cousin, aunt, uncle",
    "news, films, books and programmes that came up",
    "the weather, the street and things that happened",
)
"""Kinds that lead away from the user."""
TOO_MANY = tuple(f"{subject} and {feeling}" for subject in (
    "colours", "music", "films", "newspapers", "politics", "history", "languages", "schools", "presents", "letters",
    "insurance", "taxes",
) for feeling in ("dreams", "fears", "wishes", "opinions", "doubts"))  # fmt: skip
"""So many kinds that none gets much attention."""

LENGTHS = {
    "": "",
    "full": "Write down each statement in full, with every detail.",
    "brief": "Keep each note brief.",
}
LABELS = {"": "", "apart": "Give each matter a label of its own.", "topic": "Use the topic as the label."}
FURTHER = {
    "": "",
    "own": "Leave out other people: note statements about the user's own life only.",
    "dated": "Add the date to each note.",
    "replaces": "What is new on the same matter replaces what was noted.",
    "keeps": "Never overwrite what is known, add to it.",
}
REPLACES_ALL = "What is new on the same matter replaces what was known."

PROFILE = """Keep a profile of the user. {what}
The profile now:
{{memories}}

Return a JSON object with the labels to add or to overwrite, each with a text; {{}} when there is nothing to note.

Conversation:
{{conversation}}"""
FACTS = """Note facts about the user. {what}

Return JSON of this form, with an empty list when there is nothing to note:
{{"facts": ["...", "..."]}}

Conversation:
{{conversation}}"""


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
    equal policies. Raises PolicyError naming the file and the field, or what a name has to look like.
    """
    members: dict[str, Member] = {}
    for name in names:
        for member in _members(name, seed, templates):
            members.setdefault(member.policy.key, member)
    return list(members.values())


def dealt(members: Sequence[Member], tasks: Sequence[str], *, each: int | None, seed: int) -> dict[str, list[Member]]:
    """Return the members for each task: ``each`` of them, or all.

    They are dealt like cards, shuffled anew when all are given out, so that each member meets about as many tasks.
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
        if not count.isdecimal() or int(count) < 1:
            raise PolicyError(f"{name}: write {kind}:N with the number of policies, for example {kind}:20")
        for i in range(int(count)):
            rng = random.Random(f"{kind}:{seed}:{i}")
            yield (
                _random(f"{kind}-{i}", rng, templates) if kind == "random" else _damaged(f"{kind}-{i}", rng, templates)
            )
        return
    for source in STRATEGIES if name == "presets" else (name,):
        policy = load_policy(source, templates=templates)
        prompt = "" if policy.prompts.write is None else "its own"
        yield Member(source, "preset" if source in STRATEGIES else "file", prompt, policy)


def _random(name: str, rng: random.Random, templates: Templates | None) -> Member:
    return _member(name, "random", _space(rng), _ordinary(rng), rng, templates)


def _space(rng: random.Random) -> Space:
    return Space.within({"modes": [rng.choice(MODES)]})


@dataclass(frozen=True, slots=True)
class _Ask:
    """What a write prompt asks for."""

    name: str
    what: str


def _ordinary(rng: random.Random) -> _Ask:
    kinds = rng.choice((0, 0, 5, 10, 15))
    listed = rng.sample(KINDS, kinds)
    return _ask(listed, rng.choice(list(LENGTHS)), rng.choice(list(LABELS)), rng.choice(list(FURTHER)))


def _ask(listed: Sequence[str], length: str, labels: str, further: str) -> _Ask:
    name = " ".join(filter(None, [f"{len(listed)} kinds" if listed else "vague", length, labels, further]))
    prose = " ".join(filter(None, [LENGTHS[length], LABELS[labels], FURTHER[further]]))
    lines = "Note what the conversation tells about:\n" + "\n".join(f"- {kind}" for kind in listed)
    return _Ask(name, "\n".join(filter(None, [prose, lines if listed else "Note what matters."])))


def _damaged(name: str, rng: random.Random, templates: Templates | None) -> Member:
    """Damage an ordinary policy in one way: its write prompt, its merge prompt, or how much it has to write at once."""
    damage = rng.choice(DAMAGES)
    mode = "facts" if damage.startswith("merge") else rng.choice(("facts", "profile"))
    updates = (12, 24) if damage == "too much at once" else GOOD_UPDATES
    space = Space.within({"modes": [mode], "update_every": updates, "buffer_size": GOOD_BUFFERS})
    asks = {
        "too many kinds": _ask(rng.sample(TOO_MANY, rng.choice((40, 50, 60))), "", "", ""),
        "others": _ask(OTHERS, rng.choice(["", "full"]), "", ""),
        "brief and shared": _ask([], "brief", "topic", "replaces"),
    }
    ask = asks.get(damage) or _ordinary(rng)
    return _member(name, "damaged", space, _Ask(damage, ask.what), rng, templates)


def _member(
    name: str, origin: Origin, space: Space, ask: _Ask, rng: random.Random, templates: Templates | None
) -> Member:
    point = NumberSampler(space, [], seed=rng.randrange(2**31)).jump()
    mode = point["mode"]
    prompts = default_prompts(mode, point["store"], templates)
    if mode == "verbatim":
        return Member(name, origin, "", apply_point(point, space, prompts))
    prompts["write"] = (PROFILE if mode == "profile" else FACTS).format(what=ask.what)
    if ask.name == "unheard":  # the heading by which a reader finds what to note from
        prompts["write"] = prompts["write"].replace("Conversation:", "Earlier:")
    if ask.name == "merge replaces":
        prompts["merge"] = f"{REPLACES_ALL}\n{prompts['merge']}"
    if ask.name == "merge drops":  # what is new is to be written over something known, or not at all
        prompts["merge"] = prompts["merge"].replace('"ADD" it, ', "").replace('"event": "ADD", ', '"event": "NONE", ')
    return Member(name, origin, ask.name, apply_point(point, space, prompts))

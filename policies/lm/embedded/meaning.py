"""What sentences ask for: each is compared by its words' meaning with what the model can do.

A sentence is a row of acts (keep, leave out, rely on), things (details, dates, old notes) and words that turn or weigh
them (not, less, very). Every thing speaks for one pole of an ability, as "keywords" does for short notes; what stands
around it can turn that round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ...text import STOP_WORDS
from .clauses import STARTS, TURNS, clauses_of, points_back, starts_order, verbs
from .nearness import BE, is_done, is_part, part_before
from .wording import FIELDS, STOPS, Hit, Thing, hits_of, is_heading, names_events, split_sentences, vocabulary

ABILITIES = ("length", "dated", "replace", "own", "speakers", "labels", "newest", "memories")
"""What instructions can bear on. Of each the strength is positive for one pole and negative for the other:
long or short notes; with their dates or without; replacing what was known or kept beside it; of the user's own life or
of others' too; of both speakers or of the user alone; under labels of their own or shared ones; answers that rest on
the newest or on the first, and on memories or not."""
OF_NOTES = ABILITIES[:6]
"""Those that bear on what is written."""
STRONG, WEAK = 1.25, 0.5
"""Factors of a clause with a word such as "very", and with one such as "a little"."""
ON_CONDITION, WITH_CONDITION = 0.6, 0.9
"""Factors of what is asked for on a condition that precedes it, and before one that follows."""
EMPHASIS = 2.0
"""How much more a matter is asked for by a sentence that puts it first."""
MOST = 2.0
"""What a clause says of an ability, at most."""
MOST_STRANGE = 1
"""Words besides those of instructions, in a sentence that asks for what it just mentions, as "Short and sweet" does."""
_ASKS = STARTS | {"want", "unwanted", "only", "less", "more", "plenty", "retain"}
"""Groups of a sentence that asks for something."""
_NOTES = frozenset({"keep", "drop", "prefer", "use", "not", "focus"})
"""Groups of a sentence that names what is to be noted."""
_ANSWERED_FROM = frozenset({"~reply", "~source"})
"""Groups of a sentence that says what answers are drawn from."""
_ALWAYS = ("instead of", "rather than", "in place of", "as opposed to", "in lieu of", "unlike")
"""Words that set what follows against what precedes, whatever else is said."""
_SHARED = ("replace", "newest")
"""Abilities whose things are made of the same parts."""


@dataclass(frozen=True, slots=True)
class Sense:
    """What a sentence asks for."""

    strengths: Mapping[str, float]
    """By ability; zero is left out."""
    matters: tuple[tuple[str, float], ...] = ()
    """What is to be noted, or looked for: each matter with how much it is wanted, below 0 where it is not."""
    bearing: float = 1.0
    """What the sentence makes of a list that follows it: 1 where its items are asked for, -1 where they are not."""
    is_order: bool = False
    """Whether it starts with an act, or has no word that is not part of an instruction."""
    is_form: bool = False
    """Whether it says what a reply may hold."""
    strangers: int = 0
    """Words that are not part of an instruction."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What a thing says of an ability."""

    ability: str
    strength: float
    place: int
    """Of its hit in the clause."""
    is_verb: bool

    def turned(self, factor: float) -> _Said:
        return replace(self, strength=self.strength * factor)


@dataclass(slots=True)
class _State:
    """What is in force at a place of a clause."""

    sign: float = 1.0
    since: float = 1.0
    """What has turned since the last thing."""
    pending: float = 1.0
    """The same without contrasts, whose second part may be left to guess."""
    paired: set[tuple[str, int]] = field(default_factory=set)
    less: int = -9
    """The place of the last word for less."""
    too: bool = False
    dropped: bool = False
    """Whether an act of leaving out is in force."""
    verb: dict[str, float] = field(default_factory=dict)
    """Poles of verbs whose object is yet to come, by ability."""
    ranks: float = 0.0
    """-1 where what follows is what yields to something named before, 1 where it is what prevails over it."""
    said: list[_Said] = field(default_factory=list)
    signs: list[float] = field(default_factory=list)
    """What is in force at each hit."""

    def turn(self, factor: float) -> None:
        self.sign *= factor
        self.since *= factor
        self.pending *= factor
        self.verb.clear()

    def contrast(self) -> None:
        self.sign *= -1.0
        self.since *= -1.0
        self.verb.clear()

    def settle(self) -> None:
        self.since = self.pending = 1.0


def sense_of(text: str) -> tuple[Sense, ...]:
    """Return what each sentence of a text asks for."""
    return tuple(map(_sense, split_sentences(text)))


def limits_labels(sentence: str) -> bool:
    """Tell whether a sentence allows the labels that follow it, and no others."""
    hits = hits_of(sentence)
    named = any("~label" in hit.groups for hit in hits)
    asked = frozenset[str]().union(*(hit.groups for hit in hits))
    alone = not asked.isdisjoint({"only", "~these", "~allowed"})
    return named and alone and not asked.isdisjoint({"only", "keep", "use", "prefer", "not", "no", "~allowed"})


@lru_cache(maxsize=1 << 12)
def _sense(sentence: str) -> Sense:
    if names_events(sentence):
        return Sense({}, is_form=True)
    hits = hits_of(sentence)
    asked = frozenset[str]().union(*(hit.groups for hit in hits))
    if is_heading(sentence) and asked.isdisjoint(_ASKS | verbs()):
        return Sense({})
    starts = starts_order(hits)
    strange = [hit for hit in hits if _is_other(hit)]
    if starts or len(strange) <= MOST_STRANGE:
        asked |= {"alone"}
    total: dict[str, float] = dict.fromkeys(ABILITIES, 0.0)
    matters: list[tuple[str, float]] = []
    clauses = clauses_of(hits)
    bearing = condition = 1.0
    for i, clause in enumerate(clauses):
        if clause.hits[0].words == ";":
            condition = 1.0
        if clause.conditional:
            condition = ON_CONDITION
            continue
        read = clause.hits
        state = _read_clause(read, asked)
        if i and clauses[i - 1].conditional and not state.said and points_back(read):
            read = [*clauses[i - 1].hits[1:], *read]
            state = _read_clause(read, asked)
        follows = i + 1 < len(clauses) and clauses[i + 1].conditional
        factor = _degree(clause.hits) * (WITH_CONDITION if follows else condition)
        for ability, strength in _sums(state.said).items():
            total[ability] += factor * strength
        bearing = state.sign
        emphasis = EMPHASIS if "focus" in asked else 1.0
        matters += [(words, sign * condition * emphasis) for words, sign in _others(read, state.signs)]
    if "form" in asked or asked.isdisjoint(_NOTES):
        matters.clear()
    if "form" in asked:  # what a reply may hold is no wish but for its length
        total = {ability: strength if ability in ("length", "dated") else 0.0 for ability, strength in total.items()}
    strengths = {name: value for name, value in total.items() if value}
    return Sense(strengths, tuple(matters), bearing, starts or not strange, "form" in asked, len(strange))


def _sums(said: Sequence[_Said]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for each in said:
        sums[each.ability] = sums.get(each.ability, 0.0) + each.strength
    return {ability: max(-MOST, min(MOST, strength)) for ability, strength in sums.items()}


def _degree(hits: Sequence[Hit]) -> float:
    groups = frozenset[str]().union(*(hit.groups for hit in hits))
    return (STRONG if "strong" in groups else 1.0) * (WEAK if "weak" in groups else 1.0)


def _others(hits: Sequence[Hit], signs: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Yield the matters that a clause names, words that no instruction is made of up to a comma or an "and".

    Each comes with the sign in force at its first word.
    """
    run: list[str] = []
    first = 0
    for i, hit in enumerate((*hits, Hit(0, ",", frozenset()))):
        if hit.words in STOPS or not hit.groups.isdisjoint({"and", "or"} | STARTS):
            if run:
                yield " ".join(run), signs[first]
            run = []
        elif _is_other(hit):
            first = first if run else i
            run.append(hit.words)


def _is_other(hit: Hit) -> bool:
    """Tell whether a hit is a word that no instruction is made of."""
    return not (hit.groups or hit.words in STOP_WORDS or hit.words in STOPS)


def _read_clause(hits: Sequence[Hit], asked: frozenset[str]) -> _State:
    state = _State()
    for i, hit in enumerate(hits):
        _turn(state, hit, hits, i)
        for name in sorted(hit.groups):
            is_field = "form" in asked and hit.words in FIELDS
            if name.startswith("#") and not is_field and not is_done(hits, i):
                _say(state, vocabulary().things[name], i, hit, asked)
        _say_pairs(state, hits, i, asked)
        if "less" in hit.groups:
            state.less = hit.place
        state.too = state.too or "too" in hit.groups
        state.signs.append(state.sign)
    if _turns_what_precedes(hits):
        state.signs = [state.sign] * len(hits)
    if state.pending != 1.0 and _ends_turned(hits):
        state.said = [each if each.is_verb else each.turned(state.pending) for each in state.said]
    return state


def _is_done_to(state: _State, hits: Sequence[Hit], i: int) -> bool:
    """Tell whether an act of leaving out is said of what precedes it: "details should be dropped from notes"."""
    return bool(state.said) and state.since == 1.0 and i > 0 and hits[i - 1].words in BE


def _last_verb(state: _State) -> int:
    return max((each.place for each in state.said if each.is_verb), default=-1)


def _turns_what_precedes(hits: Sequence[Hit]) -> bool:
    """Tell whether the matters of a clause come before what is said of them: "politics should not be noted"."""
    turning = next((i for i, hit in enumerate(hits) if hit.groups & (TURNS | {"unwanted", "contrast"})), 0)
    before = hits[:turning]
    sets_apart = any(hit.groups & STARTS for hit in before) or "contrast" in hits[turning].groups  # as "except" does
    return any(map(_is_other, before)) and not sets_apart


def _ends_turned(hits: Sequence[Hit]) -> bool:
    """Tell whether the last word that turns is one that can follow what it turns."""
    turning = [hit for hit in hits if hit.groups & TURNS]
    return bool(turning) and "no" not in turning[-1].groups


def _turn(state: _State, hit: Hit, hits: Sequence[Hit], i: int) -> None:
    """Let an act, a negation or a contrast turn what follows it or, as what is said of something, what precedes."""
    groups = hit.groups
    if hit.words == "nor" and state.sign < 0:  # goes on with what is turned
        return
    if state.dropped and _goes_on(hits, i):  # "delete or overwrite": both stand under what precedes them
        state.turn(-1.0)
        state.dropped = False
    if groups & {"not", "no"} and not (groups & {"weak_not"}):
        state.turn(-1.0)
    elif "weak_not" in groups:
        state.turn(-WEAK)
    elif "unwanted" in groups and _is_thing(hits, i + 1):
        if state.sign > 0:  # "drop needless details" turns them once
            state.turn(-1.0)
    elif "unwanted" in groups or "want" in groups:
        pole = -1.0 if "unwanted" in groups else 1.0
        if state.said:
            state.said = [each.turned(state.since * pole) for each in state.said]
            state.sign *= pole
            state.settle()
        elif pole > 0 or not state.dropped:  # "avoid clutter" turns once
            state.sign *= pole
            state.since *= pole
    elif "clash" in groups:
        if state.since < 0:  # "never contradict"; else it tells what disagrees
            state.turn(-1.0)
            state.dropped = True
    elif "drop" in groups and _is_done_to(state, hits, i):
        state.said = [each.turned(-1.0) if each.place > _last_verb(state) else each for each in state.said]
        state.sign = -state.sign
        state.settle()
    elif "drop" in groups:
        state.turn(-1.0)
        state.dropped = True
    elif ("contrast" in groups and _contrasts(state, hits, i)) or (
        hit.words == "to" and state.said and any(other.words.startswith("prefer") for other in hits[:i])
    ):
        state.contrast()
    elif hit.words in ("to", "into", "with", "by", "in") or ("and" in groups and i and hits[i - 1].words == ","):
        state.verb.clear()


def _goes_on(hits: Sequence[Hit], i: int) -> bool:
    """Tell whether an act is the second of two of the same order, after one of leaving out."""
    is_act = not hits[i].groups.isdisjoint(STARTS | verbs())
    is_second = (
        i > 1
        and ("or" in hits[i - 1].groups or hits[i - 1].words == ",")
        and bool(hits[i - 2].groups & {"drop", "clash"})
    )
    return is_act and is_second


def _is_thing(hits: Sequence[Hit], place: int) -> bool:
    return place < len(hits) and any(name.startswith("#") for name in hits[place].groups)


def _contrasts(state: _State, hits: Sequence[Hit], i: int) -> bool:
    """Tell whether a word such as "over" sets what follows against what precedes."""
    groups = frozenset[str]().union(*(other.groups for other in hits))
    compared = groups & {"prefer", "want", "unwanted", "plenty", "use"} or "than" in hits[i].words
    return hits[i].words in _ALWAYS or bool(state.said and (compared or _is_thing(hits, i + 1)))


def _say(state: _State, thing: Thing, i: int, hit: Hit, asked: frozenset[str], *, paired: bool = False) -> None:
    """Let a thing speak for its pole as far as the clause turns it."""
    if not _counts(thing, asked):
        return
    pole, sign = thing.pole, state.sign
    if any(each.place == i and each.ability == thing.ability for each in state.said):
        return
    if thing.how == "verb":
        factor = math.copysign(1.0, pole) * state.since
        ranks = _ranks(state, hit, thing)
        state.said = [
            each.turned(ranks * state.since) if ranks and each.ability == "newest" else each for each in state.said
        ]
        state.said = [
            replace(each, strength=abs(each.strength) * factor)
            if each.ability == thing.ability and not each.is_verb
            else each
            for each in state.said
        ]
    elif thing.ability == "newest" and state.ranks:
        pole *= state.ranks
    elif thing.how != "adverb" and thing.ability in state.verb:
        pole = math.copysign(pole, state.verb[thing.ability])
    if not paired and 0 < hit.place - state.less <= 2:
        sign = -sign
        state.less = -9
    if state.too:
        sign = 0.7 * sign if sign < 0 else -0.7 * sign
        state.too = False
    state.said.append(_Said(thing.ability, pole * sign, i, thing.how == "verb"))
    state.settle()
    if thing.how == "verb":
        state.verb[thing.ability] = thing.pole
        state.ranks = -ranks
        if thing.ability == "replace" and not ranks:  # what replaces is the newest
            state.verb["newest"] = thing.pole


def _ranks(state: _State, hit: Hit, thing: Thing) -> float:
    """Return 1 where a verb says that what is named before prevails, -1 where it yields, 0 where none is named."""
    if thing.ability != "replace" or not any(each.ability == "newest" for each in state.said):
        return 0.0
    yields = hit.words.endswith(("ed", "en")) or hit.words.startswith(("give", "make"))
    return -1.0 if yields else 1.0


def _counts(thing: Thing, asked: frozenset[str]) -> bool:
    """Tell whether a sentence with these groups asks for anything with a thing."""
    match thing.how:
        case "asked" | "thing":
            return not asked.isdisjoint(_ASKS | verbs())
        case "kept":
            return not asked.isdisjoint({"retain", "drop", "want", "unwanted", "only"} | verbs())
        case "used":
            return not asked.isdisjoint({"use", "drop", "prefer", "not"}) or asked >= _ANSWERED_FROM
        case "trusted":
            return not asked.isdisjoint({"use", "drop", "prefer", "want", "unwanted", "contrast"} | verbs())
        case "measured":  # "labels to add, and their text" measures nothing
            return "form" not in asked
        case "alone":
            return "alone" in asked or not asked.isdisjoint(STARTS | {"only", "less", "retain"})
        case _:
            return True


def _say_pairs(state: _State, hits: Sequence[Hit], i: int, asked: frozenset[str]) -> None:
    """Let the things speak of which this hit is the later part."""
    words = vocabulary()
    for parts, names in words.pairs.items():
        for here, there in (parts, parts[::-1]):
            if not is_part(hits, i, here):
                continue
            other = part_before(hits, i, there)
            if other is None or any((names[0], place) in state.paired for place in (other, i)):
                continue
            state.paired |= {(names[0], other), (names[0], i)}
            state.said = [each for each in state.said if each.place not in (other, i) or each.ability in _SHARED]
            for name in names:
                _say(state, words.things[name], i, hits[i], asked, paired=True)
            break

"""What the model can say of its own: sides of a pastime that change, and the sentences of its talk."""

from __future__ import annotations

from importlib.resources import files
from zlib import crc32

from ....data.record import Record

Lines = tuple[str, ...]


class Facet(Record):
    """A side of a topic. Each value is two words. No word belongs to two values, so that words tell values apart."""

    values: Lines
    say: Lines
    """How people speak of it; slots ``topic`` and ``value``."""
    advice: Lines
    """How advice takes it up without naming it; slots ``first`` and ``second``, the value's words."""


class Phrases(Record):
    """The texts of ``phrases.json``; slots are in braces."""

    facets: dict[str, Facet]
    other: Facet
    """For info types that are not in ``facets``."""
    topics: Lines
    """Where a profile names too few."""
    questions: Lines
    chat: Lines
    ask: Lines
    names: Lines
    advice: Lines
    follow_ups: Lines
    elsewhere: Lines
    """For a reply that is about something else."""
    answers: Lines
    second_person: dict[str, str]
    """Words in the first person, and the same in the second person; replaced in this order."""


PHRASES = Phrases.model_validate_json(files(__package__).joinpath("phrases.json").read_bytes())


def pick(items: Lines | list[str], *seeds: str) -> str:
    """Return one of some texts; the same for the same seeds."""
    return items[hashed(*seeds) % len(items)]


def hashed(*seeds: str) -> int:
    """Return a number for texts, the same on every machine."""
    return crc32("\n".join(seeds).encode("utf-8", "surrogatepass"))

"""What stands around the evidence: sentences of notes, lines of logs."""

from __future__ import annotations

from .words import Draw

_SENTENCES = (
    "[[Nobody|No colleague|Hardly anybody]] has [[touched|opened|read]] the <<A>> shelf since the move to <<B>>.",
    "The [[screens|lamps|keys]] in the <<A>> room [[flicker|stick|hum]] whenever the <<B>> lift is in use.",
    "[[Before|After]] lunch the <<A>> group [[sorts|weighs|stamps]] what came in from <<B>>.",
    "<<A>> is [[an old|a short|the usual]] name of the <<B>> yard, and both are [[seen|heard]] now and then.",
    "When the <<A>> line is [[busy|down|slow]], people [[walk|write|ring]] to <<B>> instead.",
    "[[Printed|Signed|Stapled]] copies go to <<A>>, and <<B>> keeps [[none|the second|the thin ones]].",
    "The stairs to <<A>> are [[steep|narrow|closed in winter]], so crates wait near <<B>>.",
    "[[Somebody|A visitor|The night shift]] left a [[ladder|coat|kettle]] beside <<A>>; it belongs to <<B>>.",
    "In <<A>> a week has [[five|six]] days, which [[confuses|amuses]] guests from <<B>>.",
    "The [[paint|glue|ink]] of <<A>> needs [[an hour|a night|two cups of tea]] to dry, says <<B>>.",
    "[[Ask|Greet|Thank]] <<A>> [[first|politely|in writing]] when <<B>> is away.",
    "A [[map|drawing|photograph]] of <<A>> hangs behind the door that leads to <<B>>.",
    "The [[choir|chess club|cat]] of <<A>> [[meets|sleeps|eats]] in the hall of <<B>>.",
    "<<A>> would like [[fewer|longer|quieter]] meetings; <<B>> [[agrees|objects|shrugs]].",
    "Old [[tickets|reports|forms]] from <<A>> were [[burnt|bound|lost]] in the year of the <<B>> flood.",
    "[[Rain|Dust|Noise]] from the <<A>> side is [[harmless|annoying]], and <<B>> has [[curtains|filters]].",
    "The [[bench|tree|fountain]] near <<A>> was [[a gift|a bet|an accident]] of the <<B>> family.",
    "[[Trains|Boats|Carts]] to <<A>> stop at <<B>> only on [[request|market days|holidays]].",
    "Since spring the <<A>> crew [[wears|washes|mends]] [[green|grey|striped]] aprons of <<B>>.",
    "It [[takes|took]] [[patience|strength|luck]] to open the <<A>> cupboard without the <<B>> trick.",
)
_EVENTS = (
    "<<A>> [[greets|calls|passes]] <<B>> and goes on",
    "queue <<A>> is [[empty|calm|asleep]] while <<B>> waits",
    "<<A>> hands a [[parcel|token|list]] to <<B>>",
    "nothing new from <<A>>, <<B>> is [[idle|bored|resting]]",
    "<<A>> [[opens|closes|wipes]] the window of <<B>>",
    "tidy up: <<A>> before <<B>>",
    "heartbeat <<A>> to <<B>> is [[fine|steady|faint]]",
    "<<A>> [[repeats|forgets|drops]] a question of <<B>>",
)
_HEADINGS = ("About", "Around", "On", "Concerning", "From the days of", "Small things near")


def paragraphs(draw: Draw, tokens: int) -> list[str]:
    """Return paragraphs of notes, one a line, of about so many tokens together."""
    lines, size = list[str](), 0
    while size < tokens * 4:
        lines.append(f"## {draw.one_of(*_HEADINGS)} {draw.word().capitalize()}")
        for template in draw.rng.sample(_SENTENCES, draw.rng.randint(3, 5)):
            lines.append(_filled(draw, template))
        size = len("\n".join(lines))
    return lines


def events(draw: Draw, tokens: int) -> list[str]:
    """Return lines of a log of about so many tokens together."""
    lines, size = list[str](), 0
    while size < tokens * 4:
        lines.append(_filled(draw, draw.one_of(*_EVENTS)))
        size = len("\n".join(lines))
    return lines


def mixed_in(draw: Draw, lines: list[str], into: list[str]) -> list[str]:
    """Return lines spread over others, all in their order."""
    places = sorted(draw.rng.sample(range(len(into) + len(lines)), len(lines)))
    spread = list(into)
    for place, line in zip(places, lines, strict=True):
        spread.insert(place, line)
    return spread


def _filled(draw: Draw, template: str) -> str:
    return draw.line(template, A=draw.word().capitalize(), B=draw.word().capitalize())

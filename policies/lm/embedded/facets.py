"""What the model can think of when it makes a person up: sides of a pastime that change, and how one talks of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Facet:
    """A side of a topic; each value is two words, and no word belongs to two values, so that words tell them apart."""

    values: tuple[str, ...]
    say: tuple[str, ...]
    """How somebody tells it; slots ``topic`` and ``value``."""
    advice: tuple[str, ...]
    """How advice takes it up without naming it; slots ``first`` and ``second``, the value's words."""


FACETS: Mapping[str, Facet] = {
    "skill": Facet(
        ("complete_beginner", "steady_amateur", "seasoned_expert", "rusty_returner"),
        (
            "When it comes to {topic}, I am a {value} these days.",
            "I would call myself a {value} at {topic} now.",
        ),
        (
            "Choose steps that any {second} can follow, {first} or not.",
            "Exercises for a {second} fit best, the {first} kind above all.",
        ),
    ),
    "time": Facet(
        ("spare_minutes", "whole_weekends", "weekday_evenings", "early_mornings"),
        (
            "For {topic} I have {value} at the moment.",
            "My time for {topic} comes down to {value} now.",
        ),
        (
            "Spread it over {second}, the {first} ones you have.",
            "What fits into your {second} is enough, however {first}.",
        ),
    ),
    "money": Facet(
        ("tight_purse", "moderate_allowance", "generous_bonus", "borrowed_sum"),
        (
            "I pay for {topic} out of a {value} now.",
            "My money for {topic} is a {value} at present.",
        ),
        (
            "Let your {second}, {first} as it is, set the limit.",
            "Buy what the {second} covers, since it is {first}.",
        ),
    ),
    "company": Facet(
        ("solitary_retreat", "intimate_duo", "noisy_crowd", "online_club"),
        (
            "In {topic} my company is a {value} nowadays.",
            "I now enjoy {topic} best as a {value}.",
        ),
        (
            "Arrange it so that the {second} stays {first}.",
            "It suits a {second} well, and a {first} one most of all.",
        ),
    ),
    "place": Facet(
        ("cramped_balcony", "rented_studio", "public_park", "rural_barn"),
        (
            "My place for {topic} is a {value} now.",
            "I have moved {topic} to a {value}.",
        ),
        (
            "Set it up with the {second} in mind, {first} as it is.",
            "Measure the {second} first, for whatever is {first} has rules of its own.",
        ),
    ),
    "goal": Facet(
        ("relaxing_escape", "serious_contest", "paid_sideline", "charity_project"),
        (
            "What I want from {topic} is a {value} now.",
            "For me {topic} has become a {value}.",
        ),
        (
            "Treat it as the {second} it is, {first} before all.",
            "Everything should serve the {second}, so let it stay {first}.",
        ),
    ),
    "body": Facet(
        ("aching_knees", "boundless_stamina", "poor_eyesight", "recovering_shoulder"),
        (
            "With {topic} I have to reckon with my {value}.",
            "My {value} shows whenever I turn to {topic}.",
        ),
        (
            "Mind your {second}, which may be {first} for a while.",
            "Adapt each step to your {second}, as something {first} asks for it.",
        ),
    ),
    "equipment": Facet(
        ("secondhand_basics", "professional_kit", "improvised_leftovers", "loaned_machinery"),
        (
            "My equipment for {topic} is {value} at the moment.",
            "I do {topic} with {value} now.",
        ),
        (
            "Work with the {second}, all of it {first}.",
            "Your {second} will do, though {first}.",
        ),
    ),
    "teacher": Facet(
        ("private_tutor", "printed_manuals", "video_lessons", "stubborn_guesswork"),
        (
            "I learn {topic} through {value} at present.",
            "My teacher in {topic} is {value} now.",
        ),
        (
            "Take the next step from your {second}, since {first} help is at hand.",
            "Ask more of the {second}; being {first}, it suits a slow start.",
        ),
    ),
    "mood": Facet(
        ("bored_indifference", "curious_spark", "overwhelming_pressure", "proud_enthusiasm"),
        (
            "My feeling about {topic} is {value} just now.",
            "When I think of {topic}, I feel {value}.",
        ),
        (
            "Begin where the {second} comes from, {first} as you are.",
            "Let the {second} guide you, for it is {first} and honest.",
        ),
    ),
    "pace": Facet(
        ("frantic_sprint", "gradual_drift", "occasional_rush", "fixed_timetable"),
        (
            "I go at {topic} in a {value} nowadays.",
            "My pace in {topic} is a {value} now.",
        ),
        (
            "Plan it as a {second}, and a {first} one.",
            "A {second} suits you, so keep to what is {first}.",
        ),
    ),
    "transport": Facet(
        ("folding_bicycle", "packed_tram", "shared_van", "electric_scooter"),
        (
            "I get to {topic} by {value} now.",
            "My way to {topic} is a {value} these days.",
        ),
        (
            "Take no more than the {second} can carry, {first} as it is.",
            "Think of the {second} on the way home, which is {first}.",
        ),
    ),
    "family": Facet(
        ("toddler_bustle", "teenage_rebellion", "empty_nest", "ageing_grandma"),
        (
            "At home I fit {topic} around my {value}.",
            "My family life leaves {topic} to a {value} now.",
        ),
        (
            "Leave room for the {second} at home, {first} and all.",
            "Talk it over at home first: the {second} comes before it, {first} or otherwise.",
        ),
    ),
}
OTHER = Facet(
    (),
    ("As for {topic}, I can now speak of {value}.", "My {topic} is {value} at present."),
    ("Think of {second}, and of {first}.", "What matters here is {second}, then {first}."),
)
"""For info types that somebody else thought of."""

TOPICS = (
    "home cooking",
    "house cleaning",
    "weekend outings",
    "birthday presents",
    "evening reading",
    "staying fit",
    "keeping in touch",
    "neighbourhood life",
    "holiday plans",
    "listening to music",
    "house plants",
    "clothes shopping",
)
"""Where a profile names too few."""
QUESTIONS = (
    "How should I go about {topic} in the coming weeks?",
    "What would you suggest for my next steps with {topic}?",
    "Which advice on {topic} suits me best?",
    "How can I get more out of {topic}?",
    "What should I watch out for with {topic}?",
)
CHAT = (
    "It has been quite a week.",
    "I hope you had a good day.",
    "The rain would not stop today.",
    "I have just made myself some tea.",
    "There is a lot going on here.",
)
ASK = (
    "Do you have an idea for {topic}?",
    "What could I try next with {topic}?",
    "Could you help me to plan {topic}?",
    "Which mistakes are common in {topic}?",
)
NAMES = ("Robin Ashby", "Kim Larsen", "Alex Moreno", "Sascha Vogel", "Jo Whitfield", "Noor Haddad")

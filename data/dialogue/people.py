"""Who the simulated users are."""

import random
from collections.abc import Sequence

from .scenario import UserProfile

NAMES = {
    "female": (
        "Ada",
        "Beatriz",
        "Carmen",
        "Dilara",
        "Esther",
        "Fiona",
        "Grace",
        "Hana",
        "Ines",
        "Joyce",
        "Keiko",
        "Lena",
    ),
    "male": ("Aaron", "Bruno", "Cyrus", "Dmitri", "Emeka", "Felix", "Gareth", "Hugo", "Ivan", "Jamal", "Kenji", "Luis"),
}
SURNAMES = (
    "Abara",
    "Brandt",
    "Costa",
    "Dunne",
    "Eriksen",
    "Farrow",
    "Greco",
    "Hale",
    "Ito",
    "Jansen",
    "Kaya",
    "Lindqvist",
    "Moreau",
    "Novak",
    "Okafor",
    "Park",
    "Quist",
    "Rossi",
    "Silva",
    "Tanner",
)
OCCUPATIONS = (
    "school librarian",
    "electrician",
    "dental nurse",
    "bus driver",
    "graphic designer",
    "baker",
    "surveyor",
    "call centre supervisor",
    "lab technician",
    "carpenter",
    "bookkeeper",
    "museum guide",
    "pharmacist",
)
EDUCATION = ("secondary school", "vocational training", "bachelor's degree", "master's degree")
STATUS = ("never married", "married", "living with a partner", "divorced", "widowed")
SKILLS = (
    "patient with details",
    "good at explaining things",
    "quick with numbers",
    "handy with tools",
    "a careful planner",
    "at ease with strangers",
)
TEMPER = (
    "Likes to think aloud and to hear several options before deciding.",
    "Prefers short, practical advice that can be tried the same evening.",
    "Enjoys a friendly chat and often mentions what family and neighbours are up to.",
    "Wants to know the reasons behind a suggestion.",
)


def person(rng: random.Random, *, hobbies: Sequence[str]) -> UserProfile:
    """Make up a person; nothing of it depends on the states of the user's life."""
    gender = rng.choice(sorted(NAMES))
    fields = {
        "name": f"{rng.choice(NAMES[gender])} {rng.choice(SURNAMES)}",
        "age": str(rng.randint(24, 71)),
        "gender": gender,
        "marital_status": rng.choice(STATUS),
        "education_level": rng.choice(EDUCATION),
        "occupation": rng.choice(OCCUPATIONS),
        "hobbies_and_interests": ", ".join(hobby.replace("_", " ") for hobby in sorted(hobbies)),
        "skills_and_expertise": rng.choice(SKILLS),
        "complementary_info": rng.choice(TEMPER),
    }
    formatted = "\n".join(f"{key}: {value}" for key, value in fields.items())
    return UserProfile.model_validate({**fields, "age": int(fields["age"]), "formatted_str": formatted})

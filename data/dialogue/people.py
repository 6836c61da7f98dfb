"""Who the simulated users are."""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ..resources import load_yaml, resource
from .scenario import UserProfile


@cache
def _choices() -> dict[str, Any]:
    choices: dict[str, Any] = load_yaml(resource("data", "dialogue", "people.yaml").read_text(encoding="utf-8"))
    return choices


def person(rng: random.Random, *, hobbies: Sequence[str]) -> UserProfile:
    """Make up a person; nothing of it depends on the states of the user's life."""
    choices = _choices()
    gender = rng.choice(sorted(choices["names"]))
    fields = {
        "name": f"{rng.choice(choices['names'][gender])} {rng.choice(choices['surnames'])}",
        "age": str(rng.randint(24, 71)),
        "gender": gender,
        "marital_status": rng.choice(choices["marital_status"]),
        "education_level": rng.choice(choices["education_level"]),
        "occupation": rng.choice(choices["occupation"]),
        "hobbies_and_interests": ", ".join(hobby.replace("_", " ") for hobby in sorted(hobbies)),
        "skills_and_expertise": rng.choice(choices["skills_and_expertise"]),
        "complementary_info": rng.choice(choices["complementary_info"]),
    }
    return profile(fields)


def profile(fields: Mapping[str, str], **more: str) -> UserProfile:
    """Return the profile of fields, which the simulated user is shown line by line; ``more`` is not shown."""
    age: dict[str, Any] = {"age": int(fields["age"])} if fields["age"].isdecimal() else {}
    formatted = "\n".join(f"{key}: {value}" for key, value in fields.items())
    return UserProfile.model_validate({**more, **fields, **age, "formatted_str": formatted})

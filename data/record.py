"""Frozen values that are read from JSON or YAML."""

from pydantic import BaseModel, ConfigDict, ValidationError


class Record(BaseModel):
    """A frozen value read from text; unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def first_problem(error: ValidationError, *, whole: str = "file") -> str:
    """Return the first thing that is wrong, after its place; ``whole`` is the place of what is wrong as a whole."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"

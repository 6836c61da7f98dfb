"""Frozen values that are read from JSON or YAML."""

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from .nearest import nearest


class Record(BaseModel):
    """A frozen value read from text; unknown fields, and numbers that are not finite, are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_truth_as_a_number(cls, values: Any) -> Any:
        for name, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, bool) and name in cls.model_fields:
                kinds = _kinds(cls.model_fields[name].annotation)
                if kinds & {int, float} and not kinds & {bool, Any}:
                    raise ValueError(f"{name}: {str(value).lower()} is no number")
        return values


def _kinds(annotation: Any) -> set[Any]:
    """Return the types that a field may have, one level of a union deep."""
    return {annotation, *get_args(annotation), *(kind for part in get_args(annotation) for kind in get_args(part))}


def nearest_field(model: type[BaseModel], place: Sequence[int | str]) -> str | None:
    """Return the field whose name is most like the last part of a place in a record; None where none is like it."""
    records = {model}
    for part in place[:-1]:
        fields = [record.model_fields[part] for record in records if part in record.model_fields]
        kinds = {kind for known in fields for kind in _kinds(known.annotation)}
        records = {kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)} or records
    names = {name for record in records for name in record.model_fields}
    return nearest(str(place[-1]), names)


def first_problem(error: ValidationError, *, whole: str = "file") -> str:
    """Return the first thing that is wrong, after its place; ``whole`` is the place of what is wrong as a whole."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"

"""Rows of SWE-bench and SWE-Gym: tasks without a plan, for an agent that plans by itself."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..record import first_problem
from ..task import TaskError
from .task import SweTask

SWE_BENCH = frozenset(
    """astropy/astropy django/django matplotlib/matplotlib mwaskom/seaborn pallets/flask psf/requests pydata/xarray
    pylint-dev/pylint pytest-dev/pytest scikit-learn/scikit-learn sphinx-doc/sphinx sympy/sympy""".split()
)
"""The repositories of SWE-bench; those of SWE-Gym are others."""
TEST_COMMAND = "python -m pytest -rA --tb=short"


def _listed(value: Any) -> Any:
    """Return a list as it is, and what a JSON text holds."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("is neither a list nor a JSON text of one") from None


Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_listed)]
Text = Annotated[str, Field(pattern=r"\S")]


class SweRow(BaseModel):
    """A row as it is published; fields that no task needs are left aside."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    instance_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)
    repo: str = Field(pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$", max_length=200)
    problem_statement: Text
    patch: Text
    test_patch: str = ""
    base_commit: str | None = Field(default=None, pattern=r"^([A-Za-z0-9][A-Za-z0-9._/-]*)?$", max_length=200)
    fail_to_pass: Names = Field(alias="FAIL_TO_PASS", min_length=1)
    pass_to_pass: Names = Field(alias="PASS_TO_PASS")
    image_name: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9._/:@-]*$", max_length=250)


def image_of(row: SweRow) -> str:
    """Return the image of a row: the one that it names, else by the rule of SWE-bench or of SWE-Gym."""
    if row.image_name:
        return row.image_name
    name = row.instance_id.lower()
    if row.repo.lower() in SWE_BENCH:
        return f"swebench/sweb.eval.x86_64.{name.replace('__', '_1776_')}"
    return f"xingyaoww/sweb.eval.x86_64.{name.replace('__', '_s_')}"


def task_of(row: Any, *, where: str) -> SweTask:
    """Return the task of a row. Raises TaskError, beginning with ``where``, that names the field."""
    try:
        read = SweRow.model_validate(row)
    except ValidationError as error:
        raise TaskError(f"{where}: {' '.join(first_problem(error, whole='row').split())}") from None
    if both := sorted({*read.fail_to_pass} & {*read.pass_to_pass}):
        raise TaskError(f"{where}: PASS_TO_PASS: {both[0][:80]!r} is in FAIL_TO_PASS too")
    return SweTask(
        id=read.instance_id,
        group=read.repo,
        stages=1,
        problem=read.problem_statement,
        files={},
        patch=read.patch,
        test_command=TEST_COMMAND,
        fail_to_pass=read.fail_to_pass,
        pass_to_pass=read.pass_to_pass,
        test_patch=read.test_patch,
        image=image_of(read),
        base=read.base_commit or "",
    )

"""The packages whose environments are there."""

from __future__ import annotations

import os

import pytest

from mnemotune.policies.memory.packages.process import python_variable
from mnemotune.policies.space import PACKAGES


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> str:
    variable = python_variable(request.param)
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no environment that has {request.param}")
    return str(request.param)

"""The packages that are there."""

from __future__ import annotations

import pytest

from mnemotune.policies.memory.packages.process import PackageError, python_of
from mnemotune.policies.space import PACKAGES


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> str:
    try:
        python_of(request.param)
    except PackageError as error:
        pytest.skip(str(error))
    return str(request.param)

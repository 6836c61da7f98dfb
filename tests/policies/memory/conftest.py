"""The packages that are there, with the database that one of them needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mnemotune.policies.memory.packages.process import (
    DATABASES,
    PackageError,
    database_variable,
    process_of,
    python_of,
)
from mnemotune.policies.space import PACKAGES
from postgresql import Server, postgresql_server


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    with postgresql_server() as server:
        yield server


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    try:
        python_of(name)
    except PackageError as error:
        pytest.skip(str(error))
    if name in DATABASES:
        monkeypatch.setenv(database_variable(name), request.getfixturevalue("database").url())
    return name


@pytest.fixture
def files(package: str, request: pytest.FixtureRequest) -> Callable[[], list[Path]]:
    """Return what lists the files that a package writes."""

    def of_a_package() -> list[Path]:
        folder = process_of(package).folder
        if package in DATABASES:
            server = request.getfixturevalue("database")
            server.ask("CHECKPOINT")  # until then tables are in memory
            folder = server.folder / "data" / "base"
        return [file for file in folder.rglob("*") if file.is_file()]

    return of_a_package

"""What holds for every test: equal examples, no waiting for the disk, and one of many that differ by chance alone.

``pytest --all`` runs every repeat, and more examples; ``HYPOTHESIS_PROFILE=exploring pytest`` looks for new ones.
"""

from __future__ import annotations

import gc
import os
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import settings
from optuna.storages._rdb.storage import _VersionManager
from sqlalchemy import Engine, event

from engine import docker_engine
from mnemotune.data import heap
from postgresql import Server, postgresql_server

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("thorough", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("exploring", deadline=None)


@event.listens_for(Engine, "connect")
def _do_not_wait_for_the_disk(connection: Any, _: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


def _read_optunas_migrations_once() -> None:
    """Each study that is opened reads them again, which takes a fifth of a second; they are the same for all."""
    read = _VersionManager._create_alembic_script
    known: list[Any] = []

    def read_once(self: _VersionManager) -> Any:
        if not known:
            known.append(read(self))
        return known[0]

    _VersionManager._create_alembic_script = read_once  # type: ignore[method-assign]


_read_optunas_migrations_once()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run every member of the products marked exhaustive")
    parser.addini("exhaustive_share", "of each product marked exhaustive, one in this many runs", default="16")


def pytest_configure(config: pytest.Config) -> None:
    usual = "thorough" if config.getoption("--all") else "steady"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", usual))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Let one worker read the tests first: it compiles what the others would compile too."""
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None or session.config.cache is None:
        return (yield)
    folder = session.config.cache.mkdir("reading")
    with FileLock(folder / "lock"):
        last = folder / "last"
        if not last.exists() or last.read_text() != worker["testrunuid"]:
            last.write_text(worker["testrunuid"])
            return (yield)
    return (yield)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking again and again at what stays to the end."""
    gc.freeze()
    heap.collect_seldom()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one in ``exhaustive_share`` of the tests that differ only in what their marker names, at least one.

    Tests of a real model, and of other packages, are kept where they are asked for.
    """
    if any("::" in argument for argument in config.args):
        return
    for marker in ("model", "packages"):
        if marker not in config.option.markexpr:
            _leave_out({item for item in items if item.get_closest_marker(marker)}, config, items)
    if config.getoption("--all"):
        return
    products: dict[tuple[object, ...], list[pytest.Item]] = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("exhaustive")
        if marker is not None:
            values = item.callspec.params if hasattr(item, "callspec") else {}
            rest = sorted((name, repr(value)) for name, value in values.items() if name not in marker.args)
            products[item.nodeid.split("[")[0], *rest].append(item)
    share = int(config.getini("exhaustive_share"))
    left_out = set[pytest.Item]()
    for members in products.values():
        members.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        left_out.update(members[-(-len(members) // share) :])
    _leave_out(left_out, config, items)


def _leave_out(left_out: set[pytest.Item], config: pytest.Config, items: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL server; a test that stops it starts it again."""
    with postgresql_server() as server:
        yield server


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Docker engine, of which DOCKER_HOST has the address; processes of one run share it."""
    with docker_engine(tmp_path_factory.getbasetemp().parent / "docker") as address:
        yield address

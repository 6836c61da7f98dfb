"""Other packages' memories pass the tests that every memory passes, each in its own environment."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import re
import signal
import sys
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.metadata import metadata
from pathlib import Path

import pytest

from mnemotune.policies import MemoryPolicy
from mnemotune.policies.lm import LanguageModelError
from mnemotune.policies.lm.base import Completion, Message, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.lm.metered import Metered
from mnemotune.policies.memory import MEMORIES
from mnemotune.policies.memory.conformance import Make, MemoryConformance, Scribe, observe, talk, view
from mnemotune.policies.memory.packages import process
from mnemotune.policies.memory.packages.calls import MOST_CALLS
from mnemotune.policies.memory.packages.hosted import host
from mnemotune.policies.memory.packages.hosted.host import KINDS
from mnemotune.policies.memory.packages.hosted.naming import count_names, counting
from mnemotune.policies.memory.packages.process import (
    DATABASES,
    LEADS_ELSEWHERE,
    NO_EXTRAS,
    PackageError,
    Process,
    database_variable,
    process_of,
    python_of,
    python_variable,
)
from mnemotune.policies.memory.protocol import MemoryFault
from mnemotune.policies.memory.saving import Savable, dump_memory, restore_memory
from mnemotune.policies.space import PACKAGES
from postgresql import Server

IN_MEMORY = ("langmem", "a-mem-package")
"""Packages that write no files."""
ASKS_TO_READ = ("mem0ai-kuzu",)
ORDERED_BY_ARRIVAL = ("a-mem-package",)
"""Packages whose search puts what is equally near in the order in which its index got it."""
BRANCHES = 40
TALK = [
    Message("user", "I moved to Lisbon in May and I work as a nurse. Which bakery opens early there?"),
    Message("assistant", "Try the one at the corner of the square."),
]


REACHED = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "reply": None}), flush=True)
"""
"""A process that has its package, and keeps nothing."""


def policy_of(package: str, buffer_size: int = 2) -> MemoryPolicy:
    values = {"write": {"mode": "verbatim"}, "update_every": 2, "store": "external", "top_k": 30}
    return MemoryPolicy.model_validate({"backend": package, "buffer_size": buffer_size, **values})


class EmbeddedScribe(Scribe):
    """The embedded model, which reads what packages ask; it fails while ``fails`` is set."""

    def __init__(self) -> None:
        self.model = EmbeddedModel()

    async def complete(self, request: Request) -> Completion:
        if self.fails:
            raise LanguageModelError("this model fails")
        return await self.model.complete(request)


class AddingScribe(EmbeddedScribe):
    """It takes no fact for news of another one, where a package asks what becomes of each."""

    async def complete(self, request: Request) -> Completion:
        completion = await super().complete(request)
        text = re.sub(r'"UPDATE", "id": "\d+"', '"ADD"', completion.text)
        return replace(completion, text=text)


@pytest.mark.packages
@pytest.mark.timeout(900)
class TestPackages(MemoryConformance):
    rounds = 6
    package: str

    @pytest.fixture
    def make(self, package: str) -> Make:
        self.package = package
        return lambda model: MEMORIES.get(package)(policy_of(package), model, LexicalEmbedder())

    @pytest.fixture
    def model(self) -> Scribe:
        return AddingScribe()

    async def test_a_failing_model_leaves_it_as_it_was(self, make: Make, model: Scribe) -> None:
        if self.package in ASKS_TO_READ:
            pytest.skip(f"{self.package} cannot be read while the model fails: its search asks the model")
        await super().test_a_failing_model_leaves_it_as_it_was(make, model)

    async def test_what_is_saved_comes_back(self, make: Make, model: Scribe) -> None:
        if self.package not in ORDERED_BY_ARRIVAL:
            await super().test_what_is_saved_comes_back(make, model)
            return
        memory, other = make(model), make(model)
        await observe(memory, talk("heron", self.rounds))
        saved, seen = await dump_memory(memory), await view(memory)
        await restore_memory(other, saved, where="a file")
        assert await view(other) == seen
        assert await dump_memory(other) == saved
        await memory.aclose()
        await other.aclose()
        pytest.skip(f"{self.package} goes on another way once it is loaded, where notes are equally near")

    async def test_its_calls_are_metered_as_writes_and_its_memories_come_back(self, package: str) -> None:
        model = Metered(EmbeddedModel())
        memory = MEMORIES.get(package)(policy_of(package, buffer_size=0), model, LexicalEmbedder())
        (event,) = await memory.observe(TALK)
        assert event.evicted == tuple(TALK)
        assert any("Lisbon" in line for line in event.after)
        assert set(model.ledger.by_role) == {"write"}
        context = await memory.context("What did the nurse from Lisbon ask?", tokens=100)
        assert any("Lisbon" in item.text for item in context.items)
        await memory.aclose()

    async def test_what_is_forgotten_is_in_no_file_of_the_package(
        self, package: str, files: Callable[[], list[Path]]
    ) -> None:
        gc.collect()  # what other tests have left, whose words are the same
        memory = MEMORIES.get(package)(policy_of(package, buffer_size=0), EmbeddedModel(), LexicalEmbedder())
        await memory.observe(TALK)
        assert package in IN_MEMORY or holds(files(), b"Lisbon")
        assert await memory.forget(lambda text: "Lisbon" in text)
        await memory.context("Which bakery opens early?", tokens=100)  # what nobody holds goes with a request
        assert not holds(files(), b"Lisbon")
        await memory.aclose()

    async def test_forty_memories_branch_off_from_one_and_each_goes_its_own_way(
        self, make: Make, model: Scribe
    ) -> None:
        memory = make(model)
        await observe(memory, talk("heron", 2))
        before = await memory.listing()
        for branch in range(BRANCHES):
            fork = await memory.fork()
            await observe(fork, talk(f"osprey-{branch}", 2))
            assert any(f"osprey-{branch}" in item.text for item in await fork.listing())
            await fork.aclose()
        assert await memory.listing() == before
        await memory.aclose()


def holds(files: Iterable[Path], text: bytes) -> bool:
    return any(text in file.read_bytes() for file in files)


@pytest.mark.packages
@pytest.mark.parametrize("package", DATABASES, indirect=True)
async def test_what_a_process_has_left_in_a_database_goes_when_it_ends_or_when_the_next_one_starts(
    package: str, database: Server
) -> None:
    def schemas() -> int:
        return len(database.ask("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 'mnemotune')"))

    async def write() -> Process:
        memory = MEMORIES.get(package)(policy_of(package, buffer_size=0), EmbeddedModel(), LexicalEmbedder())
        await memory.observe(TALK)
        await memory.aclose()
        return process_of(package)

    process_of(package).end()
    killed = await write()
    os.kill(killed.pid, signal.SIGKILL)
    while not killed.ended:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.01)
    assert schemas() == 1
    ended = await write()
    assert schemas() == 1
    ended.end()
    assert schemas() == 0


@pytest.mark.packages
@pytest.mark.parametrize("package", DATABASES, indirect=True)
async def test_what_stands_at_the_beginning_of_a_line_is_forgotten_too(
    package: str, files: Callable[[], list[Path]]
) -> None:
    memory = MEMORIES.get(package)(policy_of(package, buffer_size=0), EmbeddedModel(), LexicalEmbedder())
    await memory.observe([Message("user", "I moved in May.\nLisbon is where I live."), TALK[1]])
    assert holds(files(), b"Lisbon")
    await memory.forget(lambda text: bool(re.search(r"\bLisbon\b", text)))
    await memory.context("Which bakery opens early?", tokens=100)
    assert not holds(files(), b"Lisbon")
    await memory.aclose()


@pytest.mark.packages
@pytest.mark.parametrize("package", DATABASES, indirect=True)
async def test_a_process_that_has_lost_its_database_ends_and_the_next_memory_gets_another_one(
    package: str, database: Server
) -> None:
    memory = MEMORIES.get(package)(policy_of(package, buffer_size=0), EmbeddedModel(), LexicalEmbedder())
    await memory.observe(TALK)
    others = "pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    database.ask(f"SELECT pg_terminate_backend(pid) FROM {others}")  # noqa: S608 - of this line
    with pytest.raises(MemoryFault, match="its process ended"):
        await memory.observe(TALK)
    other = MEMORIES.get(package)(policy_of(package, buffer_size=0), EmbeddedModel(), LexicalEmbedder())
    assert await other.observe(TALK)
    await memory.aclose()
    await other.aclose()


@pytest.mark.packages
@pytest.mark.parametrize("package", DATABASES, indirect=True)
async def test_a_nul_and_half_a_character_are_no_fault(package: str) -> None:
    memory = MEMORIES.get(package)(policy_of(package, buffer_size=0), EmbeddedModel(), LexicalEmbedder())
    (event,) = await memory.observe([Message("user", "I moved to Lisbon\0 in May \ud800 and like it."), TALK[1]])
    assert any("Lisbon" in line for line in event.after)
    await memory.aclose()


@pytest.mark.packages
@pytest.mark.parametrize("package", DATABASES, indirect=True)
@pytest.mark.parametrize("url", ["postgresql://someone:secret@127.0.0.1:1/nothing", "no URL"])
def test_a_database_that_cannot_be_reached_is_no_fault_of_a_policy(
    package: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(database_variable(package), url)
    with pytest.raises(PackageError, match=f"is {database_variable(package)} right") as caught:
        process_of(package)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_a_python_without_the_package_ends_what_would_use_it_and_is_named(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    monkeypatch.setenv(python_variable(package), str(bare))
    monkeypatch.setenv(database_variable(package), "postgresql://127.0.0.1:1/nothing")
    wanted = rf"backend: {package}: ModuleNotFoundError: No module named '.*'; is {python_variable(package)} right\?"
    with pytest.raises(PackageError, match=wanted):
        MEMORIES.get(package)(policy_of(package), EmbeddedModel(), LexicalEmbedder())


def test_a_package_that_needs_a_database_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOTUNE_NEMORI_PACKAGE_PYTHON", sys.executable)
    monkeypatch.delenv("MNEMOTUNE_NEMORI_PACKAGE_DATABASE", raising=False)
    with pytest.raises(PackageError, match="set MNEMOTUNE_NEMORI_PACKAGE_DATABASE to a database's URL"):
        process_of("nemori-package")


def test_a_package_that_is_not_there_is_an_error_that_says_how_to_bring_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNEMOTUNE_MEM0AI_PYTHON", raising=False)
    monkeypatch.setattr(process, "has_extra", lambda package: False)
    wanted = "pip install 'mnemotune[mem0ai]', or install it into an environment of its own and set MNEMOTUNE_MEM0AI"
    with pytest.raises(PackageError, match=re.escape(wanted)):
        MEMORIES.get("mem0ai")(policy_of("mem0ai"), EmbeddedModel(), LexicalEmbedder())


def test_a_package_runs_under_our_python_where_its_extra_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNEMOTUNE_LANGMEM_PYTHON", raising=False)
    monkeypatch.setattr(process, "has_extra", lambda package: package == "langmem")
    assert python_of("langmem") == sys.executable
    monkeypatch.setenv("MNEMOTUNE_LANGMEM_PYTHON", "/elsewhere/python")
    assert python_of("langmem") == "/elsewhere/python"


def test_every_package_has_a_class_of_stores_its_calls_and_a_variable_for_its_python() -> None:
    variables = {python_variable(package) for package in KINDS}
    assert KINDS.keys() == MOST_CALLS.keys() == {*PACKAGES}
    assert {*PACKAGES} - {*(metadata("mnemotune").get_all("Provides-Extra") or ())} == {*NO_EXTRAS}
    assert len(variables) == len(PACKAGES)
    assert python_variable("a-mem-package") == "MNEMOTUNE_A_MEM_PACKAGE_PYTHON"
    hosted = Path(host.__file__).parent
    assert all((hosted / f"{module}.py").is_file() for module, _ in KINDS.values())


@pytest.mark.parametrize(
    "name", ["OPENROUTER_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "https_proxy", "ALL_PROXY", "LANGSMITH_TRACING"]
)
def test_a_package_does_not_see_what_leads_its_calls_elsewhere(name: str) -> None:
    assert LEADS_ELSEWHERE.fullmatch(name)
    assert not LEADS_ELSEWHERE.fullmatch("PATH")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [({"names": []}, "names: not one name for each of `entries`"), ({"store": None}, "store: missing")],
)
async def test_a_damaged_state_names_the_field(
    damage: dict[str, object], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    (tmp_path / f"{process.HOSTED}.py").write_text(REACHED, encoding="utf-8")
    monkeypatch.setenv("MNEMOTUNE_LANGMEM_PYTHON", str(tmp_path / "python"))
    monkeypatch.setattr(process, "HERE", tmp_path)
    memory = MEMORIES.get("langmem")(policy_of("langmem"), EmbeddedModel(), LexicalEmbedder())
    saved = {"entries": [{"id": 0, "text": "I moved."}], "next_id": 1, "names": ["n"], "store": {}}
    assert isinstance(memory, Savable)
    with pytest.raises(ValueError, match=re.escape(problem)):
        await memory.load(saved | damage)
    assert await memory.listing() == []
    await memory.aclose()


def test_names_are_counted_in_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uuid, "uuid4", uuid.uuid4)
    monkeypatch.setattr(concurrent.futures, "ThreadPoolExecutor", concurrent.futures.ThreadPoolExecutor)
    count_names()
    with counting([0]), concurrent.futures.ThreadPoolExecutor(1) as pool:
        first, second = uuid.uuid4(), pool.submit(uuid.uuid4).result()
    assert (first.int & 0xFFFF, second.int & 0xFFFF) == (1, 2)
    assert uuid.uuid4() != uuid.uuid4()

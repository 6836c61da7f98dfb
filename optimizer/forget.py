"""Forget what somebody told: in the store of a deployment, and in what runs keep of it."""

from __future__ import annotations

import gzip
import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from gzip import GzipFile
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import create_engine, text

from ..data.nearest import nearest_note
from ..data.whole_files import replacing
from ..env.episode import EPISODES
from ..env.failed_checks import CALLS, FAILURES
from ..policies import load_policy
from ..policies.deploy.rows import Rows
from ..policies.deploy.stating import stating
from ..policies.deploy.store import MemoryStore
from ..policies.lm.base import to_json
from ..policies.lm.cache import Cache, ResponseCache, SharedCache
from ..policies.lm.embedded import EmbeddedModel
from ..policies.lm.lexical import LexicalEmbedder
from ..policies.lm.openai import is_vector
from ..policies.memory.saving import backend_of
from .config import ConfigError
from .search.outcome import Outcome, open_run, storage_url
from .search.place import alone_in

FORGOTTEN = "[forgotten]"
"""Stands in records where the text was."""
CACHES = ("cache.db", "seen.db")
"""Files of a folder that keep replies, of models and of what a task has outside."""
NAMES = frozenset({"task", "group", "check", "policy", "model", "role", "kind"})
"""Fields of records that name something, and say nothing."""
EVIDENCE_OF = """
SELECT trial_user_attribute_id, value_json FROM trial_user_attributes
JOIN trials USING (trial_id) JOIN studies USING (study_id)
WHERE key = 'evidence' AND study_name = :study
"""
"""Of a study in Optuna's tables; each value is JSON in JSON."""


@dataclass(frozen=True, slots=True)
class ForgottenInRun:
    """What went out of a folder."""

    outcome: Outcome | None
    """The run of the folder; None where it has records and no study."""
    replies: int
    """Kept replies that are removed."""
    vectors: int
    """Kept vectors that are removed."""
    texts: int
    """Texts of records that are replaced by ``FORGOTTEN``."""


def backend_in(path: Path, user: str) -> str | None:
    """Return which memory a store keeps of a user, as a policy's ``backend`` names it.

    Raises ConfigError where there is no such file, or nothing of the user in it, StoreError and SavedMemoryError.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such store; name it with --store")
    with closing(Rows(path)) as rows:
        users, saved = rows.users(), rows.saved(user)
    if user not in users:
        raise ConfigError(f"{path}: keeps nothing of user {user}{nearest_note(user, users)}")
    return None if saved is None or not saved.memory else backend_of(saved.memory, where=f"{path}, user {user}")


async def forget_in_store(path: Path, user: str, fact: str) -> list[str]:
    """Remove what states a fact from a user's memory, as ``MemoryStore.forget`` does; return those texts.

    No model is asked. Raises what ``backend_in`` does, and ValueError for an empty fact.
    """
    policy = load_policy("rag").model_copy(update={"backend": backend_in(path, user)})  # nothing is written
    with MemoryStore(path, policy, EmbeddedModel(), LexicalEmbedder()) as store:
        return await store.forget(user, fact)


def forget_in_run(folder: Path, fact: str) -> ForgottenInRun:
    """Remove replies that state a fact from a run's cache, and the texts that state it from its records.

    Where there were any, all kept vectors go too: of which texts they are is not kept. What is made from these, report
    and view, is as it was. Raises ConfigError where another process is at work in the folder or nothing of a run is
    there, CacheError, DatabaseError, and ValueError for an empty fact.
    """
    states = stating(fact)
    records = [path for name in (EPISODES, FAILURES, CALLS) for path in sorted(folder.rglob(name))]
    outcome = open_run(folder) if (folder / "config.yaml").is_file() else None
    storage = None if outcome is None else outcome.config.storage
    files = [folder / name for name in CACHES if (folder / name).is_file()]
    if outcome is None and not records and not files:
        raise ConfigError(f"{folder}: has no replies and no records of a run")
    with alone_in(folder, storage) as (_, begun):
        begun()
        with ExitStack() as stack:
            caches: list[Cache] = [stack.enter_context(closing(ResponseCache(file))) for file in files]
            if storage is not None:
                caches.append(stack.enter_context(closing(SharedCache(storage.whole_url, storage.study or ""))))
            replies = sum(cache.forget(states) for cache in caches)
            texts = sum(_without(record, states) for record in records)
            if outcome is not None:
                texts += _without_evidence(storage_url(folder, storage), outcome.study_name, states)
            vectors = sum(cache.forget(is_vector) for cache in caches) if replies or texts else 0
        return ForgottenInRun(outcome, replies, vectors, texts)


def _without_evidence(url: str, study: str, states: Callable[[str], bool]) -> int:
    """Replace the texts of a study's evidence that state a fact; return how many there were.

    Optuna changes nothing in a trial that is over, so that its table is written to.
    """
    count, engine = 0, create_engine(url)
    with engine.connect() as database:
        if engine.dialect.name == "sqlite":
            database.exec_driver_sql("PRAGMA secure_delete = ON")
        for row, value in database.execute(text(EVIDENCE_OF), {"study": study}).all():
            evidence = json.loads(json.loads(value))
            found = [each for each in evidence if states(each["text"])]
            for each in found:
                each["text"] = FORGOTTEN
            if found:
                put = text("UPDATE trial_user_attributes SET value_json = :value WHERE trial_user_attribute_id = :row")
                database.execute(put, {"value": json.dumps(json.dumps(evidence, ensure_ascii=False)), "row": row})
            count += len(found)
        database.commit()
        if engine.dialect.name == "postgresql":
            database.execution_options(isolation_level="AUTOCOMMIT").execute(text("VACUUM trial_user_attributes"))
    engine.dispose()
    return count


def _without(path: Path, states: Callable[[str], bool]) -> int:
    """Replace the texts of a file of JSON, or of lines of it, that state a fact; return how many there were."""
    count, packed = 0, path.suffix == ".gz"

    def kept(value: Any) -> Any:
        nonlocal count
        match value:
            case str() if states(value):
                count += 1
                return FORGOTTEN
            case list():
                return [kept(part) for part in value]
            case dict():
                return {key: part if key in NAMES else kept(part) for key, part in value.items()}
        return value

    def rewritten() -> Iterator[bytes]:
        with gzip.open(path) if packed else path.open("rb") as file:
            for line in file if path.suffix == ".jsonl" else [file.read()]:
                yield to_json(kept(json.loads(line))) + b"\n"

    deque(rewritten(), maxlen=0)  # no file is written anew for nothing, and none is in memory as a whole
    found = count
    if found:
        with replacing(path) as file, GzipFile("", "wb", 6, file, mtime=0) if packed else nullcontext(file) as out:
            out.writelines(rewritten())
    return found


def still_in(folder: Path, outcome: Outcome | None, fact: str) -> list[Path]:
    """Return the files of a run, that of MLflow's view included, that have a fact letter by letter."""
    view = [] if outcome is None or outcome.tracking_uri is None else [*_file_of(outcome.tracking_uri)]
    paths = [*sorted(path for path in folder.rglob("*") if path.is_file()), *view]
    return [path for path in paths if _has(path, fact)]


def _file_of(uri: str) -> Iterator[Path]:
    parts = urlsplit(uri)
    path = Path(parts.path)
    if parts.scheme == "sqlite" and path.is_file():
        yield path


def _has(path: Path, fact: str) -> bool:
    texts = {fact, *(json.dumps(fact, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))}
    texts |= {json.dumps(each)[1:-1] for each in texts}  # a study's values are JSON in JSON
    if path.stat().st_size == 0:  # such a file cannot be mapped
        return False
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as raw:
        searched = gzip.decompress(raw) if path.suffix == ".gz" else raw
        return any(searched.find(text.encode()) >= 0 for text in texts)

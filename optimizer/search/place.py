"""Where a run is, and that one process alone is at work on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout

from ...policies.lm.postgres import Lock, Taken
from ..config import Config, ConfigError
from ..stores import Storage


def with_study_named(config: Config, folder: str) -> Config:
    """Return a config whose study has a name of its own in a database that other runs use too."""
    if config.storage is None or config.storage.study is not None:
        return config
    named = config.storage.model_copy(update={"study": f"{folder}-{uuid4().hex[:8]}"})
    return config.model_copy(update={"storage": named})


@contextmanager
def alone_in(folder: Path, storage: Storage | None) -> Iterator[Lock | None]:
    """Keep other processes out of a run, also those of other machines where a database has the study.

    Raises ConfigError when one is in it, and DatabaseError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        lock = None
        try:
            stack.enter_context(FileLock(folder / ".lock", timeout=0))
            if storage is not None:
                lock = stack.enter_context(closing(Lock(storage.whole_url, f"mnemotune {storage.study}")))
        except (Timeout, Taken):
            raise ConfigError(f"{folder}: another process is at work on this run") from None
        yield lock

"""Packages that only some deployments need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...data.errors import MnemotuneError


class MissingExtra(MnemotuneError, ImportError):  # noqa: N818 - what it means
    """Say which extra brings the package that is missing."""


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Turn an import that fails into MissingExtra."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(f"this needs {error.name}: pip install 'mnemotune[{extra}]'") from error

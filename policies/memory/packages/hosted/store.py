"""What the stores of all packages have in common."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TypeVar

Json = dict[str, Any]
Listing = list[tuple[str, str]]
"""Names and texts, oldest write first."""
Same = TypeVar("Same", bound="Store")

USER = "user"
ENDPOINTS = 64
"""Whose clients are kept."""


class Store(ABC):
    """What a package remembers."""

    modules: tuple[str, ...] = ()
    """What it needs of the package, and of what the package needs."""

    @abstractmethod
    def __init__(self: Same, folder: Path, endpoint: Json, source: Same | None) -> None:
        """Open a store that is empty or a copy of ``source``; its files, where it has any, are in ``folder``."""
        self.made: list[int] = [*source.made] if source else [0]

    @classmethod
    def reach(cls) -> None:
        """Load the package, and connect to the servers that stores are on. Raises what says why not."""
        for module in cls.modules:
            importlib.import_module(module)

    @abstractmethod
    def bind(self, endpoint: Json) -> None:
        """Ask this endpoint from now on."""

    @abstractmethod
    def write(self, messages: list[Json]) -> None:
        """Hand messages to the package."""

    @abstractmethod
    def search(self, query: str, limit: int) -> list[str]:
        """Return the names of what the package finds, best first."""

    @abstractmethod
    def listing(self) -> Listing:
        """Return all memories."""

    def said(self) -> Listing:
        """Return the messages that are kept beside the memories."""
        return []

    @abstractmethod
    def forget(self, names: list[str], said: list[str]) -> None:
        """Remove memories and messages."""

    @abstractmethod
    def dump(self) -> Json:
        """Return everything that is kept, as plain JSON values."""

    @abstractmethod
    def load(self, values: Json) -> None:
        """Take in what ``dump`` has returned, into an empty store; vectors are made again."""

    @abstractmethod
    def close(self) -> None:
        """Remove what is kept."""

"""Deployed memories: kept for many users, and put behind what others speak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...data.lazy import lazily

if TYPE_CHECKING:
    from .store import MemoryStore, StoreError, UserMemory

__getattr__ = lazily(__name__, {"store": ("MemoryStore", "StoreError", "UserMemory")})

__all__ = [
    "MemoryStore",
    "StoreError",
    "UserMemory",
]

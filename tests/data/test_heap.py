"""Freed memory goes back to the system, and objects that hold each other are still found."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import weakref
from pathlib import Path

import pytest

from mnemotune.data import heap

MIB = 2**20


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Ring:
    """An object that holds itself."""

    def __init__(self) -> None:
        self.held = self


def test_an_object_that_holds_itself_is_found_before_25_000_others_have_come() -> None:
    usual = gc.get_threshold()
    heap.collect_seldom()
    try:
        ring = weakref.ref(Ring())
        others = [[0] for _ in range(25_000)]
        assert ring() is None
        del others
    finally:
        gc.set_threshold(*usual)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library decides by itself")
def test_what_was_freed_between_what_lives_goes_back() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    blocks = [libc.malloc(20_000) for _ in range(6_000)]
    for block in blocks:
        ctypes.memset(block, 1, 20_000)
    for block in blocks[1::2]:  # the others pin the heap
        libc.free(block)
    held = resident()
    heap.trim()
    assert held - resident() > 20 * MIB
    for block in blocks[::2]:
        libc.free(block)


def test_where_it_cannot_be_asked_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    heap._malloc_trim.cache_clear()
    heap.trim()
    heap._malloc_trim.cache_clear()

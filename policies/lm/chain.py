"""The longest chain of dependent calls: what a run would take if nothing but answers were waited for."""

from __future__ import annotations

from contextvars import Context, ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Chain:
    """Calls each of which needed the answer of the one before; the longer chain is the greater."""

    seconds: float = 0.0
    """From sending to reply, summed; waiting for a free slot left out."""
    calls: int = 0
    """Calls that were sent; replies from the cache are none."""


NO_CALLS = Chain()
_chain: ContextVar[Chain] = ContextVar("chain", default=NO_CALLS)
"""Tasks start from their maker's chain and keep their own."""


def chain() -> Chain:
    """Return the longest chain that led here."""
    return _chain.get()


def add_call(seconds: float) -> None:
    """Add a call, whose answer is here."""
    before = _chain.get()
    _chain.set(Chain(before.seconds + seconds, before.calls + 1))


def add_chain(more: Chain) -> None:
    """Add a chain of calls that were made elsewhere, whose answers are here."""
    before = _chain.get()
    _chain.set(Chain(before.seconds + more.seconds, before.calls + more.calls))


def join(*contexts: Context) -> None:
    """Go on from the longest chain of this context and of others, whose outcomes are here."""
    _chain.set(max([_chain.get(), *(context.get(_chain, NO_CALLS) for context in contexts)]))

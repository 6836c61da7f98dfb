"""Warnings while a budget runs out."""

from __future__ import annotations

from collections.abc import Collection

from ...policies.lm import Consumed
from ..config import BudgetLimits

PERCENTS = (50, 80)
"""Percents of a limit at which a warning is due."""


def due_warnings(gone: Consumed, limits: BudgetLimits, said: Collection[str]) -> dict[str, str]:
    """Return the warnings that are due and not ``said`` yet, by name; the name changes when the limit is raised.

    Where a limit has passed both percents at once, the lower warning is empty.
    """
    due = {}
    for what, limit in limits.model_dump().items():
        spent = getattr(gone, what)
        if limit is None or spent is None:
            continue
        passed = [percent for percent in PERCENTS if 100 * spent >= percent * limit]
        for percent in passed:
            name = f"{percent}% of {_amount(what, limit)}"
            if name not in said:
                due[name] = f"{name} are gone (search.budget.{what})" if percent == passed[-1] else ""
    return due


def _amount(what: str, limit: float) -> str:
    """Write a limit in full, so that no two of them have the same name."""
    if what == "usd":
        return f"${limit:,.2f}" if round(limit, 2) == limit else f"${limit:,}"
    return f"{limit:,.0f} {what}" if limit == int(limit) else f"{limit:,} {what}"

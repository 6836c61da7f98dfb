"""How many cores this process may use."""

from __future__ import annotations


def usable_cores() -> int:
    """Return how many of the machine's cores the process's affinity and its container's quota leave, at least 1."""
    import joblib  # imported late: it takes a while that most commands do not need

    return int(joblib.cpu_count())

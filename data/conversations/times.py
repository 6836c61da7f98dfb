"""Times as logs write them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

MILLISECONDS_FROM = 10**11
"""Numbers from here on are milliseconds since 1970, not seconds."""
_PATTERNS = (
    "%I:%M %p on %d %B, %Y",  # LoCoMo
    "%Y/%m/%d %H:%M",  # LongMemEval, without its weekday
    "%Y/%m/%d",
    "%Y-%m-%d %H:%M:%S %Z",
    "%Y-%m-%d %H:%M:%S.%f %Z",
)
_WEEKDAY = re.compile(r" \([A-Za-z]{3}\)")
_NUMBER = re.compile(r"-?\d{9,16}(\.\d*)?")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - times without a zone are UTC's here


def read_time(given: object) -> str:
    """Return a time as ISO 8601 in UTC: of ISO 8601, of seconds or milliseconds since 1970, or as benchmarks write it.

    It has the fraction of a second only where there is one; as texts, times are in their own order. Raises ValueError.
    """
    if isinstance(given, datetime):
        return _iso(given)
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        raise ValueError(f"{given!r} is no time")
    if isinstance(given, int | float) or _NUMBER.fullmatch(given.strip()):
        return _of_number(given)
    text = _WEEKDAY.sub("", given.strip())
    try:
        return _iso(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        pass
    for pattern in _PATTERNS:
        try:
            return _iso(datetime.strptime(text, pattern))  # noqa: DTZ007 - those without a zone are UTC's
        except (ValueError, OverflowError):
            continue
    raise ValueError(f"{given[:60]!r} is no time; write it as 2026-03-31T14:05, or as seconds since 1970")


def time_of(row: Mapping[str, Any], names: Sequence[str], otherwise: str = "") -> str:
    """Return the time in the first of these fields that is there. Raises ValueError naming the field."""
    for name in names:
        if (given := row.get(name)) is not None:
            try:
                return read_time(given)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    return otherwise


def _of_number(given: float | str) -> str:
    try:
        number = float(given)
        seconds = number / 1000 if abs(number) >= MILLISECONDS_FROM else number
        return _iso(_EPOCH + timedelta(seconds=seconds))
    except (OverflowError, ValueError):
        raise ValueError(f"{str(given)[:60]} is no time") from None


def _iso(moment: datetime) -> str:
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    whole, _, fraction = moment.isoformat().partition(".")
    return f"{whole}.{fraction.rstrip('0')}" if fraction else whole


def is_time(time: str) -> bool:
    """Tell whether a text is a time as ``read_time`` gives them, or empty."""
    try:
        return not time or datetime.fromisoformat(time).tzinfo is None
    except ValueError:
        return False


def day_of(time: str) -> str:
    """Return the day of a time that ``read_time`` gave, as people write it: 8 May 2023."""
    moment = datetime.fromisoformat(time)
    return f"{moment.day} {moment:%B %Y}"


def seconds_between(first: str, second: str) -> float:
    """Return the seconds from one time to another, both as ``read_time`` gave them."""
    return (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds()

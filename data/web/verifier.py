"""Whether a task is done: the app's state differs from the one before by exactly what was wanted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from ..task import TaskError

Place = tuple[str | int, ...]
MOST_NAMED = 3
"""Differences that a verdict names."""


def changes_text(before: Any, after: Any) -> str:
    """Return what has to be changed so that a state becomes another one, as JSON."""
    return json.dumps([{"at": at, "is": value} for at, value in _changes(before, after)], ensure_ascii=False)


def verify(changes: str, before: Mapping[str, Any], after: Any) -> tuple[bool, str]:
    """Tell whether a state has the changes of ``changes_text``, and no others; and in words why not.

    Raises TaskError where the changes do not fit the state before.
    """
    wanted = changed(before, changes)
    if state_hash(wanted) == state_hash(after):
        return True, "everything was changed as it was wanted, and nothing else"
    places = [".".join(map(str, at)) or "the whole state" for at, _ in _changes(wanted, after)]
    more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
    return False, f"not as it was wanted: {', '.join(places[:MOST_NAMED])}{more}"


def changed(before: Mapping[str, Any], changes: str) -> Any:
    """Return a state with changes. Raises TaskError where they do not fit it."""
    try:
        wanted: Any = deepcopy(dict(before))
        for change in json.loads(changes):
            make_change(wanted, change)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise TaskError(f"verify: is no list of {{at, is}} that fits the state: {error!r}") from None
    return wanted


def make_change(state: Any, change: Mapping[str, Any]) -> None:
    """Set one value in a state: where it is ``at``, and what it ``is``. Raises LookupError, TypeError, ValueError."""
    *path, last = change["at"]
    for key in path:
        state = state[key]
    state[last] = change["is"]


def state_hash(state: Any) -> str:
    """Return a hash of a state that does not depend on the order of keys."""
    text = json.dumps(state, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _changes(before: Any, after: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield where a state has other values, and which; what is longer or shorter is one value."""
    if isinstance(before, Mapping) and isinstance(after, Mapping) and before.keys() <= after.keys():
        for key, value in after.items():
            if key in before:
                yield from _changes(before[key], value, (*at, key))
            else:
                yield (*at, key), value
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, pair in enumerate(zip(before, after, strict=True)):
            yield from _changes(*pair, (*at, place))
    elif before != after or type(before) is not type(after):
        yield at, after

"""Names that are told with the nearest."""

from __future__ import annotations

from mnemotune.data.nearest import nearest, nearest_note


def test_a_mistyped_name_is_told_with_the_nearest() -> None:
    assert nearest("evidnce", ["score", "evidence"]) == "evidence"
    assert nearest_note("evidnce", ["score", "evidence"]) == "; the nearest is evidence"


def test_a_name_like_none_is_told_with_none() -> None:
    assert nearest("nobody", ["score", "evidence"]) is None
    assert nearest_note("nobody", ["score", "evidence"]) == ""

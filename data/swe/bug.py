"""What a bug is, before names and numbers are drawn for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from .words import Draw

Cases = Sequence[tuple[str, object]]
"""What is called, ``@(ARGUMENTS)`` for a call of the function, and what has to come out."""
CasesOf = Callable[[Draw, int, int], Cases]
"""The cases of the two settings' right values."""


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug; all texts are templates of ``Draw.text``.

    The code may use ``<<fn>>``, the function with the bug; ``<<part>>``, its first parameter, a section of settings;
    ``<<k1>>`` and ``<<k2>>``, the settings; ``<<helper>>``, the function to call; and ``note`` and ``setting``.
    """

    name: str
    title: str
    intro: str
    first: str
    """The setting that is wrong in the customer's section."""
    what: str
    """What it is the value of: "of a page"."""
    second: str
    """The setting that is wrong in the service's section."""
    code: str
    """The function with the bug, ``<<fn>>``, and what it calls."""
    old: str
    """What is wrong in the function; it stands there once."""
    new: str
    """What is right."""
    cases: CasesOf
    """Tests that fail until all is repaired."""
    helpers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What each function beside the other does, by its name in the code; the first, ``helper``, is the right one."""
    imports: str = ""
    fits: Callable[[int], bool] = lambda _: True
    """Whether a number will do as the right value of the first setting."""

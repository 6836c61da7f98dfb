"""Whether what an extra of ours names is installed beside us."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

NAME = "mnemotune"


def has_extra(extra: str) -> bool:
    """Return whether each package that the extra names is here, in a version that it allows."""
    try:
        ours = [Requirement(line) for line in requires(NAME) or ()]
        wanted = [each for each in ours if each.marker and not each.marker.evaluate({"extra": ""})]
        named = [each for each in wanted if each.marker and each.marker.evaluate({"extra": extra})]
        return bool(named) and all(each.specifier.contains(version(each.name), prereleases=True) for each in named)
    except PackageNotFoundError:
        return False

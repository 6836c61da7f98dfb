"""Files that ship inside the package."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""As safe as the other, and ten times as fast where libyaml is there."""


def resource(*parts: str) -> Traversable:
    """Return a file or folder of the installed package, for example ``resource("configs", "policies")``."""
    return files("mnemotune").joinpath(*parts)


def load_yaml(text: str) -> Any:
    """Return what a YAML text holds."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - both loaders are safe

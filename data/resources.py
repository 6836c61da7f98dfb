"""Files that ship inside the package."""

from importlib.resources import files
from importlib.resources.abc import Traversable


def resource(*parts: str) -> Traversable:
    """Return a file or folder of the installed package, for example ``resource("configs", "policies")``."""
    return files("mnemotune").joinpath(*parts)

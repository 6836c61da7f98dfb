"""Small source trees, whose facts are known."""

from __future__ import annotations

from pathlib import Path

PADDING = "    # " + "\n    # ".join(f"what is done here is no matter of yours, part {part}" for part in range(11))


def write_tree(folder: Path, *, packages: int = 4) -> Path:
    """Write packages of one module each, with functions, constants and classes of the same names and other values."""
    for package in range(packages):
        path = folder / f"pack_{package}" / "core.py"
        path.parent.mkdir(parents=True)
        path.write_text("\n\n".join(_parts(package)) + "\n", encoding="utf-8")
    return folder


def _parts(package: int) -> list[str]:
    parts = ['"""A module."""']
    for part in range(6):
        number = 1000 + 10 * package + part
        parts += [
            f"LIMIT_{part} = {number + 500}",
            f"def load_{part}(width, depth_{part}={number}):\n{PADDING}\n    return width",
            f"class Fault{part}(Base{package}{part}):\n{PADDING}\n    pass",
            f"def fail_{part}():\n{PADDING}\n    raise Fault{part}",
        ]
    return parts

"""Edit a file of the repository.

python tools/edit.py swap FILE FUNCTION OLD NEW   in a function's text, NEW for OLD
python tools/edit.py set FILE SECTION KEY VALUE   in a section of settings, another value
"""

import sys
from pathlib import Path


def swapped(text: str, function: str, old: str, new: str) -> str:
    """Return a module in whose function ``new`` stands for ``old``. Raises LookupError."""
    lines = text.splitlines(keepends=True)
    heads = [place for place, line in enumerate(lines) if line.lstrip().startswith(f"def {function}(")]
    if not function or not heads:
        raise LookupError("there is no such function in the file")
    begin = heads[0]
    depth = len(lines[begin]) - len(lines[begin].lstrip())
    end = begin + 1
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > depth):
        end += 1
    body = "".join(lines[begin:end])
    if body.count(old) != 1:
        raise LookupError("the function does not have the old text exactly once")
    return "".join(lines[:begin]) + body.replace(old, new) + "".join(lines[end:])


def changed(text: str, section: str, key: str, value: str) -> str:
    """Return settings with another value. Raises LookupError."""
    lines, here = text.splitlines(keepends=True), False
    for place, line in enumerate(lines):
        if line.startswith("["):
            here = line.strip() == f"[{section}]"
        elif here and line.partition("=")[0].strip() == key:
            lines[place] = f"{key} = {' '.join(value.split())}\n"
            return "".join(lines)
    raise LookupError("there is no such section, or it has no such key")


def main(words: list[str]) -> int:
    """Do as the command line says; return the exit code."""
    if len(words) != 5 or words[0] not in ("swap", "set"):
        sys.stdout.write(f"{__doc__}\n")
        return 2
    path = Path(words[1])
    try:
        text = path.read_text(encoding="utf-8")
        new = (swapped if words[0] == "swap" else changed)(text, words[2], words[3], words[4])
    except (OSError, ValueError, LookupError) as error:
        reason = str(error) if isinstance(error, LookupError) else "there is no such file"
        sys.stdout.write(f"edit: nothing is changed: {reason}\n")
        return 1
    path.write_text(new, encoding="utf-8")
    sys.stdout.write("edit: 1 place is changed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

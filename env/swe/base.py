"""The base of containers: a tree of this machine's own Python and a few programs, so that no registry is needed."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO

from ..outside import OutsideSilent

VERSION = 1
"""Of what follows: another tree under the same files has another number."""
PROGRAMS = tuple(
    "sh bash cat ls grep sed awk head tail sort uniq wc find xargs diff patch cp mv rm mkdir rmdir touch chmod ln pwd"
    " echo printf test env true false yes dd mktemp sleep timeout tr cut tee basename dirname realpath readlink date"
    " expr seq id nl od stat cmp comm tac".split()
)
NEEDED = frozenset(("sh", "cat", "ls", "grep", "sed", "head", "rm", "mkdir", "sleep", "timeout"))
LEFT_OUT = frozenset(
    "test tests idle_test site-packages dist-packages __pycache__ idlelib tkinter turtledemo lib2to3 ensurepip"
    " pydoc_data".split()
)
"""Folders of the standard library that nobody repairs a program with."""
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
USER, USER_ID = "agent", 1000
WORKPLACE = "/repo"
LIBRARIES = "usr/lib/base"
ENVIRONMENT = {
    "PATH": "/usr/bin",
    "HOME": "/tmp",  # noqa: S108 - in a container
    "LD_LIBRARY_PATH": f"/{LIBRARIES}",
    "LC_ALL": "C",
    "TZ": "UTC",
    "TERM": "dumb",
    "PYTHONUTF8": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",  # else an edit within a second could leave the code of before
}
"""Of every command: what it says is the same each time."""
LINKS = {"bin": "usr/bin", "sbin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}
FOLDERS = ("usr/bin", "usr/lib", "usr/lib64", "etc", "proc", "sys", "dev", "tmp", WORKPLACE.lstrip("/"))
MADE = 946_684_800
"""When everything in the tree was made, in seconds: the year 2000."""


@cache
def base_files() -> dict[str, Path]:
    """Return the machine's files of which the tree is made, by their path in it; the libraries that they need left out.

    Raises OutsideSilent where they cannot make one: it takes a Linux with ``ldd`` and a shell.
    """
    if not sys.platform.startswith("linux") or shutil.which("ldd") is None:
        raise OutsideSilent("the base of containers is made from a Linux's own Python and programs: this is no Linux")
    python = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    files = {f"usr/bin/{PYTHON}": python, **_programs()}
    return files | {f"usr/{sys.platlibdir}/{PYTHON}/{name}": path for name, path in _standard_library()}


@cache
def base_digest() -> str:
    """Return what tells this tree from another: a hash of the files that it is made of. Raises OutsideSilent."""
    digest = hashlib.sha256(repr((VERSION, sorted(ENVIRONMENT.items()))).encode())
    for name, path in sorted(base_files().items()):
        with path.open("rb") as file:
            digest.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def write_base(file: IO[bytes]) -> None:
    """Write the tree as a tar. Raises OutsideSilent."""
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        files = {**base_files(), **_libraries(base_files())}
        folders = {str(parent) for name in files for parent in PurePosixPath(name).parents} - {"."}
        for name in sorted(folders | set(FOLDERS)):
            _add(tar, name, tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755)
        for name, target in {**LINKS, "usr/bin/python3": PYTHON, "usr/bin/python": "python3"}.items():
            _add(tar, name, tarfile.SYMTYPE, target=target)
        people = f"root:x:0:0::/:/bin/sh\n{USER}:x:{USER_ID}:{USER_ID}::/tmp:/bin/sh\n"
        _add(tar, "etc/passwd", content=people.encode())
        _add(tar, "etc/group", content=f"root:x:0:\n{USER}:x:{USER_ID}:\n".encode())
        for name, path in sorted(files.items()):
            content = path.read_bytes()
            _add(tar, name, content=content, mode=0o755 if os.access(path, os.X_OK) else 0o644)
            if path.suffix == ".py":
                made = PurePosixPath(importlib.util.cache_from_source(name))
                _add(tar, str(made), content=_compiled(path, content))


def _add(
    tar: tarfile.TarFile,
    name: str,
    kind: bytes = tarfile.REGTYPE,
    *,
    content: bytes = b"",
    target: str = "",
    mode: int = 0o644,
) -> None:
    """Add something that belongs to root."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size, entry.mode, entry.mtime = kind, target, len(content), mode, MADE
    tar.addfile(entry, io.BytesIO(content))


def _programs() -> dict[str, Path]:
    found = {name: path for name in PROGRAMS if (path := shutil.which(name, path="/usr/bin:/bin")) is not None}
    if missing := sorted(NEEDED - found.keys()):
        raise OutsideSilent(f"the base of containers needs {', '.join(missing)} in /usr/bin: install them")
    return {f"usr/bin/{name}": Path(path).resolve() for name, path in found.items()}


def _standard_library() -> Iterator[tuple[str, Path]]:
    for key in ("stdlib", "platstdlib"):
        root = Path(sysconfig.get_path(key, vars={"platbase": sys.base_exec_prefix, "base": sys.base_prefix}))
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith("config-")]
            for name in names:
                if not name.endswith((".py", ".so")) or name.startswith(("_test", "_tkinter", "turtle", "xxlimited")):
                    continue
                path = Path(folder, name)
                yield path.relative_to(root).as_posix(), path.resolve()


def _libraries(files: dict[str, Path]) -> dict[str, Path]:
    """Return the shared libraries that files are bound to; the loader stands where they look for it."""
    bound = [path for name, path in files.items() if name.startswith("usr/bin/") or path.suffix == ".so"]
    listed = subprocess.run(["ldd", *map(str, bound)], capture_output=True, text=True, check=False).stdout  # noqa: S603, S607
    found = {name: Path(path).resolve() for name, path in re.findall(r"^\s+(\S+) => (/\S+)", listed, re.MULTILINE)}
    libraries = {f"{LIBRARIES}/{PurePosixPath(name).name}": path for name, path in found.items()}
    loaders = set(re.findall(r"^\s+(/\S+) \(0x", listed, re.MULTILINE))
    return libraries | {f"usr{loader}".replace("usr/usr/", "usr/"): Path(loader).resolve() for loader in loaders}


def _compiled(path: Path, source: bytes) -> bytes:
    """Return a module's code as Python keeps it beside the source, to be loaded without a look at the source."""
    kept = Path(importlib.util.cache_from_source(str(path)))
    head = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
    if kept.is_file():
        known, seen = kept.read_bytes(), path.stat()
        stamp = struct.pack("<LL", int(seen.st_mtime) & 0xFFFFFFFF, seen.st_size & 0xFFFFFFFF)
        if known[:16] == importlib.util.MAGIC_NUMBER + bytes(4) + stamp:
            return head + known[16:]
    return head + marshal.dumps(compile(source, str(path), "exec", dont_inherit=True, optimize=0))

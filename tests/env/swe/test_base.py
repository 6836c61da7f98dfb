"""The base of containers is made of this machine's own files, the same each time."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile

from mnemotune.env.swe.base import NEEDED, base_digest, base_files, write_base


def test_the_digest_is_the_same_in_another_process() -> None:
    script = "from mnemotune.env.swe.base import base_digest; print(base_digest())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == base_digest()


def test_the_tree_has_python_and_programs_and_belongs_to_root() -> None:
    file = io.BytesIO()
    write_base(file)
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        entries = {entry.name: entry for entry in tar}
    assert {f"usr/bin/{name}" for name in NEEDED} <= entries.keys()
    assert base_files().keys() <= entries.keys()
    assert entries["bin"].linkname == "usr/bin"
    assert all(entry.uid == 0 and not entry.mode & 0o022 for name, entry in entries.items() if name != "tmp")
    assert not any("site-packages" in name or "/test/" in name for name in entries)
    assert len(entries) == len(set(entries))

"""The audit of dependencies: it fails for what is known to be vulnerable, and says where it could not look."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

AUDIT = Path(__file__).resolve().parents[1] / ".ci" / "audit"
UNREACHABLE = "audit: osv.dev cannot be reached in time, so that no known vulnerability was looked for\n"
LOST = "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.osv.dev', port=443)"


@pytest.mark.parametrize(
    ("said", "code", "ended"),
    [
        ("echo 'No known vulnerabilities found'", 0, "No known vulnerabilities found\n"),
        ("echo 'Found 1 known vulnerability'; exit 1", 1, "Found 1 known vulnerability\n"),
        ("echo 'no such option'; exit 2", 2, "no such option\n"),
        (f'echo "{LOST}" >&2; exit 1', 0, UNREACHABLE),
        ("exec sleep 30", 0, UNREACHABLE),
    ],
    ids=["none", "a vulnerability", "a mistake", "no network", "slow"],
)
def test_an_audit_passes_where_nothing_is_known_or_nothing_can_be_asked(
    tmp_path: Path, said: str, code: int, ended: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    program = tmp_path / "bin" / "pip-audit"
    program.write_text(f"#!/bin/sh\n{said}\n", encoding="utf-8")
    program.chmod(0o755)
    environment = {"VENV": str(tmp_path), "PATH": "/usr/bin:/bin", "AUDIT_SECONDS": "1"}
    done = subprocess.run([str(AUDIT)], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, ended), done.stderr

"""Cores that a process may use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mnemotune.data.cores import usable_cores


def test_there_are_as_many_as_this_process_may_use() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinities are set on Linux")
def test_cores_that_are_kept_from_a_process_do_not_count() -> None:
    one = min(os.sched_getaffinity(0))
    code = "from mnemotune.data.cores import usable_cores; print(usable_cores())"
    on_one = f"import os; os.sched_setaffinity(0, {{{one}}}); {code}"
    done = subprocess.run([sys.executable, "-c", on_one], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"

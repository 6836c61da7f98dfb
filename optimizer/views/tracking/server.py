"""MLflow's server, which shows the runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ...config import ConfigError
from .store import stay_local


def check_port(host: str, port: int) -> None:
    """Raise ConfigError when nothing can listen there: another server's pages would be taken for ours."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            said = f"--host, --port: {host}:{port} cannot be used ({error.strerror}); name another port"
            raise ConfigError(said) from None


def optuna_server() -> Callable[..., None]:
    """Return what serves Optuna's dashboard on a storage until the process ends.

    Raises ConfigError when it is not installed.
    """
    try:
        from optuna_dashboard import run_server
    except ModuleNotFoundError:
        raise ConfigError("--optuna: Optuna's dashboard is not installed: pip install 'mnemotune[optuna]'") from None
    serve_storage: Callable[..., None] = run_server
    return serve_storage


def serve(uri: str, *, host: str, port: int, opens: bool) -> NoReturn:
    """Become MLflow's server, so that what ends this process ends it too.

    Another process says where the newest study's charts are as soon as the server answers, and ``opens`` them.
    """
    stay_local()
    script = str(Path(__file__).with_name("pages.py"))
    place = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    subprocess.Popen([sys.executable, script, f"http://{place}:{port}", str(os.getpid()), *["open"] * opens])  # noqa: S603
    # by the environment: anyone on this machine can read a command line, and the URI may have a password
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "MLFLOW_BACKEND_STORE_URI": uri}
    # nothing here needs MLflow's job workers, which would outlive it
    environment.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    # `mlflow server` would import MLflow twice: in its own process, and in this one, which it starts
    command = [sys.executable, "-m", "uvicorn", f"{__package__}.app:app", "--host", host, "--port", str(port)]
    os.execve(sys.executable, [*command, "--log-level", "warning"], environment)  # noqa: S606 - our own command line

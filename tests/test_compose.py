"""The services of compose.yaml: what a person relies on who starts them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from mnemotune.optimizer.config import load_config
from mnemotune.optimizer.stores import Storage

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "compose.yaml").read_text(encoding="utf-8")
ENVIRONMENT = {**os.environ, "POSTGRES_PASSWORD": "s3cret"}
PATIENCE_SECONDS = 180


def interpolated() -> dict[str, Any]:
    return dict(yaml.safe_load(re.sub(r"\$\{POSTGRES_PASSWORD:\?[^}]*\}", "s3cret", TEXT)))


SERVICES: dict[str, dict[str, Any]] = interpolated()["services"]


def compose(*arguments: str, environment: dict[str, str] = ENVIRONMENT) -> subprocess.CompletedProcess[str]:
    """Run Docker Compose: Debian's program, or the plugin. The test is skipped where there is neither."""
    program = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    if (
        shutil.which(program[0]) is None
        or subprocess.run([*program, "version"], capture_output=True, check=False).returncode
    ):
        pytest.skip("Docker Compose is not installed: apt-get install --no-install-recommends docker-compose")
    command = [*program, "-f", str(ROOT / "compose.yaml"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)


def test_every_port_is_bound_to_the_loopback_interface() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 4
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_no_password_is_written_down_and_none_is_a_default() -> None:
    for name, service in yaml.safe_load(TEXT)["services"].items():
        for key, value in service.get("environment", {}).items():
            assert "PASSWORD" not in key or value.startswith("${POSTGRES_PASSWORD:?"), name
            assert re.search(r"://[^@/:]*:(?!\$\{POSTGRES_PASSWORD:\?)[^@/]*@", value) is None, name


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_waits_for_the_health_of_those_that_it_needs(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert how == {"condition": "service_healthy"}
        assert "healthcheck" in SERVICES[other]
    assert "healthcheck" in SERVICES[name]


def test_the_search_and_the_workers_find_storage_model_and_cluster_by_the_services_names() -> None:
    for name in ("search", "worker"):
        given = SERVICES[name]["environment"]
        assert re.fullmatch(r"postgresql://\w+:s3cret@postgres/mnemotune", given["MNEMOTUNE_STORAGE"])
        assert given["OPENAI_BASE_URL"] == "http://model:8000/v1"
    assert "search:6379" in SERVICES["worker"]["command"]
    assert SERVICES["mlflow"]["environment"]["MLFLOW_BACKEND_STORE_URI"].endswith("@postgres/mlflow")
    assert "CREATE DATABASE mlflow;" in (ROOT / "docker" / "databases.sql").read_text(encoding="utf-8")


def test_the_command_of_the_first_lines_is_one_with_the_login_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = " ".join(line.strip("# \\") for line in TEXT.split("docker compose exec ")[1].splitlines()[:3])
    service, _, verb, config, *_ = command.split()
    assert (service, verb) == ("search", "evolve")
    overrides = re.findall(r"--set (\S+)", command)
    assert len(overrides) == 6
    monkeypatch.setenv("MNEMOTUNE_STORAGE", SERVICES["search"]["environment"]["MNEMOTUNE_STORAGE"])
    storage = load_config(ROOT / config, overrides=overrides).storage
    assert isinstance(storage, Storage)
    assert storage.whole_url == "postgresql://mnemotune:s3cret@postgres/mnemotune"


def test_the_image_holds_every_package() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {name.split(".")[1] for name in project["tool"]["setuptools"]["packages"] if "." in name}
    assert {f"!{folder}/" for folder in folders} | {"!configs/", "!*.py", "!pyproject.toml"} <= set(ignored)
    extras = re.findall(r"/src\[([\w,]+)\]", (ROOT / "Dockerfile").read_text(encoding="utf-8"))[0].split(",")
    assert set(extras) == {"postgres", "ray"} <= set(project["project"]["optional-dependencies"])


def test_docker_compose_reads_it() -> None:
    done = compose("config", "--quiet")
    assert done.returncode == 0, done.stderr
    without = {name: value for name, value in ENVIRONMENT.items() if name != "POSTGRES_PASSWORD"}
    refused = compose("config", "--quiet", environment=without)
    assert refused.returncode != 0
    assert "write it into .env" in refused.stderr


@pytest.mark.slow
def test_what_images_can_be_had_of_starts_and_gets_well() -> None:
    if shutil.which("docker") is None or docker("info").returncode:
        pytest.skip("no Docker engine answers")
    missing = {name for name in SERVICES if docker("image", "inspect", SERVICES[name].get("image", "")).returncode}
    startable = {
        name
        for name, service in SERVICES.items()
        if name not in missing and not missing & set(service.get("depends_on", ()))
    }
    if not startable:
        pytest.skip(
            f"the engine has no image of {', '.join(sorted(missing))}: docker compose pull, docker compose build"
        )
    project = ["--project-name", "mnemotune-test"]
    try:
        done = compose(*project, "up", "--detach", "--no-build", *startable)
        assert done.returncode == 0, done.stderr
        give_up = time.monotonic() + PATIENCE_SECONDS
        while True:
            listed = compose(*project, "ps", "--quiet").stdout.split()
            health = [docker("inspect", "--format", "{{.State.Health.Status}}", one).stdout.strip() for one in listed]
            if health == ["healthy"] * len(startable):
                break
            assert time.monotonic() < give_up, compose(*project, "logs").stdout
            time.sleep(1)
    finally:
        compose(*project, "down", "--volumes")

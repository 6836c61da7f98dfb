"""Episodes on a Ray cluster: the result is that of one process, also where workers and machines are lost.

Two Ray processes on the loopback interface stand for two machines.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mnemotune.env import Cast, DialogueTrack, Evaluation, Evaluator, Summary
from mnemotune.env.workers import Pool
from mnemotune.env.workers.on_ray import RayError, on_ray
from mnemotune.optimizer.workers import given
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm.chain import NO_CALLS
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from people import lives

os.environ["RAY_AUTH_MODE"] = "disabled"  # else a token of this user's, where there is one, decides who may connect
ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'mnemotune[ray]'")

MODEL = EmbeddedModel()
CAST = Cast(MODEL, MODEL, LexicalEmbedder())
TRACK = DialogueTrack()
AWI = load_policy("awi")
SECONDS_TO_START = 90.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A head and another node, each with two cores; both end with the tests."""
    folder = tmp_path_factory.mktemp("ray")
    address, binary = f"127.0.0.1:{free_port()}", str(Path(sys.executable).with_name("ray"))
    package = str(Path(__file__).parents[3])
    environment = os.environ | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
    }
    common = ["--num-cpus=2", "--block", "--node-ip-address=127.0.0.1", "--disable-usage-stats"]
    head = [f"--port={address.split(':')[1]}", "--head", "--include-dashboard=false", f"--temp-dir=/tmp/r{os.getpid()}"]
    nodes = []
    for special in (head, [f"--address={address}"]):
        with (folder / f"node{len(nodes)}.log").open("w") as log:
            command = [binary, "start", *common, *special]
            nodes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True))
        _wait_for(address, len(nodes))
    try:
        yield address
    finally:
        if ray.is_initialized():
            ray.shutdown()
        for node in reversed(nodes):
            node.terminate()
            try:
                node.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(node.pid, signal.SIGKILL)
        shutil.rmtree(f"/tmp/r{os.getpid()}", ignore_errors=True)  # noqa: S108 - paths of its sockets must be short


def _wait_for(address: str, nodes: int) -> None:
    """Wait until so many nodes are there."""
    end = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < end:
        try:
            if not ray.is_initialized():
                ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            if len([node for node in ray.nodes() if node["Alive"]]) >= nodes:
                return
        except (ConnectionError, RuntimeError, ValueError):
            pass  # it is not up yet
        time.sleep(0.2)
    raise AssertionError(f"the cluster at {address} has not {nodes} nodes")


def evaluated(users: Any, address: str, *, kill: int, workers: int = 4) -> Evaluation:
    start = on_ray(partial(given, TRACK, CAST), most=64, address=address, cores=1)

    async def run() -> Evaluation:
        async with aclosing(Pool(start, workers=workers, each=1)) as pool:
            evaluator = Evaluator(TRACK, CAST, runner=pool.runner(TRACK, budget=None))
            await evaluator.evaluate(AWI, users, stages=1)
            going_on = asyncio.create_task(evaluator.evaluate(AWI, users))
            await asyncio.sleep(0.05)
            for place in pool.places[:kill]:
                ray.kill(place.link._actor)  # type: ignore[attr-defined]
            return await going_on

    return asyncio.run(run())


def timeless(evaluation: Evaluation) -> Summary:
    return replace(Summary.of(evaluation, name="awi"), wall_s=0.0, critical_path=NO_CALLS)


def alone(users: Any) -> Evaluation:
    async def run() -> Evaluation:
        evaluator = Evaluator(TRACK, CAST)
        await evaluator.evaluate(AWI, users, stages=1)
        return await evaluator.evaluate(AWI, users)

    return asyncio.run(run())


def test_users_dealt_to_two_machines_score_as_in_one_process_also_where_workers_are_killed(cluster: str) -> None:
    users = lives(users=4)
    assert timeless(evaluated(users, cluster, kill=2)) == timeless(alone(users))


def test_a_cluster_that_is_not_there_is_named() -> None:
    if ray.is_initialized():
        ray.shutdown()
    with pytest.raises(RayError, match=r"workers\.address: no Ray cluster at 127\.0\.0\.1:1 "):
        on_ray(partial(given, TRACK, CAST), most=64, address="127.0.0.1:1", cores=1)

"""The embedded model in processes of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from mnemotune.policies.lm import LanguageModelError, Message, Request
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.embedded.pool import Pool, PooledEmbedder, PooledModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from spending import Bill

PATIENCE_SECONDS = 60.0
REQUEST = Request((Message("user", "I own a small boat."), Message("user", "Where shall I go?")), "answer")


# other processes know nothing of this module, but they know eval
PROCESS_ID = "__import__('os').getpid()"
HELD_SIGNALS = "__import__('signal').pthread_sigmask(0, ())"
LATE = "__import__('os').environ.get('LATE')"
DIE = "__import__('os').kill(__import__('os').getpid(), 9)"


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    made = Pool(workers=1)
    yield made
    await made.aclose()


async def test_the_pooled_model_and_embedder_say_what_the_plain_ones_do(pool: Pool) -> None:
    model, embedder = PooledModel(pool), PooledEmbedder(pool)
    assert (model.name, embedder.name) == (EmbeddedModel.name, LexicalEmbedder.name)
    assert await model.complete(REQUEST) == await EmbeddedModel().complete(REQUEST)
    texts = ["I own a boat.", "", "Tea?"]
    assert np.array_equal((await embedder.embed(texts)).vectors, (await LexicalEmbedder().embed(texts)).vectors)
    await model.aclose()
    assert await pool.run(eval, PROCESS_ID) != os.getpid(), "a model that is closed leaves the pool open"


async def test_a_request_may_hold_what_no_other_process_can_have(pool: Pool) -> None:
    request = Request(REQUEST.messages, "answer", bill=Bill())
    assert (await PooledModel(pool).complete(request)).text


async def test_a_process_that_is_killed_costs_its_call_and_no_other(pool: Pool) -> None:
    first = await pool.run(eval, PROCESS_ID)
    with pytest.raises(LanguageModelError, match="a process of the embedded model was killed"):
        await pool.run(eval, DIE)
    assert await pool.run(eval, PROCESS_ID) != first


async def test_a_call_that_is_cancelled_before_its_turn_is_never_made(pool: Pool, tmp_path: Path) -> None:
    made = tmp_path / "made"
    slowly = f"open({str(made)!r}, 'a').write('x'), __import__('time').sleep(0.3)"  # longer than cancelling takes
    calls = [asyncio.create_task(pool.run(eval, slowly)) for _ in range(50)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*calls, return_exceptions=True))
    await pool.run(eval, PROCESS_ID)
    assert not made.exists() or made.stat().st_size <= 3, "the next two have their turn before the first is done"


async def test_ctrl_c_is_for_the_parent_alone(pool: Pool) -> None:
    assert signal.SIGINT in await pool.run(eval, HELD_SIGNALS)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


async def test_a_process_has_the_variables_of_its_parent_also_those_set_late(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await pool.run(eval, LATE) is None
    monkeypatch.setenv("LATE", "yes")
    later = Pool(workers=1)
    assert await later.run(eval, LATE) == "yes"
    await later.aclose()


def test_processes_start_also_where_a_path_of_temporary_files_is_too_long_for_a_socket(tmp_path: Path) -> None:
    program = (
        "import asyncio\nfrom mnemotune.policies.lm.embedded.pool import Pool\n"
        "async def run():\n    pool = Pool(workers=1)\n    print(await pool.run(len, 'abc'))\n    await pool.aclose()\n"
        "if __name__ == '__main__':\n    asyncio.run(run())\n"
    )
    (folder := tmp_path / ("long" * 30)).mkdir()
    command = [sys.executable, "-c", program]
    environment = os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


async def test_nothing_is_left_after_the_pool_is_closed() -> None:
    pool = Pool(workers=2)
    first, second = await asyncio.gather(pool.run(eval, PROCESS_ID), pool.run(eval, PROCESS_ID))
    await pool.aclose()
    assert {first, second}.isdisjoint(child.pid for child in multiprocessing.active_children())


def test_the_processes_end_with_a_parent_that_is_killed() -> None:
    program = (
        "import asyncio, os\nfrom mnemotune.policies.lm.embedded.pool import Pool\n"
        "async def run():\n    pool = Pool(workers=1)\n    await pool.run(len, '')\n    print('up', flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(run())\n"
    )
    # what the parent leaves running holds its standard output open
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"up\n")

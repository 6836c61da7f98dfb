"""An assistant for programs without an event loop, where processes fork and the collector runs in any thread."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from loopback import PATIENCE_SECONDS
from mnemotune.policies import SyncAssistant, load_policy
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.memory import open_memory


def assistant() -> SyncAssistant:
    model = EmbeddedModel()
    return SyncAssistant(model, open_memory(load_policy("native"), model, LexicalEmbedder()))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_its_threads_go_on_in_a_forked_process() -> None:
    with assistant() as made:
        child = os.fork()
        if not child:
            try:
                with ThreadPoolExecutor(4) as threads:
                    replies = list(threads.map(lambda _: made.reply("I own a canoe.")[0], range(8)))
                os._exit(0 if all(replies) else 1)
            finally:
                os._exit(2)
        give_up, status = time.monotonic() + PATIENCE_SECONDS, (0, 0)
        while not status[0] and time.monotonic() < give_up:
            status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if not status[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert status == (child, 0)
        assert made.reply("I own a canoe.")[0]


def test_a_stream_that_is_left_may_be_collected_in_the_loop_s_own_thread() -> None:
    with assistant() as made:

        class Holder:
            """Holds a stream, and itself."""

        holder = Holder()
        holder.me, holder.pieces = holder, made.stream("I own a canoe.")  # type: ignore[attr-defined]
        next(holder.pieces)  # type: ignore[attr-defined]
        del holder

        async def collect() -> None:
            gc.collect()

        done = threading.Event()
        threading.Thread(target=lambda: (made.run(collect()), done.set()), daemon=True).start()
        assert done.wait(PATIENCE_SECONDS)
        assert made.reply("I own a canoe.")[0]


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_stream_that_is_left_after_the_end_is_dropped_quietly() -> None:
    made = assistant()
    pieces = made.stream("I own a canoe.")
    next(pieces)
    made.close()
    del pieces
    gc.collect()

"""Nothing gets out of a container, and nothing that runs in it takes more than it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from time import perf_counter

import pytest

from mnemotune.env.outside import OutsideFault, Place
from mnemotune.env.swe.container import Container, Limits
from mnemotune.env.swe.engine import Engine, base_image

pytestmark = pytest.mark.usefixtures("engine")
FILES = {"src/a.py": "VALUE = 1\n", "notes.txt": "é \udcff\n", "empty": ""}
LIMITS = Limits(seconds=3, output_bytes=200_000, processes=32, memory_mib=96, disk_mib=8)
Say = Callable[[str], Awaitable[str]]


@pytest.fixture
async def opened() -> AsyncIterator[Engine]:
    engine = await Engine.start()
    yield engine
    await engine.aclose()


@pytest.fixture
async def container(opened: Engine) -> Container:
    return await opened.open(base_image(), FILES, LIMITS)


@pytest.fixture
def say(container: Place) -> Say:
    return container.act


async def test_its_files_are_there_and_commands_leave_what_they_change(say: Say) -> None:
    assert await say("find . -type f") == "./empty\n./notes.txt\n./src/a.py"
    assert await say("cat src/a.py && python3 -c 'import src.a; print(src.a.VALUE)'") == "VALUE = 1\n1"
    assert await say("od -An -tx1 notes.txt") == " c3 a9 20 ed b3 bf 0a"
    assert await say("sed -i 's/1/2/' src/a.py; cd src; echo x > b") == "[no output]"
    assert await say("cat src/a.py src/b; pwd") == "VALUE = 2\nx\n/repo"
    assert await say("echo out; echo err >&2; exit 7") == "out\nerr\n[exit status 7]"
    assert await say("python -m unittest nothing 2>&1 | tail -n 1") == "FAILED (errors=1)"


async def test_it_is_alone_and_has_no_rights(say: Say) -> None:
    reached = await say("""python3 -c 'import socket; socket.create_connection(("1.1.1.1", 80), 2)'""")
    assert "Network is unreachable" in reached
    assert await say("grep -v -E 'lo:|face|Receive' /proc/net/dev") == "[exit status 1]"
    assert await say("for f in /x /usr/x /etc/x; do echo x > $f; done 2>&1 | grep -c Read-only") == "3"
    assert await say("id -u") == "1000"
    assert await say("grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status") == (
        "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1"
    )
    assert "[exit status" in await say("python3 -c 'import os; os.setuid(0)'")
    assert await say("ls -a /root /home 2>&1 | grep -c 'No such'") == "2"


async def test_what_a_command_has_started_ends_with_it(say: Say) -> None:
    assert await say("sleep 60 & echo on") == "on"
    daemon = "import os, time\nif os.fork() == 0:\n os.setsid(); [os.close(n) for n in (0, 1, 2)]; time.sleep(60)"
    assert await say(f"python3 -c '{daemon}'") == "[no output]"
    running = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    assert "sleep" in await say(running)
    assert await say(f"{running} | grep -c 'sleep.[6]0'") == "0\n[exit status 1]"


@pytest.mark.parametrize("made", [True, False])
async def test_what_a_command_leaves_in_groups_of_their_own_holds_back_neither_output_nor_status(
    opened: Engine, made: bool
) -> None:
    image = replace(base_image(), made=made)
    say = (await opened.open(image, {}, replace(LIMITS, seconds=60))).act
    apart = 'python3 -c \'import subprocess; subprocess.Popen(["sleep", "60"], start_new_session=True)\''
    again = "import os, time; os.setsid(); [os.fork() for _ in range(3)]; time.sleep(60)"
    begin = perf_counter()
    assert await say(f"echo a; {apart}; exit 3") == "a\n[exit status 3]"
    assert await say("set -m 2>/dev/null; sleep 60 & echo b") == "b"
    assert await say(f"python3 -c '{again}' & sleep 0.3; echo c") == "c"
    assert await say("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[t]ime.sleep.60'") == "0\n[exit status 1]"
    assert perf_counter() - begin < 30


async def test_a_command_that_does_not_end_is_ended_and_the_next_goes_on(say: Say) -> None:
    assert await say("echo a; sleep 60") == (
        "[killed: its time is over, or it has taken too much memory]\n[exit status 137]"
    )
    assert "[killed" in await say("""python3 -c 'import os, time; os.fork() or os.setsid(); time.sleep(60)'""")
    assert "[killed" in await say("kill -9 -1; echo no")
    assert await say("echo still here") == "still here"


async def test_endless_output_is_cut(say: Say) -> None:
    for endless in ("yes", "yes >&2", "python3 -c 'while True: print(1)' 2>/dev/null"):
        seen = await say(endless)
        assert "[cut after 200000 bytes]" in seen
        assert len(seen) < 6_500
    assert await say("echo a > /dev/stdout; echo b > /dev/stderr") == "a\nb"


async def test_processes_memory_and_room_are_bounded(say: Say) -> None:
    await say("f() { f | f & }; f")
    await say("python3 -c 'import os\nwhile True:\n try: os.fork()\n except OSError: pass'")
    assert await say("echo still here") == "still here"
    assert "[exit status 137]" in await say("python3 -c 'x = bytearray(10 ** 9)'")
    assert "No space left" in await say("dd if=/dev/zero of=big bs=1M count=20 2>&1; rm big")
    assert await say("echo still here") == "still here"


@pytest.mark.parametrize("left", [20, 24, 26, 28, 31])
async def test_a_container_that_is_full_or_nearly_so_without_its_shell_is_emptied(say: Say, left: int) -> None:
    fill = f"for _ in range({left}): os.fork() or (time.sleep(60), os._exit(0))"
    assert "[killed" in await say(f"python3 -c 'import os, time\nos.kill(-1, 9)\n{fill}'")
    assert await say("echo still here") == "still here"
    assert await say("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep.[6]0'") == "0\n[exit status 1]"


async def test_a_command_that_ends_what_tells_its_status_is_told_as_killed(say: Say) -> None:
    teller = "$(cut -d ' ' -f 4 /proc/$PPID/stat)"
    assert "[killed" in await say(f"echo a; kill -9 {teller}; sleep 1; echo b")
    assert await say("echo still here") == "still here"


async def test_a_command_that_no_program_could_take_is_refused_as_a_shell_does_it(say: Say) -> None:
    assert await say("echo " + "x" * 120_000) == "sh: argument list too long\n[exit status 126]"
    assert await say("echo \udcff") == "?"


async def test_one_that_has_ended_is_a_fault(container: Container, opened: Engine) -> None:
    await container.aclose()
    with pytest.raises(OutsideFault):
        await container.act("echo a")
    await container.aclose()


async def test_it_ends_by_itself_after_its_life(opened: Engine) -> None:
    container = await opened.open(base_image(), {}, Limits(life_seconds=1))
    await asyncio.sleep(3)
    with pytest.raises(OutsideFault):
        await container.act("echo a")

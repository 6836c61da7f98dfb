"""Acting outside: 1. what was seen is not tried again; 2. a place that is needed later is brought to the same point;
3. no more places are open than may be; 4. what fails closes its place and leaves the others alone."""

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.outside import Course, Outside, OutsideFault, Place
from mnemotune.policies.lm.cache import ResponseCache


@dataclass(eq=False)
class Ground:
    """Opens notebooks, in which all actions are written down, and knows which of them are open."""

    most: int = 0
    open: set["Notebook"] = field(default_factory=set)
    tried: list[str] = field(default_factory=list)
    drift: str = ""

    async def place(self) -> Place:
        await asyncio.sleep(0)
        notebook = Notebook(self)
        self.open.add(notebook)
        self.most = max(self.most, len(self.open))
        return notebook


@dataclass(eq=False)
class Notebook(Place):
    ground: Ground
    lines: list[str] = field(default_factory=list)

    async def act(self, action: str) -> str:
        await asyncio.sleep(0)
        if action == "fail":
            raise OutsideFault("the notebook burns")
        self.ground.tried.append(action)
        self.lines.append(action)
        return "|".join(self.lines) + self.ground.drift

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.ground.open.discard(self)


def course(outside: Outside, ground: Ground, start: str = "") -> Course:
    return Course(outside, start, ground.place)


async def acted(course: Course, *actions: str) -> list[str]:
    return [await course.act(action) for action in actions]


async def test_the_same_actions_from_the_same_start_are_tried_once() -> None:
    ground, outside = Ground(), Outside()
    first = await acted(course(outside, ground), "a", "b")
    assert first == ["a", "a|b"]
    assert await acted(course(outside, ground), "a", "b") == first
    assert ground.tried == ["a", "b"]
    await acted(course(outside, ground, "another start"), "a")
    assert ground.tried == ["a", "b", "a"]


async def test_those_who_do_the_same_at_once_wait_for_the_one_who_tries_it() -> None:
    ground, outside = Ground(), Outside()
    every = await asyncio.gather(*(acted(course(outside, ground), "a", "b", "c") for _ in range(5)))
    assert every == [["a", "a|b", "a|b|c"]] * 5
    assert len(ground.tried) <= 1 + 2 + 3  # where each action is another's, who has to catch up


async def test_what_is_new_is_tried_in_a_place_that_was_brought_to_the_same_point() -> None:
    ground, outside = Ground(), Outside()
    await acted(course(outside, ground), "a", "b")
    assert await acted(course(outside, ground), "a", "b", "new") == ["a", "a|b", "a|b|new"]


async def test_a_record_outlives_the_process_that_made_it(tmp_path: Path) -> None:
    ground, record = Ground(), partial(ResponseCache, tmp_path / "seen.db")
    outside = Outside(record)
    first = await acted(course(outside, ground), "a", "ü\n")
    await outside.aclose()
    assert await acted(course(Outside(record), ground), "a", "ü\n") == first
    assert ground.tried == ["a", "ü\n"]


async def test_a_copy_opens_the_same_record_and_has_nothing_open(tmp_path: Path) -> None:
    ground, outside = Ground(), Outside(partial(ResponseCache, tmp_path / "seen.db"), most=3)
    await acted(course(outside, ground), "a")
    copy = pickle.loads(pickle.dumps(outside))  # noqa: S301
    await acted(course(copy, ground), "a")
    assert ground.tried == ["a"]
    await copy.aclose()
    assert len(ground.open) == 1
    await outside.aclose()
    assert not ground.open


async def test_a_place_that_fails_is_closed_and_the_others_go_on() -> None:
    ground, outside = Ground(), Outside()
    one, other = course(outside, ground, "1"), course(outside, ground, "2")
    await acted(one, "a")
    await acted(other, "a")
    with pytest.raises(OutsideFault, match="burns"):
        await one.act("fail")
    assert len(ground.open) == 1
    assert await acted(other, "b") == ["a|b"]
    assert await acted(one, "b") == ["a|b"]


async def test_something_else_than_before_is_a_fault() -> None:
    ground, outside = Ground(), Outside()
    await acted(course(outside, ground), "a")
    ground.drift = " at 12:04"
    with pytest.raises(OutsideFault, match="action 1, 'a', gave something else when it was repeated"):
        await acted(course(outside, ground), "a", "new")


async def test_who_is_ended_in_the_middle_leaves_no_place_and_keeps_nobody_waiting() -> None:
    ground, outside = Ground(), Outside(most=1)
    task = asyncio.create_task(acted(course(outside, ground), *"abcdefgh"))
    waiting = asyncio.create_task(acted(course(outside, ground), *"abcdefgh"))
    for _ in range(7):
        await asyncio.sleep(0)
    task.cancel()
    assert (await waiting)[-1] == "a|b|c|d|e|f|g|h"
    await outside.aclose()
    assert not ground.open


async def test_a_place_that_rests_is_closed_for_another_at_once() -> None:
    ground, outside = Ground(), Outside(most=1, rest_s=1000)
    one, other = course(outside, ground, "1"), course(outside, ground, "2")
    await acted(one, "a")
    waiting = asyncio.create_task(acted(other, "b"))
    await asyncio.sleep(0)
    assert not waiting.done()
    await one.rest()
    assert await waiting == ["b"]
    await other.rest()
    assert await acted(one, "c") == ["a|c"]
    assert ground.most == 1


async def test_a_fork_goes_on_from_the_same_point_elsewhere() -> None:
    ground, outside, elsewhere = Ground(), Outside(), Outside()
    trunk = course(outside, ground)
    await acted(trunk, "a")
    assert await acted(trunk.fork(elsewhere), "b") == ["a|b"]
    assert ground.tried == ["a", "a", "b"]
    assert await acted(trunk, "c") == ["a|c"]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc")), max_size=30), st.integers(1, 3))
def test_no_more_places_are_open_than_may_be_and_each_has_its_own_actions(
    moves: list[tuple[int, str]], most: int
) -> None:
    async def play() -> None:
        ground, outside = Ground(), Outside(most=most, rest_s=0)
        courses = [course(outside, ground, str(number)) for number in range(6)]

        async def one(number: int) -> str:
            own = [action for mover, action in moves if mover == number]
            assert await acted(courses[number], *own) == ["|".join(own[: end + 1]) for end in range(len(own))]
            return ""

        await asyncio.gather(*map(one, range(6)))
        assert ground.most <= most
        for each in courses:
            await each.aclose()
        assert not ground.open

    asyncio.run(play())


async def test_who_acts_keeps_the_place_until_it_is_closed_though_others_wait() -> None:
    ground, outside = Ground(), Outside(most=2)

    async def whole(number: int) -> None:
        own = course(outside, ground, str(number))
        for action in "abcd":
            await own.act(action)
            await asyncio.sleep(0)
        await own.aclose()

    await asyncio.gather(*map(whole, range(7)))
    assert ground.most == 2
    assert len(ground.tried) == 7 * 4


async def test_who_does_not_go_on_for_a_while_gives_the_place_to_those_who_wait() -> None:
    ground, outside = Ground(), Outside(most=1, rest_s=0.05)
    resting, other = course(outside, ground, "1"), course(outside, ground, "2")
    assert await acted(resting, "a") == ["a"]
    assert await acted(other, "b", "c") == ["b", "b|c"]
    assert await acted(resting, "d") == ["a|d"]
    assert (ground.most, ground.tried) == (1, ["a", "b", "c", "a", "d"])
    await outside.aclose()
    assert not ground.open


class Engine:
    def __init__(self) -> None:
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1


async def test_what_is_shared_is_started_once_closed_at_the_end_and_tried_again_after_a_failure() -> None:
    outside, engines, failures = Outside(), list[Engine](), [OutsideFault("not yet")]

    async def start() -> Engine:
        await asyncio.sleep(0)
        if failures:
            raise failures.pop()
        engines.append(Engine())
        return engines[-1]

    starting: Callable[[], Awaitable[Engine]] = start
    with pytest.raises(OutsideFault):
        await outside.shared("engine", starting)
    first, second = await asyncio.gather(outside.shared("engine", starting), outside.shared("engine", starting))
    assert first is second
    await outside.aclose()
    await outside.aclose()
    assert [engine.closed for engine in engines] == [1]

"""A value for each event loop, which is gone with the loop."""

from __future__ import annotations

import asyncio
import gc
import weakref

from mnemotune.data.per_loop import PerLoop


class Value:
    """Holds on to the loop that it is of, as a lock does for which somebody has waited."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()


def test_each_loop_has_one_value_and_a_closed_loop_none() -> None:
    made = PerLoop(Value)
    values: list[weakref.ref[Value]] = []

    async def twice() -> bool:
        values.append(weakref.ref(made.here()))
        return made.here() is values[-1]()

    for _ in range(4):
        assert asyncio.run(twice())
    gc.collect()
    assert [value() is None for value in values] == [True, True, True, False]

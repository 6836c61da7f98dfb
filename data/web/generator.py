"""Instances of the apps that ship, each with data of its own, and two tasks in each."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import depot, hall
from .depot_data import draw_state as draw_depot
from .hall_data import draw_state as draw_hall
from .story import Json, Story
from .task import WebTask


@dataclass(frozen=True, slots=True)
class App:
    """An app: how its data are drawn, and what there is to do, by the kind of story."""

    draw_state: Callable[[random.Random], Json]
    stories: Mapping[str, Callable[[Story], WebTask]]


APPS: Mapping[str, App] = {
    depot.APP: App(draw_depot, {"counter": depot.counter, "loading": depot.loading}),
    hall.APP: App(draw_hall, {"booking": hall.booking, "rearranging": hall.rearranging}),
}


def each_task(instances: int, seed: int) -> Iterator[WebTask]:
    """Yield the tasks of this many instances, which take turns between the apps."""
    names = sorted(APPS)
    for number in range(instances):
        yield from tasks_of_instance(names[number % len(names)], number // len(names), seed)


def tasks_of_instance(app: str, number: int, seed: int) -> Iterator[WebTask]:
    """Yield the tasks of one instance, all of which begin with the same state."""
    group = f"{app}-{seed}-{number}"
    state: Mapping[str, Any] = APPS[app].draw_state(random.Random(f"web:{group}"))
    for kind, make in APPS[app].stories.items():
        name = f"{group}-{kind}"
        yield make(Story(name, group, state, random.Random(f"web:{name}")))

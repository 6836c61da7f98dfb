"""Where a run's episodes are played, as its config says it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ..data.record import Record


class Workers(Record):
    """Who plays the episodes of a run."""

    runner: Literal["auto", "here", "processes", "ray"] = "auto"
    """``here`` is this process. ``auto`` is processes where the model computes on this machine, as the embedded one
    does, and there is enough to do; else it is this process, which keeps an endpoint busy by itself."""
    count: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    """How many; None is one for each core of this machine."""
    address: str | None = None
    """The Ray cluster's, for example ``10.0.0.5:6379``; None starts one on this machine."""

    @model_validator(mode="after")
    def _check(self) -> Workers:
        if self.address is not None and self.runner != "ray":
            raise ValueError("address has an effect with `runner: ray` alone; leave it out")
        if self.count is not None and self.runner == "here":
            raise ValueError("count has no effect with `runner: here`; leave it out")
        return self

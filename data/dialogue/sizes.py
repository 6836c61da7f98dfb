"""The bundled sets of users, each made by the generator from a number of users, a seed and a shape."""

from __future__ import annotations

from dataclasses import dataclass, field

from .generator import Shape, generate_scenarios
from .scenario import Scenario


@dataclass(frozen=True, slots=True)
class Size:
    """What a bundled set is made from."""

    users: int
    seed: int
    shape: Shape = field(default_factory=Shape)

    def scenarios(self) -> list[Scenario]:
        """Make the set's users anew."""
        return generate_scenarios(users=self.users, seed=self.seed, shape=self.shape)


SIZES = {
    "small": Size(users=4, seed=41),
    "base": Size(users=20, seed=42),
    "extra": Size(users=20, seed=43, shape=Shape(changed_periods=20, states_per_question=3)),
}
"""By name; ``base`` and ``extra`` have the proportions of AMemGym's v1.base and v1.extra."""

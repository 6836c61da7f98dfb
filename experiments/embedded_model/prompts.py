"""What a write prompt is worth to AWI-(2,4): asking for what matters, with a list of kinds, with too long a list.

python -m mnemotune.experiments.embedded_model.prompts [DATA]
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import Annotated

from typer import Argument

from ...data.cores import usable_cores
from ...data.dialogue.load import load_scenarios
from ...env.statistics import estimate
from ...optimizer.proposers.population import KINDS, PROFILE
from ...policies.files import load_policy
from ...policies.policy import MemoryPolicy
from ..command import run
from .arms import evaluate

FURTHER = (
    "weather", "clothes", "colours", "music", "films", "newspapers", "politics", "history", "languages", "schools",
    "holidays", "birthdays", "presents", "furniture", "plants", "cars", "phones", "computers", "photographs", "letters",
    "neighbours", "relatives", "colleagues", "doctors", "shops", "restaurants", "banks", "insurance", "taxes", "law",
    "sports", "games", "hobbies", "crafts", "paintings", "museums", "concerts", "festivals", "churches", "charities",
    "dreams", "fears", "wishes", "memories", "opinions",
)  # fmt: skip
"""Forty-five more."""


def prompts() -> dict[str, str]:
    """Return the prompts by name."""
    listed = "Note what the conversation tells about:\n"
    fifteen = "\n".join(f"- {kind}" for kind in KINDS)
    sixty = "\n".join(f"- {kind}" for kind in (*KINDS, *FURTHER))
    return {
        "what matters": PROFILE.format(what="Note what matters."),
        "15 kinds": PROFILE.format(what=listed + fifteen),
        "60 kinds": PROFILE.format(what=listed + sixty),
        "in full, labels apart": PROFILE.format(
            what="Write down each statement in full, with every detail. Give each matter a label of its own."
        ),
    }


def _with_write_prompt(policy: MemoryPolicy, text: str) -> MemoryPolicy:
    prompts = {**policy.prompts.model_dump(), "write": text}
    return MemoryPolicy.model_validate({**policy.model_dump(), "prompts": prompts})


def main(data: Annotated[str, Argument(help="The users.")] = "generated:24@909") -> None:
    """Print a table: memory score, and the difference to the one that asks for what matters, paired by user."""
    seed = load_policy("awi")
    policies = {"default": seed} | {name: _with_write_prompt(seed, text) for name, text in prompts().items()}
    with ProcessPoolExecutor(usable_cores()) as executor:
        running = {name: executor.submit(evaluate, policy, data) for name, policy in policies.items()}
        evaluations = {name: future.result() for name, future in running.items()}
    what_matters = evaluations["what matters"].by_group
    print(f"{len(load_scenarios(data))} users\n")
    print("| write prompt | memory score | write | read | over what matters |\n|---|---|---|---|---|")
    for name, evaluation in evaluations.items():
        gain = estimate([score - what_matters[user] for user, score in evaluation.by_group.items()])
        print(
            f"| {name} | {evaluation.memory_score.mean:.3f} | {evaluation.mean('write'):.3f} | "
            f"{evaluation.mean('read'):.3f} | {gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] |"
        )


if __name__ == "__main__":
    run(main)

"""How often a search accepts something where no policy is better than another.

python -m mnemotune.experiments.optimizers.null OUT

The assistant answers by chance, whatever its memory and its prompts, and everything else is what a search is made of:
users, episodes, proposers, races, looks. Every acceptance is a mistake.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from ... import __version__
from ...data.cores import usable_cores
from ...data.dialogue.generator import generate_scenarios
from ...data.dialogue.scenario import Scenario
from ...data.splits import Splits
from ...data.task import grouped
from ...env import Cast, DialogueTrack, Evaluator, Protocol
from ...env.dialogue.bounds import bounds_of
from ...env.dialogue.record import UpperBound, answer_of
from ...optimizer.config import SearchConfig
from ...optimizer.proposers.mix import open_proposers
from ...optimizer.proposers.proposer import Means
from ...optimizer.search.arena import Arena
from ...optimizer.search.loop import Loop
from ...optimizer.search.screen import KeepAll
from ...optimizer.study import Study
from ...optimizer.views.table import markdown_lines
from ...policies.files import load_policy
from ...policies.lm import Budget, Completion, LanguageModel, Limits, Metered, Request, Usage
from ...policies.lm.embedded import EmbeddedModel
from ...policies.lm.lexical import LexicalEmbedder
from ...policies.prompts import Templates
from ..command import run

USERS = 16
"""In each of train and validation, as in ``problem.yaml``."""
PERIODS, QUESTIONS = 2, 4
"""Lives are cut short, so that hundreds of searches take minutes."""
SEARCH = {"generations": 15, "candidates": 4}
OURS, GREEDY = "mnemotune", "the best mean on train users"
DECIDED: Mapping[str, Mapping[str, Any]] = {OURS: {}, GREEDY: {"racing": False, "acceptance": "train"}}
"""How a search decides, by name."""
SEARCHES = {OURS: 600, GREEDY: 20}
FIRST_SEED = 1000
"""Of the searches; the level of the last look was chosen on the seeds 0 to 199."""
COLUMNS = ("decided by", "searches", "with anything accepted", "share", "candidates", "looks")
_OPTION = re.compile(r"^\d+: ", re.MULTILINE)


@dataclass(frozen=True)
class Guesser(LanguageModel):
    """Answers by chance, and notes nothing; the same request gets the same answer under the same seed."""

    seed: int
    name = "guesser"

    async def complete(self, request: Request) -> Completion:
        """Return a choice where there is one to make, and nothing of use elsewhere."""
        if request.role != "answer":
            return Completion("{}", Usage(0, 0))
        options = len(_OPTION.findall(request.messages[-1].content))
        chosen = random.Random(f"{self.seed}:{request.messages!r}").randint(1, options)
        return Completion(json.dumps({"answer": chosen}), Usage(0, 0))


@cache
def short_lives(users: int) -> list[Scenario]:
    """Make users with a few periods and questions."""
    rows = [scenario.model_dump(mode="json") for scenario in generate_scenarios(users=users, seed=4242)]
    return [Scenario.parse({**row, "periods": row["periods"][:PERIODS], "qas": row["qas"][:QUESTIONS]}) for row in rows]


def all_right(scenario: Scenario) -> UpperBound:
    """Return the upper bound of a model that makes no mistake when it is given the state."""
    return tuple(
        tuple(answer_of("", choice, choice, question) for choice in range(len(question.answer_choices)))
        for question in scenario.qas
    )


async def search(name: str, seed: int) -> dict[str, Any]:
    """Search once, last look included; return how many candidates were accepted."""
    lives = short_lives(2 * USERS)
    config = SearchConfig.model_validate({**SEARCH, **DECIDED[name], "seed": seed})
    guesser = Metered(Guesser(seed), budget=Budget(Limits()))
    bounds = {life.id: bounds_of(life, all_right(life), frozenset()) for life in lives}
    track = DialogueTrack(Protocol(1, 1))
    evaluator = Evaluator(track, Cast(guesser, guesser, LexicalEmbedder()), bounds=bounds)
    groups = grouped(lives)
    splits = Splits(tuple(groups[:USERS]), tuple(groups[USERS:]), ())
    arena = Arena(splits, evaluator, seed=seed, block=config.race_block, racing=config.racing)
    study = Study(None, name="null")
    proposer = Metered(EmbeddedModel(), budget=Budget(Limits()))
    with open_proposers(Means(config, Templates.bundled(), proposer, arena)) as proposers:
        loop = Loop(
            study=study,
            arena=arena,
            screen=KeepAll(),
            proposers=proposers,
            search=config,
            tell=lambda _: None,
            limits=Limits(),
        )
        await loop.run(load_policy("awi"))
        await loop.look_last()
    accepted = sum(trial.accepted for trial in study.trials[1:])
    looks = sum(trial.look is not None for trial in study.trials)
    return {"name": name, "seed": seed, "candidates": len(study.trials) - 1, "looks": looks, "accepted": accepted}


def _search(name: str, seed: int) -> dict[str, Any]:
    return asyncio.run(search(name, seed))


def seeds_of(searches: int) -> range:
    """Return the seeds of so many searches, none of which a level was chosen on."""
    return range(FIRST_SEED, FIRST_SEED + searches)


def key_of(name: str) -> str:
    """Return what tells a search's settings, and the package's version, from others."""
    settings = SearchConfig.model_validate({**SEARCH, **DECIDED[name]}).model_dump(mode="json", exclude={"seed"})
    text = json.dumps([__version__, USERS, PERIODS, QUESTIONS, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def kept(file: Path) -> list[dict[str, Any]]:
    """Return the searches that are done already; rows that cannot be read, or have other settings, are left out."""
    rows = []
    for line in file.read_bytes().splitlines() if file.is_file() else ():
        with suppress(ValueError, TypeError, KeyError):  # of a line that a stopped run left, or another's
            row = json.loads(line)
            if row["key"] == key_of(row["name"]):
                rows.append(row)
    return rows


def carry_out(out: Path, searches: Mapping[str, int]) -> list[dict[str, Any]]:
    """Do the searches that are missing in ``null.jsonl``, so many for each name; return all."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "null.jsonl"
    done = {(row["name"], row["seed"]) for row in kept(file)}
    left = [(name, seed) for name in searches for seed in seeds_of(searches[name]) if (name, seed) not in done]
    with ProcessPoolExecutor(usable_cores()) as executor, file.open("a", encoding="utf-8") as lines:
        for future in as_completed([executor.submit(_search, name, seed) for name, seed in left]):
            row = future.result()
            lines.write("\n" + json.dumps({"key": key_of(row["name"]), **row}))  # whatever was left unfinished before
            lines.flush()
    return [row for row in kept(file) if row["seed"] in seeds_of(searches.get(row["name"], 0))]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how often anything was accepted, with 95% Clopper-Pearson intervals, as a Markdown table."""
    return "\n".join([*markdown_lines(COLUMNS, _cells(rows)), ""])


def _cells(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    for name in DECIDED:
        of_it = [row for row in rows if row["name"] == name]
        if of_it:
            wrong, every = sum(row["accepted"] > 0 for row in of_it), len(of_it)
            share = binomtest(wrong, every).proportion_ci()
            share_text = f"{wrong / every:.3f} [{share.low:.3f}, {share.high:.3f}]"
            candidates, looks = (sum(row[what] for row in of_it) / every for what in ("candidates", "looks"))
            yield [name, str(every), str(wrong), share_text, f"{candidates:.0f}", f"{looks:.1f}"]


def main(out: Path) -> None:
    """Print the table."""
    print(table(carry_out(out, SEARCHES)))


if __name__ == "__main__":
    run(main)

"""Labels on all cores: the same as on one, and nothing stays open in another process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import toy
from mnemotune.env import Cast
from mnemotune.env.memrm.collection.collect import collect
from mnemotune.optimizer.search.cores import collect_on
from mnemotune.policies.files import load_policy
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates

TASKS = [toy.Letters(f"letters-{number}", f"writer-{number}", 3) for number in range(3)]


def test_other_processes_collect_the_same_and_close_what_they_have_opened(tmp_path: Path) -> None:
    model, track = toy.Closing(EmbeddedModel(), tmp_path), toy.LettersTrack(Templates.bundled())
    cast = Cast(model, model, LexicalEmbedder())
    policies = {policy.key: policy for policy in (load_policy("rag"), load_policy("awi"))}
    here = [episode for task in TASKS for episode in asyncio.run(collect(track, task, policies, cast, seed=1))]
    elsewhere = collect_on(2, track, cast, dict.fromkeys((task.id for task in TASKS), policies), TASKS, seed=1)
    assert elsewhere == here
    assert len(list(tmp_path.iterdir())) == len(TASKS)

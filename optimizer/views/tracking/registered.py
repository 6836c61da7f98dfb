"""What a run's MLflow view names beside its runs: prompts in the registry, and the groups that were played."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from hashlib import md5
from typing import TYPE_CHECKING

from ....policies.files import dump_policy
from ....policies.policy import MemoryPolicy
from ...search.outcome import Outcome
from ...search.sealed import EVOLVED
from .store import STUDY_TAG

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput
    from mlflow.entities.model_registry import ModelVersion

LINKED_TAG = "mlflow.linkedPrompts"
EXPERIMENTS_TAG = "_mlflow_experiment_ids"
"""Names the experiments on whose pages a prompt is listed, between commas."""
LINKING = "link_prompt_to_experiment_thread"
"""How the names of MLflow's threads begin that list a new prompt in an experiment."""
NO_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
"""What MLflow takes in no name of a prompt."""
BEST, SEED = "best", "seed"
"""Aliases of the versions that are the evolved policy's and the seed policy's."""


class Registry:
    """The prompts of one study in MLflow's registry."""

    def __init__(self, client: MlflowClient, experiment: str, *, study: str) -> None:
        """Use the client's registry, and list what is registered on the experiment's page."""
        self._client, self._experiment, self._tags = client, experiment, {STUDY_TAG: study}
        self._ours = f"tags.`{STUDY_TAG}` = '{study}' and tags.`mlflow.prompt.is_prompt` = 'true'"

    def show(self, outcome: Outcome, run: str) -> None:
        """Register seed and evolved policy and their prompts, where they are not yet, and link them from a run."""
        seed, best = outcome.config.seed_policy, outcome.study.best.policy or outcome.config.seed_policy
        versions = {(v.name, v.tags["mlflow.prompt.text"]): str(v.version) for v in self._versions()}
        linked = []
        for alias, policy in ((SEED, seed), (BEST, best)):
            for part, text in _texts(policy):
                name = f"{_name_of(outcome.folder.name)}.{part}"
                if (name, text) not in versions:
                    registered = self._client.register_prompt(name, text, commit_message=alias, tags=self._tags)
                    versions[name, text] = str(registered.version)
                    _wait_for_links()
                    self._list(name)
                version = versions[name, text]
                self._client.set_prompt_alias(name, alias, int(version))
                if alias == BEST:
                    linked.append({"name": name, "version": version})
        self._client.set_tag(run, LINKED_TAG, json.dumps(linked))

    def _list(self, name: str) -> None:
        """List a prompt on the experiment's page too."""
        prompt = self._client.get_prompt(name)
        there = "," if prompt is None else prompt.tags.get(EXPERIMENTS_TAG, ",")
        if f",{self._experiment}," not in there:
            self._client.set_prompt_tag(name, EXPERIMENTS_TAG, f"{there}{self._experiment},")

    def throw_away(self) -> None:
        """Delete the versions that are there, and the names that no other study uses."""
        names = set[str]()
        for version in self._versions():
            self._client.delete_prompt_version(version.name, str(version.version))
            names.add(version.name)
        every = self._client.search_model_versions("tags.`mlflow.prompt.is_prompt` = 'true'")
        left = {version.name for version in every}
        for name in names - left:
            self._client.delete_prompt(name)

    def _versions(self) -> list[ModelVersion]:
        return list(self._client.search_model_versions(self._ours))


def _name_of(folder: str) -> str:
    """Return a folder's name as MLflow takes it, which no other folder has."""
    name = NO_NAME.sub("-", folder)
    return name if name == folder else f"{name}-{md5(folder.encode(), usedforsecurity=False).hexdigest()[:6]}"


def _wait_for_links() -> None:
    """Wait until MLflow's threads have listed new prompts in the default experiment: they would undo what follows."""
    for thread in threading.enumerate():
        if thread.name.startswith(LINKING):
            thread.join()


def _texts(policy: MemoryPolicy) -> Iterator[tuple[str, str]]:
    """Yield the policy as a file has it, and its prompts with their slots as MLflow writes them."""
    yield "policy", dump_policy(policy)
    for slot, text in policy.prompts.model_dump().items():
        if text is not None:
            yield slot, re.sub(r"(?<!\{)\{(\w+)\}(?!\})", r"{{\1}}", text)


def datasets(outcome: Outcome) -> list[DatasetInput]:
    """Return the groups of each split that were played so far; the sealed test's when it is done."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    config, trials = outcome.config, outcome.study.trials
    tested = outcome.test.rows.get(EVOLVED) if outcome.test.done else None
    splits = {
        "train": (config.data, trials[0].train if trials else ()),
        "validation": (config.data, trials[0].validation if trials else ()),
        "sealed": (outcome.sealed_source or config.data, () if tested is None else tested.by_group),
    }
    inputs = []
    for split, (source, groups) in splits.items():
        if groups:
            digest = md5(json.dumps([source, *sorted(groups)]).encode(), usedforsecurity=False).hexdigest()[:8]
            profile = json.dumps({outcome.track.noun + "s": len(groups)})
            dataset = Dataset(f"{source} {split}", digest, config.track, json.dumps({"data": source}), None, profile)
            inputs.append(DatasetInput(dataset, [InputTag("mlflow.data.context", split)]))
    return inputs

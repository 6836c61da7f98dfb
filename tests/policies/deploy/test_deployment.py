"""What a policy is deployed with: read beside it, unless something else is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.policies import dump_policy, load_policy
from mnemotune.policies.deploy.deployment import Deployment, DeploymentError, read_deployment

SETTINGS = "policy: best_policy.yaml\nmodel: openai:m\nembedder: lexical:64\ncontext_tokens: 500\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "best_policy.yaml").write_text(dump_policy(load_policy("awe")), encoding="utf-8")
    (tmp_path / "other.yaml").write_text(dump_policy(load_policy("rag")), encoding="utf-8")
    (tmp_path / "deployment.yaml").write_text(SETTINGS, encoding="utf-8")
    return tmp_path


def test_a_run_brings_the_settings_of_its_search(run: Path) -> None:
    found = Deployment(load_policy("awe"), "openai:m", "lexical:64", 500)
    assert read_deployment(run) == read_deployment(run / "best_policy.yaml") == found


def test_what_is_given_wins_and_none_is_not_given(run: Path) -> None:
    found = read_deployment(run, model="embedded", context_tokens=None)
    assert (found.model, found.context_tokens) == ("embedded", 500)


def test_settings_are_for_their_policy_alone(run: Path) -> None:
    plain = Deployment(load_policy("rag"))
    assert read_deployment(run / "other.yaml") == read_deployment("rag") == plain


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("policy: [", "deployment.yaml: "),
        ("policy: best_policy.yaml\nmodle: m\n", "deployment.yaml: modle: Extra inputs are not permitted"),
        ("policy: best_policy.yaml\ncontext_tokens: many\n", "deployment.yaml: context_tokens: Input should be"),
    ],
)
def test_a_damaged_file_of_settings_is_named(run: Path, text: str, problem: str) -> None:
    (run / "deployment.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(DeploymentError) as error:
        read_deployment(run)
    assert f"{run}/{problem}" in str(error.value)


def test_a_model_that_nothing_names_or_nobody_has_is_an_option_to_give() -> None:
    with pytest.raises(DeploymentError, match="--model: say which model writes"):
        read_deployment("awe").open_model()
    with pytest.raises(DeploymentError, match="--model: 'elephant' is no model"):
        read_deployment("awe", model="elephant").open_model()
    with pytest.raises(DeploymentError, match="--embedder: 'elephant' is no embedder"):
        read_deployment("awe", embedder="elephant").open_embedder()
    assert read_deployment("awe", model="embedded").open_model("http://localhost:1/v1").name == "embedded"

"""What a policy is deployed with: read beside it, unless something else is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mnemotune.policies import dump_policy, load_policy
from mnemotune.policies.deploy.deployment import (
    Deployment,
    DeploymentError,
    deployed_store,
    deployment_settings,
    read_deployment,
)
from mnemotune.policies.files import dump_yaml
from mnemotune.policies.lm.endpoint_config import EndpointConfig
from mnemotune.policies.lm.providers import ModelsConfig

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


def test_requests_are_formed_as_in_the_search_and_are_sent_where_the_deployment_says(run: Path) -> None:
    form = EndpointConfig(max_tokens_field="max_completion_tokens", extra_body={"reasoning_effort": "low"})
    reached = form.model_copy(update={"base_url": "http://localhost:1/v1", "concurrency": 3})
    text = dump_yaml({"policy": "best_policy.yaml", **deployment_settings(ModelsConfig(endpoint=reached), None)})
    (run / "deployment.yaml").write_text(text, encoding="utf-8")
    found = read_deployment(run)
    assert found.endpoint == form
    assert found.embedder_endpoint == form.model_copy(update={"extra_body": {}})


async def test_the_model_is_asked_as_the_settings_say(run: Path) -> None:
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response({"choices": [{"message": {"content": "{}"}}]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    text = SETTINGS + "endpoint: {max_tokens_field: max_completion_tokens}\n"
    (run / "deployment.yaml").write_text(text, encoding="utf-8")
    async with TestServer(app) as server:
        url = str(server.make_url("/v1"))
        async with deployed_store(read_deployment(run), run / "store.db", base_url=url) as store:
            await store.ask_harmless()
    assert "max_completion_tokens" in asked[0]
    assert "max_tokens" not in asked[0]


def test_settings_are_for_their_policy_alone(run: Path) -> None:
    plain = Deployment(load_policy("rag"))
    assert read_deployment(run / "other.yaml") == read_deployment("rag") == plain


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("policy: [", "deployment.yaml: "),
        ("policy: best_policy.yaml\nmodle: m\n", "deployment.yaml: modle: Extra inputs are not permitted"),
        ("policy: best_policy.yaml\ncontext_tokens: many\n", "deployment.yaml: context_tokens: Input should be"),
        ("policy: best_policy.yaml\nendpoint: {attempts: 0}\n", "deployment.yaml: endpoint.attempts: Input should be"),
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


@pytest.mark.parametrize(
    ("policy", "model", "told"),
    [("awi", "embedded", True), ("rag", "embedded", False), ("awi", "openai:m", False), ("awi", None, False)],
)
def test_it_is_said_where_the_embedded_model_writes(policy: str, model: str | None, told: bool) -> None:
    deployment = Deployment(load_policy(policy), model=model)
    assert bool(deployment.remark) is told
    assert not told or "written by the embedded model" in deployment.remark

"""Language models and embedders by name."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemotune.optimizer.config import ConfigError, parse_config
from mnemotune.optimizer.models import open_models
from mnemotune.policies.lm import Message, Request
from mnemotune.policies.lm.endpoint_config import EndpointConfig
from mnemotune.policies.lm.providers import EMBEDDERS, MODELS, embedder_named, model_named

ROOT = Path(__file__).parents[3]
LEAST = "{data: base, splits: {train: 1, validation: 2, test: 2}, seed_policy: native}"
PARROT = '''
"""A language model that says everything twice, and an embedder that sees a text's length."""

import numpy as np

from mnemotune.policies.lm import Completion, Embedder, Embedding, LanguageModel, Usage
from mnemotune.policies.lm.providers import Provided, Provider


class Parrot(LanguageModel):
    name = "parrot"

    async def complete(self, request):
        return Completion(2 * request.messages[-1].content, Usage(1, 2))

    async def aclose(self):
        pass


class Rulers(Embedder):
    name = "ruler"

    async def embed(self, texts, *, bill=None):
        angles = np.array([len(text) for text in texts], dtype=np.float32)
        return Embedding(np.stack([np.cos(angles), np.sin(angles)], axis=1))

    async def aclose(self):
        pass


PARROTS = Provider("parrot:COLOUR", lambda colour: Provided(colour, lambda endpoint, cache: Parrot(), remote=False))
RULERS = Provider("ruler", lambda _: Provided("ruler", lambda endpoint, cache: Rulers(), remote=False))
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package that brings a model and an embedder along."""
    (tmp_path / "parrots.py").write_text(PARROT, encoding="utf-8")
    about = tmp_path / "parrots-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: parrots\nVersion: 1.0\n", encoding="utf-8")
    points = "[mnemotune.models]\nparrot = parrots:PARROTS\n[mnemotune.embedders]\nruler = parrots:RULERS\n"
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for registry, name in ((MODELS, "parrot"), (EMBEDDERS, "ruler")):
        registry.get(name)
        registry.unregister(name)


def test_a_model_of_another_package_is_one_file_and_one_registration(installed: None) -> None:
    config = parse_config(LEAST, where="my.yaml", overrides=["model=parrot:green"])
    request = Request((Message("user", "hello "),), role="reply")
    with open_models(config, folder=None) as models:
        assert asyncio.run(models.cast.assistant.complete(request)).text == "hello hello "
    with pytest.raises(ConfigError, match=r"user_model: .*`embedded\[:READER\]`, `openai:NAME` or `parrot:COLOUR`"):
        parse_config(LEAST, where="my.yaml", overrides=["user_model=parakeet"])


def test_an_embedder_of_another_package_is_one_file_and_one_registration(installed: None) -> None:
    config = parse_config(LEAST, where="my.yaml", overrides=["embedder=ruler"])
    with open_models(config, folder=None) as models:
        assert asyncio.run(models.cast.embedder.embed(["a", "b", "ab"])).vectors.shape == (3, 2)
    with pytest.raises(ConfigError, match=r"embedder: .*`fastembed:NAME`, `lexical:DIMENSIONS`, .* or `ruler`"):
        parse_config(LEAST, where="my.yaml", overrides=["embedder=yardstick"])


def test_the_embedded_model_is_a_family_and_each_of_its_readers_is_one_model() -> None:
    family = model_named("embedded").readers
    assert len(family) == 5
    for name in family:
        one = model_named(f"embedded:{name}")
        assert one.readers == ()
        assert one.stand_in
        assert one.per_core


@pytest.mark.parametrize(("name", "why"), [("embedded:2", "readers are gpt"), ("openai", "name is missing")])
def test_what_is_wrong_with_the_rest_of_a_name_is_said(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        model_named(name)


def test_what_is_not_behind_an_endpoint_is_free_and_nobody_guesses_the_price_of_the_others() -> None:
    for named, free, unknown in ((model_named, "embedded", "openai:x"), (embedder_named, "lexical:8", "openai:x")):
        assert named(unknown).price(EndpointConfig()) is None
        price = named(free).price(EndpointConfig())
        assert price is not None
        assert price.cost(10**6, 10**6) == 0


def compared_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts that anything is compared with, or searched for."""
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            searched = {"startswith", "removeprefix", "endswith", "partition", "split", "index", "find"}
            parts = list(node.args) if node.func.attr in searched else []
        for part in parts:
            for leaf in ast.walk(part):
                if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                    yield getattr(node, "lineno", 0), leaf.value


def test_nobody_else_tests_a_providers_name() -> None:
    names = {*MODELS.names, *EMBEDDERS.names}
    guilty = [
        f"{file.relative_to(ROOT)}:{line}"
        for folder in ("data", "policies", "env", "optimizer", "experiments")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for line, text in compared_texts(ast.parse(file.read_text(encoding="utf-8")))
        if text.split(":")[0] in names
    ]
    assert guilty == []


def test_a_test_of_a_providers_name_is_seen() -> None:
    code = 'a == "embedded"\nset(b) == {"embedded"}\nc.startswith("openai:")\nmatch d:\n    case "embedded": pass\n'
    assert [line for line, _ in compared_texts(ast.parse(code))] == [1, 2, 3, 5]

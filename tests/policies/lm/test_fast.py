"""Embedding models on this machine, with fastembed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from mnemotune.policies.lm import Embedder, LanguageModelError
from mnemotune.policies.lm.conformance import EmbedderConformance, Make
from mnemotune.policies.lm.providers import open_embedder

WORDS = ". , i my a the cat cats dog is are asleep sleeps swim every day great income tax due in may".split()
UNKNOWN = "[UNK]"
NEEDED = "needs the extra `embed` and onnx, which makes a tiny model"


def write_model(folder: Path, *, rows: int = 64) -> None:
    """Write a model that gives each known word a vector of its own, as sentence-transformers exports models."""
    onnx = pytest.importorskip("onnx", reason=NEEDED)
    words = dict.fromkeys(["[PAD]", UNKNOWN, *WORDS, *(word.title() for word in WORDS)])
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"model_max_length": 64, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    table = np.random.default_rng(0).normal(size=(rows, 32)).astype(np.float32)
    ints, floats = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "words",
        [value("input_ids", ints, ["texts", "tokens"]), value("attention_mask", ints, ["texts", "tokens"])],
        [value("last_hidden_state", floats, ["texts", "tokens", 32])],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, folder / "model.onnx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("fastembed", reason=NEEDED)
    made = tmp_path_factory.mktemp("model")
    write_model(made)
    return made


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Embedder:
    return open_embedder(f"fastembed:{folder}")


class TestFastEmbedder(EmbedderConformance):
    @pytest.fixture
    def make(self, embedder: Embedder) -> Make:
        return lambda: embedder


async def test_an_embedder_of_this_machine_takes_nothing(embedder: Embedder) -> None:
    assert embedder.worst_case(["a cat"]) is None
    assert (await embedder.embed(["a cat"])).usage is None


async def test_tokens_are_pooled_as_the_folder_says(folder: Path, tmp_path: Path) -> None:
    write_model(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    pooling: dict[str, Any] = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")
    texts = ["cat dog", "cat", "dog cat"]
    first = (await open_embedder(f"fastembed:{tmp_path}").embed(texts)).vectors
    mean = (await open_embedder(f"fastembed:{folder}").embed(texts)).vectors
    assert first[0] @ first[1] == pytest.approx(1, abs=1e-5)
    assert mean[0] @ mean[2] == pytest.approx(1, abs=1e-5)
    assert mean[0] @ mean[1] < 0.99


async def test_a_folder_can_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastembed", reason=NEEDED)
    (tmp_path / "words").mkdir()
    write_model(tmp_path / "words")
    monkeypatch.chdir(tmp_path)
    assert (await open_embedder("fastembed:words").embed(["cat"])).vectors.shape == (1, 32)


async def test_a_model_that_fails_is_named(tmp_path: Path) -> None:
    pytest.importorskip("fastembed", reason=NEEDED)
    write_model(tmp_path, rows=2)
    with pytest.raises(LanguageModelError, match=f"fastembed:{tmp_path} failed: .*out of data bounds"):
        await open_embedder(f"fastembed:{tmp_path}").embed(["cat"])


def test_a_folder_without_a_model_and_a_name_that_nobody_knows_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("fastembed", reason=NEEDED)
    with pytest.raises(LanguageModelError, match=r"has no model\.onnx; write a name that fastembed lists"):
        open_embedder(f"fastembed:{tmp_path}")
    with pytest.raises(LanguageModelError, match="nobody/nothing is not supported"):
        open_embedder("fastembed:nobody/nothing")


def test_without_fastembed_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(LanguageModelError, match=r"pip install 'mnemotune\[embed\]'"):
        open_embedder("fastembed:BAAI/bge-small-en-v1.5")

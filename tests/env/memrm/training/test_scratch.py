"""Training from scratch, the checkpoint, and its two runners. One small model is trained for the module."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="training needs torch, of the extra memrm")
pytest.importorskip("transformers", reason="compared with transformers, of the extra memrm")

import random

from mnemotune.env.memrm.model.checkpoint import CARD, CONFIG, ONNX, TOKENIZER, WEIGHTS, CheckpointError
from mnemotune.env.memrm.model.scoring import MemRM, load_memrm
from mnemotune.env.memrm.model.torch_runner import TransformersRunner
from mnemotune.env.memrm.rows.row import Row, write_rows
from mnemotune.env.memrm.training.examples import read_examples
from mnemotune.env.memrm.training.recipe import TrainingRecipe
from mnemotune.env.memrm.training.scratch import STATE, train_scratch
from mnemotune.policies.memory import MemoryEvent

MakeRow = Callable[..., Row]
FILES = {WEIGHTS, CONFIG, TOKENIZER, CARD, ONNX}


def recipe_of(rows: Path, **schedule: object) -> TrainingRecipe:
    model = {"kind": "scratch", "vocabulary": 400, "layers": 2, "hidden": 32, "heads": 2, "intermediate": 64}
    steps = {"epochs": 3, "batch_tokens": 1500, "learning_rate": 5e-3, "threads": 1, **schedule}
    return TrainingRecipe.model_validate({"rows": rows, "held_out": 0.2, "model": model, "schedule": steps})


def silent(*_: object) -> None: ...


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, make_row: MakeRow) -> Path:
    folder = tmp_path_factory.mktemp("memrm")
    rng = random.Random(0)
    write_rows(folder / "rows.jsonl", [make_row(rng, user=f"user-{i % 10}", write=i) for i in range(120)])
    recipe = recipe_of(folder / "rows.jsonl")
    train_scratch(recipe, read_examples(recipe), folder / "model", resume=False, log=silent)
    return folder / "model"


@pytest.fixture
def events(make_row: MakeRow) -> list[MemoryEvent]:
    """Some share their prefix."""
    rng = random.Random(7)
    rows = [make_row(rng, user="x") for _ in range(20)]
    others = [row.model_copy(update={"after": [*row.before, "something else"]}) for row in rows[:10]]
    return [row.event for row in [*rows, *others]]


def test_a_checkpoint_tells_the_language_model_that_the_cards_of_all_its_rows_name(
    tmp_path: Path, make_row: MakeRow
) -> None:
    rng = random.Random(0)
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for file in files:
        write_rows(file, [make_row(rng, user=f"user-{i % 5}", write=i) for i in range(20)])
    Path(f"{files[0]}.card.json").write_text('{"settings": {"model": "embedded"}}', encoding="utf-8")
    named = [read_examples(recipe_of(file)).language_model for file in files]
    both = recipe_of(files[0]).model_copy(update={"rows": tuple(files)})
    assert [*named, read_examples(both).language_model] == ["embedded", None, None]


def test_a_checkpoint_has_its_files_and_no_pickle(trained: Path) -> None:
    assert {path.name for path in trained.iterdir()} == FILES


def test_onnx_scores_as_torch_does(trained: Path, events: list[MemoryEvent]) -> None:
    torch_scores, onnx_scores = (load_memrm(trained, torch=torch).score(events) for torch in (True, False))
    assert np.abs(torch_scores - onnx_scores).max() < 1e-4


@pytest.mark.parametrize("torch", [True, False], ids=["torch", "onnx"])
def test_shared_prefixes_and_order_change_nothing(trained: Path, events: list[MemoryEvent], torch: bool) -> None:
    model = load_memrm(trained, torch=torch)
    alone = np.concatenate([model.score([event]) for event in events])
    order = random.Random(3).sample(range(len(events)), len(events))
    np.testing.assert_allclose(model.score(events), alone, atol=1e-5)
    np.testing.assert_allclose(model.score([events[i] for i in order]), alone[order], atol=1e-5)


def test_transformers_reads_the_checkpoint_and_scores_the_same(trained: Path, events: list[MemoryEvent]) -> None:
    from transformers import AutoModelForCausalLM

    ours = load_memrm(trained, torch=True)
    theirs = AutoModelForCausalLM.from_pretrained(trained)
    runner = TransformersRunner(theirs, (ours.tokens.safe, ours.tokens.harmful))
    np.testing.assert_allclose(MemRM(runner, ours.tokens, ours.card).score(events), ours.score(events), atol=1e-5)


def test_a_stopped_training_goes_on_to_the_same_model(rows_file: Path, tmp_path: Path, make_row: MakeRow) -> None:
    class Stopped(Exception):  # noqa: N818 - what happens
        pass

    recipe = recipe_of(rows_file, checkpoint_every=1)
    examples = read_examples(recipe)

    def stop(*_: object) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        train_scratch(recipe, examples, tmp_path / "a", resume=False, log=stop)
    assert (tmp_path / "a" / STATE).is_file()
    train_scratch(recipe, examples, tmp_path / "a", resume=True, log=silent)
    train_scratch(recipe, examples, tmp_path / "b", resume=False, log=silent)
    events = [make_row(random.Random(2), user="x").event]
    a, b = (load_memrm(tmp_path / name).score(events) for name in "ab")
    np.testing.assert_allclose(a, b, atol=1e-3)


def broken(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "broken"))


@pytest.mark.parametrize("file", [WEIGHTS, CONFIG, TOKENIZER, CARD])
@pytest.mark.parametrize("how", ["cut", "missing", "other"])
def test_a_corrupt_or_foreign_checkpoint_is_refused(trained: Path, tmp_path: Path, file: str, how: str) -> None:
    folder = broken(trained, tmp_path)
    if how == "missing":
        (folder / file).unlink()
    elif how == "cut":
        (folder / file).write_bytes((folder / file).read_bytes()[:-40])
    else:
        (folder / file).write_bytes(b'{"model_type": "llama", "format": "else"}')
    with pytest.raises(CheckpointError):
        load_memrm(folder, torch=True)


def test_a_graph_that_is_none_is_refused(trained: Path, tmp_path: Path) -> None:
    folder = broken(trained, tmp_path)
    (folder / ONNX).write_bytes(b"not a graph")
    with pytest.raises(CheckpointError, match="onnxruntime cannot load"):
        load_memrm(folder)


def test_a_checkpoint_of_another_template_is_refused(trained: Path, tmp_path: Path) -> None:
    folder = broken(trained, tmp_path)
    card = json.loads((folder / CARD).read_text()) | {"template": 99}
    (folder / CARD).write_text(json.dumps(card))
    with pytest.raises(CheckpointError, match="template 99"):
        load_memrm(folder)


def test_weights_that_do_not_fit_the_config_are_refused(trained: Path, tmp_path: Path) -> None:
    folder = broken(trained, tmp_path)
    config = json.loads((folder / CONFIG).read_text()) | {"num_hidden_layers": 3}
    (folder / CONFIG).write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="does not fit"):
        load_memrm(folder, torch=True)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: there is no such folder"):
        load_memrm(tmp_path / "nowhere")

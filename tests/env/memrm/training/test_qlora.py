"""The GPU recipe, whole, on a CPU: a small random Qwen3 in four bits, with an adapter; and MemGym's adapter layout.

The libraries take longer to import than the tests of a folder: only the process that runs these tests does it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from mnemotune.env.memrm.model.checkpoint import ADAPTER, CheckpointError
from mnemotune.env.memrm.model.memgym import load_memgym, read_memgym, score_prompts, write_memgym
from mnemotune.env.memrm.model.runner import padded
from mnemotune.env.memrm.model.scoring import load_memrm
from mnemotune.env.memrm.model.tokens import PAD, train_tokens
from mnemotune.env.memrm.rows.row import Row, write_rows
from mnemotune.env.memrm.training.examples import read_examples
from mnemotune.env.memrm.training.recipe import RecipeError, TrainingRecipe
from mnemotune.env.memrm.training.scratch import calibrated

for library in ("torch", "transformers", "peft", "trl", "bitsandbytes", "datasets"):
    if find_spec(library) is None:
        pytest.skip(f"adapters need {library}, of the extra memrm", allow_module_level=True)

MakeRow = Callable[..., Row]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    folder = tmp_path_factory.mktemp("base")
    tokens = train_tokens(["I moved to the coast last week.\nAnswer:"] * 9, size=300)
    PreTrainedTokenizerFast(tokenizer_object=tokens.tokenizer, pad_token=PAD).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 32}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True}
    Qwen3ForCausalLM(Qwen3Config(vocab_size=tokens.size, **sizes, **heads)).save_pretrained(folder)
    return folder


@pytest.fixture
def recipe(base: Path, tmp_path: Path, rows: list[Row]) -> TrainingRecipe:
    write_rows(tmp_path / "rows.jsonl", rows[:40])
    steps = {"epochs": 1, "batch_tokens": 800, "learning_rate": 1e-3, "checkpoint_every": 2}
    model = {"kind": "qlora", "base": str(base)}
    return TrainingRecipe.model_validate(
        {
            "rows": tmp_path / "rows.jsonl",
            "held_out": 0.2,
            "window": 1000,
            "model": model,
            "schedule": steps,
        }
    )


@pytest.mark.slow
def test_the_gpu_recipe_runs_from_rows_to_scores(recipe: TrainingRecipe, tmp_path: Path, rows: list[Row]) -> None:
    import torch
    from safetensors.torch import load_file

    from mnemotune.env.memrm.training.qlora import train_adapter

    heard: dict[str, float] = {}
    examples = read_examples(recipe)

    class Stopped(Exception):  # noqa: N818 - what happens
        pass

    def stop(figures: object, step: int) -> None:
        if step >= 3:
            raise Stopped

    with pytest.raises(Stopped):
        train_adapter(recipe, examples, tmp_path / "out", resume=False, log=stop)
    assert any((tmp_path / "out" / "checkpoints").glob("checkpoint-2"))
    card = train_adapter(
        recipe, examples, tmp_path / "out", resume=True, log=lambda figures, step: heard.update(figures)
    )
    assert {tensor.dtype for tensor in load_file(tmp_path / "out" / ADAPTER).values()} == {torch.float32}
    assert "loss" in heard
    assert "held_out/accuracy" in heard
    model = load_memrm(tmp_path / "out")
    assert calibrated(model, examples.held_out) == card
    given = [row.event for row in rows[:8]]
    scores = model.score(given)
    assert ((scores > 0) & (scores < 1)).all()
    np.testing.assert_allclose(np.concatenate([model.score([event]) for event in given]), scores, atol=1e-2)  # bf16


def test_an_adapter_is_trained_on_a_base_that_is_not_quantised(recipe: TrainingRecipe, tmp_path: Path) -> None:
    from mnemotune.env.memrm.training.qlora import train_adapter

    plain = recipe.model_copy(update={"model": recipe.model.model_copy(update={"kind": "lora"})})
    heard: dict[int, float] = {}

    def hear(figures: Mapping[str, float], step: int) -> None:
        heard.update({step: figures["loss"]} if "loss" in figures else {})

    train_adapter(plain, read_examples(plain), tmp_path / "out", resume=False, log=hear)
    assert heard[max(heard)] < heard[1]
    assert (tmp_path / "out" / ADAPTER).is_file()


def test_a_runner_gives_the_logits_of_the_whole_model(base: Path) -> None:
    import torch
    from transformers import Qwen3ForCausalLM

    from mnemotune.env.memrm.model.torch_runner import TransformersRunner

    model = Qwen3ForCausalLM.from_pretrained(base)
    prompts = [(5, 9, 11), (7,), (30, 31, 32, 33)]
    answers = TransformersRunner(model, (3, 4)).answer(padded(prompts))
    with torch.inference_mode():
        whole = [model(torch.tensor([ids])).logits[0, -1, [3, 4]].tolist() for ids in prompts]
    np.testing.assert_allclose(answers, whole, atol=1e-5)


def test_a_base_that_is_not_there_is_named(recipe: TrainingRecipe, tmp_path: Path) -> None:
    from mnemotune.env.memrm.training.qlora import train_adapter

    lost = recipe.model_copy(update={"model": recipe.model.model_copy(update={"base": str(tmp_path / "none")})})
    with pytest.raises(RecipeError, match=r"model\.base"):
        train_adapter(lost, read_examples(lost), tmp_path / "out", resume=False, log=lambda *_: None)


@pytest.fixture
def published(base: Path, tmp_path: Path) -> Path:
    """An adapter as MemGym publishes it: in ``checkpoint-500`` of a folder, its base model named."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen3ForCausalLM

    model = Qwen3ForCausalLM.from_pretrained(base)
    torch.manual_seed(1)
    lora = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "k_proj"], init_lora_weights=False)
    get_peft_model(model, lora).save_pretrained(tmp_path / "memgym-rm" / "checkpoint-500")
    return tmp_path / "memgym-rm"


def test_the_published_layout_scores_memgym_rows(published: Path, tmp_path: Path, rows: list[Row]) -> None:
    write_memgym(tmp_path / "memgym.jsonl", rows[:6])
    read = list(read_memgym(tmp_path / "memgym.jsonl"))
    model = load_memgym(published, window=2000)
    scores = score_prompts(model, [row.prompt for row in read])
    assert [row.label for row in read] == [int(row.label == "SAFE") for row in rows[:6]]
    assert ((scores > 0) & (scores < 1)).all()
    assert len(set(scores.tolist())) > 1


def test_an_adapter_changes_the_scores_of_its_base(published: Path, base: Path) -> None:
    from transformers import Qwen3ForCausalLM

    from mnemotune.env.memrm.model.torch_runner import TransformersRunner

    adapted = load_memgym(published, window=2000)
    plain = load_memgym(published, window=2000)
    plain._runner = TransformersRunner(
        Qwen3ForCausalLM.from_pretrained(base), (adapted.tokens.safe, adapted.tokens.harmful)
    )
    prompts = ["I moved to the coast.\n\nAnswer:"]
    assert score_prompts(adapted, prompts)[0] != pytest.approx(score_prompts(plain, prompts)[0], abs=1e-6)


def test_an_empty_prompt_and_one_beyond_the_window_are_nan(published: Path) -> None:
    scores = score_prompts(load_memgym(published, window=50), ["", "coast " * 100, "coast\n\nAnswer:"])
    assert np.isnan(scores).tolist() == [True, True, False]


def test_an_adapter_cut_short_is_refused(published: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(published, tmp_path / "cut"))
    weights = folder / "checkpoint-500" / ADAPTER
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match="cut short"):
        load_memgym(folder)


def test_an_adapter_whose_base_is_gone_is_refused(published: Path, tmp_path: Path) -> None:
    path = published / "checkpoint-500" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": str(tmp_path / "gone")}))
    with pytest.raises(CheckpointError, match="cannot load the adapter on"):
        load_memgym(published)

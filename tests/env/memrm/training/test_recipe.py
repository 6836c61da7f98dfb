from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mnemotune.env.memrm.model.render import Prompt
from mnemotune.env.memrm.rows.row import EvictedMessage, FactLabel, Row, RowError, write_rows
from mnemotune.env.memrm.training.examples import Example, Examples, labelled, read_examples, shuffled_batches
from mnemotune.env.memrm.training.recipe import RecipeError, Schedule, TrainingRecipe, load_recipe

RECIPES = Path(__file__).parents[4] / "configs" / "memrm"


@pytest.mark.parametrize("name", ["tiny", "qwen3-1.7b-qlora", "smollm2-135m-qlora", "smollm2-135m-lora"])
def test_the_bundled_recipes_load_and_say_how_they_are_run(name: str) -> None:
    path = RECIPES / f"{name}.yaml"
    assert load_recipe(path).seed == 0
    assert path.read_text().startswith(f"# mnemotune memrm train configs/memrm/{name}.yaml")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rows: [", "is not YAML"),
        ("rows: a\nmodel: {kind: magic}", "model"),
        ("rows: a\nwindows: 3\nmodel: {kind: scratch}", "windows"),
        ("rows: a\nmodel: {kind: scratch, heads: 4, groups: 3}", "4 is no multiple of the 3 groups"),
        ("rows: a\nmodel: {kind: scratch, heads: 3}", "128 is no multiple of the 3 heads"),
    ],
)
def test_a_recipe_that_is_wrong_is_refused_by_file_and_key(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(RecipeError, match=rf"recipe\.yaml.*{why}"):
        load_recipe(tmp_path / "recipe.yaml")


def recipe_of(path: Path) -> TrainingRecipe:
    return TrainingRecipe.model_validate({"rows": path, "held_out": 0.2, "model": {"kind": "scratch"}})


def test_held_out_users_are_never_trained_on(rows_file: Path, rows: list[Row]) -> None:
    examples = read_examples(recipe_of(rows_file))
    held = {row.group for row in examples.held_out}
    assert len(held) == 2
    assert len(examples.held_out) == 24
    learnt = [labelled(row) for row in rows if row.group not in held]
    assert sum(example.count for example in examples.train) == sum(len(list(given)) for given in learnt)


def test_equal_prompts_are_one_example_that_counts_as_often(tmp_path: Path, rows: list[Row]) -> None:
    twice = [row.model_copy(update={"write": i}) for row in rows for i in (0, 1)]
    write_rows(tmp_path / "once.jsonl", rows)
    write_rows(tmp_path / "twice.jsonl", twice)
    once, doubled = (read_examples(recipe_of(tmp_path / f"{name}.jsonl")).train for name in ("once", "twice"))
    assert [(e.prompt, e.safe, 2 * e.count) for e in once] == [(e.prompt, e.safe, e.count) for e in doubled]


def test_batches_are_filled_by_tokens_and_leave_nothing_out(rows_file: Path) -> None:
    recipe = recipe_of(rows_file).model_copy(update={"window": 768, "schedule": Schedule(batch_tokens=1000)})
    lengths = [10 + 7 * i % 90 for i in range(300)]
    first, again, second = (shuffled_batches(lengths, recipe, epoch=epoch) for epoch in (0, 0, 1))
    assert sorted(place for batch in first for place in batch) == list(range(300))
    padded = [len(batch) * max(lengths[place] for place in batch) for batch in first]
    assert max(padded) <= 1200  # lengths are drawn up to a fifth apart
    assert sorted(padded)[len(padded) // 2] > 800
    assert first == again != second


SAID = "I moved to the coast. My neighbour has a pony. What should I pack?"


def learnt(rows: list[Row], *facts: FactLabel) -> list[tuple[str, bool]]:
    """What a row with one message and one removed line teaches."""
    row = rows[0].model_copy(
        update={
            "evicted": [EvictedMessage(role="user", content=SAID)],
            "before": ["a boat"],
            "after": [],
            "facts": list(facts),
        }
    )
    return [(prompt.prefix.split()[-1], safe) for prompt, safe in labelled(row)]


@pytest.mark.parametrize(
    ("fact", "taught"),
    [
        ({"lost": True, "message": 0, "sentence": 0}, {"coast.": False, "pony.": True, "pack?": True, "boat": True}),
        ({"lost": False, "message": 0, "sentence": 0}, {"coast.": True, "pony.": True, "pack?": True, "boat": True}),
        ({"lost": None, "message": 0, "sentence": 0}, {"pony.": True, "pack?": True, "boat": True}),
        ({"lost": True, "message": 0}, {"boat": True}),
        ({"lost": True, "line": 0}, {"coast.": True, "pony.": True, "pack?": True, "boat": False}),
        ({"lost": True}, {"coast.": True, "pony.": True, "pack?": True}),
    ],
)
def test_a_statement_is_harmful_when_it_tells_a_fact_that_is_lost(
    rows: list[Row], fact: dict[str, object], taught: dict[str, bool]
) -> None:
    assert dict(learnt(rows, FactLabel.model_validate({"info": "home_place", **fact}))) == taught


def test_what_a_data_card_holds_out_is_left_out(rows_file: Path, tmp_path: Path, rows: list[Row]) -> None:
    card = tmp_path / "card.json"
    card.write_text(json.dumps({"splits": {"seed": 0, "users": ["user-0"], "policies": [], "topics": []}}))
    examples = read_examples(recipe_of(rows_file).model_copy(update={"splits": card}))
    assert "user-0" not in {row.group for row in examples.held_out}
    held = {"user-0", *(row.group for row in examples.held_out)}
    learnt = [given for row in rows if row.group not in held for given in labelled(row)]
    assert sum(example.count for example in examples.train) == len(learnt)


def test_what_is_no_data_card_is_refused(rows_file: Path, tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    card.write_text("[]")
    with pytest.raises(RowError, match="is no data card"):
        read_examples(recipe_of(rows_file).model_copy(update={"splits": card}))


def test_one_user_is_too_few(tmp_path: Path, rows: list[Row]) -> None:
    write_rows(tmp_path / "rows.jsonl", [row for row in rows if row.group == "user-1"])
    with pytest.raises(RecipeError, match="two are needed"):
        read_examples(recipe_of(tmp_path / "rows.jsonl"))


def test_rows_kept_apart_take_the_place_of_the_held_out_share(rows_file: Path, tmp_path: Path, rows: list[Row]) -> None:
    others = [row.model_copy(update={"group": f"other-{row.group}"}) for row in rows[:20]]
    write_rows(tmp_path / "apart.jsonl", others)
    found = read_examples(recipe_of(rows_file).model_copy(update={"apart": (tmp_path / "apart.jsonl",)}))
    assert list(found.held_out) == others
    assert len(found.shapes) == len(found.safe) == len(rows)


def test_rows_of_the_same_groups_cannot_be_kept_apart(rows_file: Path) -> None:
    with pytest.raises(RecipeError, match=r"every group of .* is in `apart` too; take rows of other groups"):
        read_examples(recipe_of(rows_file).model_copy(update={"apart": (rows_file,)}))


def test_a_user_whose_rows_are_kept_apart_is_not_learned_from(rows_file: Path, tmp_path: Path, rows: list[Row]) -> None:
    own = [row for row in rows if row.group == "user-0"]
    write_rows(tmp_path / "apart.jsonl", own)
    found = read_examples(recipe_of(rows_file).model_copy(update={"apart": (tmp_path / "apart.jsonl",)}))
    assert len(found.safe) == len(rows) - len(own)


def test_one_label_is_too_few(tmp_path: Path, rows: list[Row]) -> None:
    write_rows(tmp_path / "rows.jsonl", [row for row in rows if row.label == "SAFE"])
    with pytest.raises(RecipeError, match="one label only"):
        read_examples(recipe_of(tmp_path / "rows.jsonl"))


def test_weights_make_both_classes_count_the_same_up_to_the_cap() -> None:
    given = tuple(Example(Prompt("", ""), i < 2) for i in range(10))
    examples = Examples(given, held_out=(), shapes=np.zeros((0, 1)), safe=np.zeros(0, dtype=bool))
    safe, harmful = examples.weights(10.0)
    assert 2 * safe == pytest.approx(8 * harmful)
    capped = examples.weights(3.0)
    assert capped[0] / capped[1] == pytest.approx(3.0)

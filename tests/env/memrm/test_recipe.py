from __future__ import annotations

import json
from pathlib import Path

import pytest

from mnemotune.env.memrm.examples import Example, Examples, read_examples
from mnemotune.env.memrm.recipe import Recipe, RecipeError, load_recipe
from mnemotune.env.memrm.render import Prompt
from mnemotune.env.memrm.rows import Fact, Heard, Row, write_rows

RECIPES = Path(__file__).parents[3] / "configs" / "memrm"


@pytest.mark.parametrize("name", ["tiny", "qwen3-1.7b-qlora"])
def test_the_bundled_recipes_load_and_say_how_they_are_run(name: str) -> None:
    path = RECIPES / f"{name}.yaml"
    assert load_recipe(path).seed == 0
    assert path.read_text().startswith(f"# mnemotune memrm train configs/memrm/{name}.yaml")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rows: [", "is no YAML"),
        ("rows: a\nmodel: {kind: magic}", "model"),
        ("rows: a\nwindows: 3\nmodel: {kind: scratch}", "windows"),
    ],
)
def test_a_recipe_that_is_wrong_is_refused_by_file_and_key(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "recipe.yaml").write_text(text)
    with pytest.raises(RecipeError, match=rf"recipe\.yaml.*{why}"):
        load_recipe(tmp_path / "recipe.yaml")


def recipe_of(path: Path) -> Recipe:
    return Recipe.model_validate({"rows": path, "held_out": 0.2, "model": {"kind": "scratch"}})


def test_held_out_users_are_never_trained_on(rows_file: Path, rows: list[Row]) -> None:
    examples = read_examples(recipe_of(rows_file))
    assert len(examples.train) == 96
    assert len(examples.held_out) == 24


def test_a_message_among_several_teaches_by_itself_too(tmp_path: Path, rows: list[Row]) -> None:
    two = [Heard(role="user", content="I moved to the coast."), Heard(role="user", content="I bought a boat.")]
    facts = [Fact(info="home_place", lost=True, message=0), Fact(info="boat_size", lost=None, message=1)]
    further = [
        rows[0].model_copy(update={"user": user, "evicted": two, "facts": facts, "after": ["a boat"]})
        for user in ("user-x", "user-y")  # of whom one is held out at most
    ]
    write_rows(tmp_path / "rows.jsonl", [*rows, *further])
    recipe = recipe_of(tmp_path / "rows.jsonl").model_copy(update={"held_out": 0.01})
    texts = [(e.prompt.prefix, e.safe) for e in read_examples(recipe).train]
    assert ("Said:\nI moved to the coast. ①\n", False) in texts
    assert ("Said:\nI moved to the coast. ①\nI bought a boat. ②\n", False) in texts
    assert "Said:\nI bought a boat. ①\n" not in dict(texts), "nobody knows whether it is lost"


def test_what_a_data_card_holds_out_is_left_out(rows_file: Path, tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    card.write_text(json.dumps({"splits": {"seed": 0, "users": ["user-0"], "policies": [], "topics": []}}))
    examples = read_examples(recipe_of(rows_file).model_copy(update={"splits": card}))
    assert len(examples.train) + len(examples.held_out) == 108


def test_what_is_no_data_card_is_refused(rows_file: Path, tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    card.write_text("[]")
    with pytest.raises(RecipeError, match="is no data card"):
        read_examples(recipe_of(rows_file).model_copy(update={"splits": card}))


def test_one_user_is_too_few(tmp_path: Path, rows: list[Row]) -> None:
    write_rows(tmp_path / "rows.jsonl", [row for row in rows if row.user == "user-1"])
    with pytest.raises(RecipeError, match="two are needed"):
        read_examples(recipe_of(tmp_path / "rows.jsonl"))


def test_one_label_is_too_few(tmp_path: Path, rows: list[Row]) -> None:
    write_rows(tmp_path / "rows.jsonl", [row for row in rows if row.label == "SAFE"])
    with pytest.raises(RecipeError, match="one label only"):
        read_examples(recipe_of(tmp_path / "rows.jsonl"))


def test_weights_make_both_classes_count_the_same_up_to_the_cap() -> None:
    examples = Examples(tuple(Example(Prompt("", ""), i < 2) for i in range(10)), ())
    safe, harmful = examples.weights(10.0)
    assert 2 * safe == pytest.approx(8 * harmful)
    capped = examples.weights(3.0)
    assert capped[0] / capped[1] == pytest.approx(3.0)

"""``mnemotune memrm train``, ``score``, ``eval`` and ``export``, as commands of an app of their own."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from mnemotune.env.memrm.rows.row import EvictedMessage, FactLabel, Row, RowError, write_rows
from mnemotune.env.memrm.training.recipe import RecipeError
from mnemotune.optimizer.cli.memrm.evaluate import eval_command
from mnemotune.optimizer.cli.memrm.rows import export_command, score_command
from mnemotune.optimizer.cli.memrm.train import train_command

pytest.importorskip("torch", reason="training needs torch, of the extra memrm")

Run = Callable[..., str]


@pytest.fixture
def run() -> Run:
    app = typer.Typer()
    app.command("train")(train_command)
    app.command("score")(score_command)
    app.command("eval")(eval_command)
    app.command("export")(export_command)

    def ran(*arguments: object) -> str:
        return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False).stdout

    return ran


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    rng = random.Random(0)
    made = []
    for i in range(40):
        kept = rng.random() < 0.5
        said = f"I moved to the {rng.choice(['coast', 'city', 'valley'])}."
        heard = [EvictedMessage(role="user", content=said)]
        facts = [FactLabel(key="home_place", topic="home", lost=not kept, message=0, sentence=0)]
        after = [said] if kept else []
        made.append(
            Row(
                group=f"u{i % 5}",
                task=f"u{i % 5}",
                policy="p",
                stage=0,
                write=i,
                evicted=heard,
                before=[],
                after=after,
                facts=facts,
            )
        )
    write_rows(tmp_path / "rows.jsonl", made)
    return tmp_path / "rows.jsonl"


@pytest.fixture
def recipe(rows: Path, tmp_path: Path) -> Path:
    model = {"kind": "scratch", "vocabulary": 300, "layers": 1, "hidden": 16, "heads": 1, "intermediate": 16}
    given = {"rows": str(rows), "held_out": 0.2, "model": model, "schedule": {"epochs": 1, "threads": 1}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(given))
    return tmp_path / "recipe.yaml"


def test_what_is_trained_scores_every_row(run: Run, recipe: Path, rows: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    run("train", recipe, "--out", tmp_path / "model", "--tracking", store)
    assert (tmp_path / "model" / "trees.json").is_file()
    printed = run("score", rows, "--model", tmp_path / "model")
    run("score", rows, "--model", tmp_path / "model", "--out", tmp_path / "scores.jsonl")
    assert (tmp_path / "scores.jsonl").read_text() == printed
    scores = [json.loads(line) for line in printed.splitlines()]
    assert [score["write"] for score in scores] == list(range(40))
    assert all(0 < score["p_safe"] < 1 for score in scores)
    import mlflow

    [logged] = mlflow.MlflowClient(tracking_uri=store).search_runs(["1"])
    assert logged.data.params["model.layers"] == "1"
    assert "loss" in logged.data.metrics


def test_a_folder_in_use_is_not_trained_into(run: Run, recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").touch()
    with pytest.raises(RecipeError, match="is not empty"):
        run("train", recipe, "--out", tmp_path / "model")


def test_a_training_goes_on_with_what_it_began_with_or_not_at_all(
    run: Run, recipe: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, store = tmp_path / "model", ("--tracking", f"sqlite:///{tmp_path / 'mlflow.db'}")

    def stop(*_: object) -> None:
        raise OSError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr("mnemotune.env.memrm.training.scratch.held_out_figures", stop)
        with pytest.raises(OSError, match="the power is gone"):
            run("train", recipe, "--out", out, *store)
    with pytest.raises(RecipeError, match="began with another seed; go on with that"):
        run("train", recipe, "--out", out, "--resume", "--seed", 3, *store)
    whole = rows.read_text()
    rows.write_text(whole + whole.splitlines()[0].replace('"write":0', '"write":99') + "\n")
    with pytest.raises(RecipeError, match=r"began with another content of .*rows\.jsonl"):
        run("train", recipe, "--out", out, "--resume", *store)
    rows.write_text(whole)
    run("train", recipe, "--out", out, "--resume", *store)
    assert (out / "trees.json").is_file()
    with pytest.raises(RecipeError, match="holds no training that was stopped"):
        run("train", recipe, "--out", out, "--resume", *store)


@pytest.fixture
def model(run: Run, recipe: Path, tmp_path: Path) -> Path:
    run("train", recipe, "--out", tmp_path / "model", "--tracking", f"sqlite:///{tmp_path / 'mlflow.db'}")
    return tmp_path / "model"


def test_a_model_is_judged_on_rows(run: Run, model: Path, rows: Path, tmp_path: Path) -> None:
    told = json.loads(run("eval", "--model", model, "--data", rows, "--plot", tmp_path / "plot.svg", "--json"))
    assert (told["n"], told["unscored"], told["clusters"], told["split"]) == (40, 0, 5, None)
    assert {"auroc", "ece", "f1_safe", "f1_harmful", "coverage", "accuracy_covered"} == set(told["intervals"])
    for name, (low, high) in told["intervals"].items():
        if told[name] is not None and name != "ece":  # which is biased upwards in a bootstrap
            assert low <= told[name] <= high
    assert told["baselines"]["majority"] == 0.5
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
    assert "AUROC, HARMFUL positive" in run("eval", "--model", model, "--data", rows)


def test_a_split_of_the_data_card_is_judged_alone(run: Run, model: Path, rows: Path) -> None:
    splits = {"seed": 0, "users": ["u1"], "policies": [], "topics": []}
    Path(f"{rows}.card.json").write_text(json.dumps({"splits": splits}))
    assert json.loads(run("eval", "--model", model, "--data", rows, "--split", "groups", "--json"))["n"] == 8
    with pytest.raises(RowError, match="has no rows in the split 'topics'"):
        run("eval", "--model", model, "--data", rows, "--split", "topics")


def test_memgym_s_rows_are_judged_too(run: Run, model: Path, rows: Path, tmp_path: Path) -> None:
    run("export", rows, "--out", tmp_path / "memgym.jsonl")
    told = json.loads(run("eval", "--model", model, "--data", tmp_path / "memgym.jsonl", "--json"))
    assert told["n"] == 40
    assert set(told["baselines"]) == {"majority", "equal actions", "perturbation"}


def test_what_cannot_be_judged_is_left_out_of_an_export(run: Run, rows: Path, tmp_path: Path) -> None:
    first, *others = rows.read_text().splitlines()
    coloured = first.replace("I moved", "\\u001b[31mI moved")
    rows.write_text("\n".join([coloured, "", *others, "", ""]))
    run("export", rows, "--out", tmp_path / "memgym.jsonl")
    assert len((tmp_path / "memgym.jsonl").read_text().splitlines()) == 39


def test_rows_can_be_exported_over_themselves(run: Run, rows: Path) -> None:
    run("export", rows, "--out", rows)
    assert len(rows.read_text().splitlines()) == 40
    with pytest.raises(RowError):
        run("export", rows, "--out", rows)
    assert len(rows.read_text().splitlines()) == 40, "a file that is refused is left as it is"

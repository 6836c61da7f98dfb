"""``mnemotune memrm train``: train a reward model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from ....env.memrm.model.checkpoint import ModelCard
    from ....env.memrm.training.examples import Examples
    from ....env.memrm.training.recipe import TrainingRecipe


def train_command(
    recipe: Annotated[Path, typer.Argument(help="A recipe, such as configs/memrm/tiny.yaml.")],
    out: Annotated[Path, typer.Option("--out", help="The folder of the checkpoint.")],
    rows: Annotated[
        list[Path] | None, typer.Option("--rows", help="Training rows instead of the recipe's; may be given again.")
    ] = None,
    apart: Annotated[
        list[Path] | None, typer.Option("--apart", help="Rows of other users to calibrate on; may be given again.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Another seed than the recipe's.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last state in --out.")] = False,
    tracking_uri: Annotated[str, typer.Option("--tracking", help="MLflow's store.")] = "sqlite:///mlflow.db",
) -> None:
    """Train a reward model on labelled writes, from scratch or as an adapter.

    Example: mnemotune memrm train configs/memrm/tiny.yaml --out checkpoints/tiny
    """
    from ....env.memrm.forecasting.forecast import FORECAST, fit_forecast, write_forecast
    from ....env.memrm.forecasting.presence import SharedWords
    from ....env.memrm.model.checkpoint import CheckpointError
    from ....env.memrm.rows.retrievals import retrievals_file
    from ....env.memrm.training import stopped
    from ....env.memrm.training.examples import read_examples
    from ....env.memrm.training.recipe import load_recipe
    from ....policies.space import flat
    from ...views.tracking.store import logged_run  # imported late: Optuna takes a while

    given: dict[str, Any] = {"rows": tuple(rows)} if rows else {}
    given |= {"apart": tuple(apart)} if apart else {}
    given |= {} if seed is None else {"seed": seed}
    settings = load_recipe(recipe).model_copy(update=given)
    console = Console(stderr=True)
    began = time.monotonic()
    examples = read_examples(settings)
    stopped.begin(settings, out, resume=resume)
    console.print(f"{len(examples.train):,} statements to learn from")
    console.print(f"{len(examples.held_out):,} writes of other groups held out")
    train, params = _trainer(settings), flat(settings.model_dump(mode="json"))
    with logged_run(tracking_uri, experiment=settings.experiment, name=out.name, params=params) as track:

        def log(figures: Mapping[str, float], step: int) -> None:
            track(figures, step)
            shown = "  ".join(f"{name} {value:.4f}" for name, value in figures.items())
            console.print(f"step {step:,}, {time.monotonic() - began:,.0f} s  {shown}", highlight=False)

        card = train(settings, examples, out, resume=resume, log=log)
    console.print(f"{out}: temperature {card.temperature:.2f}, window {card.window:,} tokens")
    _add_trees(out, examples, console)
    if examples.retrievals:
        try:
            write_forecast(out, fit_forecast(examples.retrievals, SharedWords(), seed=settings.seed))
        except CheckpointError as error:  # the reward model is whole without it
            console.print(f"{error}, so that this checkpoint cannot rank policies", style="yellow")
        else:
            console.print(
                f"{out / FORECAST}: forecasts of right answers, fitted on {len(examples.retrievals):,} episodes"
            )
    else:
        missing = f"{retrievals_file(settings.rows[0])}: not there"
        console.print(f"{missing}, so that this checkpoint has no {FORECAST} and cannot rank policies", style="yellow")
    stopped.end(out)


def _add_trees(out: Path, examples: Examples, console: Console) -> None:
    from ....env.memrm.evaluation.quality import harmful_rows
    from ....env.memrm.model.blend import TREES, fit_wordless, write_trees
    from ....env.memrm.model.checkpoint import CheckpointError
    from ....env.memrm.model.scoring import load_memrm

    rows = examples.held_out
    events, safe = [row.event for row in rows], ~harmful_rows(rows)
    try:
        trees = fit_wordless(examples.shapes, examples.safe, words=load_memrm(out), held_out=events, held_out_safe=safe)
    except CheckpointError as error:  # the reward model is whole without them
        console.print(f"{error}, so that this checkpoint has no {TREES}", style="yellow")
    else:
        write_trees(out, trees)
        weights = f"words weigh {trees.of_words:.2f}, shape {trees.of_shape:.2f}"
        console.print(f"{out / TREES}: trees that read no word; {weights}", highlight=False)


def _trainer(recipe: TrainingRecipe) -> Callable[..., ModelCard]:
    from ....env.memrm.training.recipe import RecipeError, Scratch

    try:
        if isinstance(recipe.model, Scratch):
            from ....env.memrm.training.scratch import train_scratch

            return train_scratch
        from ....env.memrm.training.qlora import train_adapter
    except ModuleNotFoundError as error:
        raise RecipeError(f"training needs {error.name}: pip install 'mnemotune[memrm]'") from None
    return train_adapter

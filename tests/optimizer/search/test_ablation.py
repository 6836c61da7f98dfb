"""What an ablation's file says, and which searches come of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mnemotune.data.resources import resource
from mnemotune.optimizer.config import Config, ConfigError, dump_config, load_config
from mnemotune.optimizer.models import priced
from mnemotune.optimizer.search import searches
from mnemotune.optimizer.search.ablation import Run, load_ablation, runs_of, slug
from mnemotune.optimizer.search.outcome import open_study
from mnemotune.optimizer.search.searches import carry_out, is_done, ready
from mnemotune.optimizer.views.listeners import unseen_listeners

VARIANTS = {"joint": {}, "no racing": {"search.racing": False}}


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write an ablation's file, beside a config called ``near.yaml``."""
    (tmp_path / "near.yaml").write_text(resource("configs", "search.yaml").read_text(encoding="utf-8"), "utf-8")

    def write(**values: Any) -> Path:
        path = tmp_path / "parts.yaml"
        path.write_text(
            yaml.safe_dump({"config": "near.yaml", "variants": VARIANTS} | values, sort_keys=False), encoding="utf-8"
        )
        return path

    return write


def runs(path: Path, *overrides: str, seeds: tuple[int, ...] = ()) -> list[Run]:
    return runs_of(load_ablation(path, seeds=seeds), beside=path.parent, out=Path("out"), overrides=overrides)


def test_each_variant_is_run_once_with_each_seed(written: Callable[..., Path]) -> None:
    found = runs(written(seeds=[3, 5]))
    assert [(run.variant, run.seed, str(run.folder)) for run in found] == [
        ("joint", 3, "out/joint-3"),
        ("no racing", 3, "out/no-racing-3"),
        ("joint", 5, "out/joint-5"),
        ("no racing", 5, "out/no-racing-5"),
    ]
    assert [(run.config.search.seed, run.config.search.racing) for run in found[:2]] == [(3, True), (3, False)]


def test_a_variant_is_the_config_with_its_changes_alone(written: Callable[..., Path]) -> None:
    changed = load_config("search.yaml", overrides=["search.racing=false", "search.seed=4"])
    assert runs(written(), seeds=(4,))[1].config == changed


def test_seeds_are_five_unless_the_file_or_the_command_says_otherwise(written: Callable[..., Path]) -> None:
    assert load_ablation(written()).seeds == (0, 1, 2, 3, 4)
    assert load_ablation(written(seeds=[7]), seeds=[1, 2]).seeds == (1, 2)


def test_settings_hold_for_all_variants_and_a_variant_s_own_come_last(written: Callable[..., Path]) -> None:
    found = runs(written(seeds=[0]), "search.generations=2", "search.racing=true")
    assert [run.config.search.generations for run in found] == [2, 2]
    assert [run.config.search.racing for run in found] == [True, False]


def test_a_config_is_looked_for_beside_the_file_and_then_among_the_bundled_ones(written: Callable[..., Path]) -> None:
    assert runs(written(config="quickstart.yaml"))[0].config.data == load_config("quickstart.yaml").data


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"search.racin": False}, "variants.bad: .*search.racin: no such field"),
        ({"search.racing": "perhaps"}, "variants.bad: .*search.racing: "),
        ({"splits.test": 4}, "variants.bad: splits cannot differ from those of 'joint'"),
        ({"track": "chess"}, "variants.bad: track cannot differ"),
        ({"data": "small", "splits.train": 1}, "variants.bad: data, splits cannot differ"),
        ({"search.seed": 4}, "variants.bad: search.seed=4: seeds are given by `seeds`, or --seeds"),
    ],
)
def test_a_variant_that_cannot_be_run_is_refused_by_name(
    written: Callable[..., Path], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        runs(written(variants={"joint": {}, "bad": changes}))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"seeds": []}, "parts.yaml: seeds: "),
        ({"seeds": [-1]}, "parts.yaml: seeds.0: "),
        ({"seeds": [1, 1]}, "parts.yaml: seeds: name each once"),
        ({"variants": {}}, "parts.yaml: variants: "),
        ({"variants": {"joint": 3}}, "parts.yaml: variants.joint: "),
        ({"varaints": {}}, "parts.yaml: varaints: no such field"),
    ],
)
def test_a_file_that_says_nothing_to_run_is_refused_with_the_key(
    written: Callable[..., Path], values: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        load_ablation(written(**values))


def test_two_variants_cannot_share_a_folder(written: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="two names make the same folder name"):
        runs(written(variants={"no racing": {}, "No, racing!": {}}))


def test_a_config_that_is_nowhere_is_named_with_its_variant(written: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match=r"variants\.joint: far\.yaml: no such file"):
        runs(written(config="far.yaml"))


def test_a_plain_config_is_no_ablation(written: Callable[..., Path], tmp_path: Path) -> None:
    written()
    with pytest.raises(ConfigError, match=r"near\.yaml: is no ablation: write `config: FILE`"):
        load_ablation(tmp_path / "near.yaml")


def test_a_name_becomes_a_folder_s_name() -> None:
    assert slug("Joint, at 1/3 of the calls!") == "joint-at-1-3-of-the-calls"
    assert slug("...") == "variant"


@pytest.fixture
def begun(written: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A search with a listed model, begun in its folder as ``evolve`` begins it."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    path = written(seeds=[0], variants={"joint": {}})
    (run,) = runs_of(load_ablation(path), beside=tmp_path, out=tmp_path, overrides=["model=openai:gpt-4.1-mini"])
    run.folder.mkdir()
    (run.folder / "config.yaml").write_text(dump_config(priced(run.config)), encoding="utf-8")
    open_study(run.folder)
    return run


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Note the configs that are searched, and search nothing."""
    found: list[Config] = []
    monkeypatch.setattr(searches, "evolve", lambda config, folder, listeners: found.append(config))
    return found


def test_a_search_goes_on_with_the_list_prices_that_it_began_with(begun: Run, searched: list[Config]) -> None:
    assert priced(begun.config) != begun.config, "the list has a price for this model"
    carry_out(ready([begun], listeners=list), listeners=list, finished=lambda run: None)
    assert searched == [priced(begun.config)]


@pytest.mark.parametrize("row", ['{"policy": "awi"}', '{"policy": "awi", "words": 3}', '{"failures": 3}', "[]", "3"])
def test_a_search_whose_result_cannot_be_read_counts_as_not_done(begun: Run, row: str) -> None:
    (begun.folder / "result.json").write_text(f'{{"best_policy": {row}}}', encoding="utf-8")
    assert not is_done(begun)


def test_a_price_that_is_given_later_is_another_setting(begun: Run, searched: list[Config]) -> None:
    price = "endpoint.prices={gpt-4.1-mini: {input: 1, output: 2, date: 2026-10-01}}"
    (run,) = runs_of(
        load_ablation(begun.folder.parent / "parts.yaml"),
        beside=begun.folder.parent,
        out=begun.folder.parent,
        overrides=["model=openai:gpt-4.1-mini", price],
    )
    with pytest.raises(ConfigError, match=r"holds a run with other settings \(endpoint\.prices\.gpt-4\.1-mini"):
        ready([run], listeners=list)
    assert searched == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"search.budget.calls": 3000}, r"variants\.bad: search\.budget\.calls: 3,000 is too small"),
        ({"search.objective": "score-per-dollar"}, r"variants\.bad: search\.objective: score-per-dollar needs a price"),
        ({"search.screening": {"model": "nowhere"}}, "nowhere"),
    ],
)
def test_a_variant_that_cannot_be_run_is_refused_before_any_search(
    written: Callable[..., Path], tmp_path: Path, searched: list[Config], changes: dict[str, Any], said: str
) -> None:
    path = written(seeds=[0], variants={"joint": {}, "bad": changes})
    with pytest.raises(ValueError, match=said):
        ready(runs_of(load_ablation(path), beside=tmp_path, out=tmp_path), listeners=unseen_listeners)
    assert searched == []

"""The pages of `ablate` and `compare`: what they tell, and how a browser shows them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from browsing import chromium, keep_picture, needs_browser
from html_page import Page, read
from mnemotune.env.statistics import estimate, paired_difference
from mnemotune.optimizer.config import dump_config, parse_config
from mnemotune.optimizer.search.ablation import Ablation, Run, compare_variants, read_searches
from mnemotune.optimizer.search.outcome import TEST, Outcome, open_run
from mnemotune.optimizer.search.sealed import EVOLVED
from mnemotune.optimizer.views.ablation_page import write_ablation_page
from mnemotune.optimizer.views.compare_page import write_compare_page
from mnemotune.optimizer.views.runs import Comparison
from mnemotune.optimizer.views.table import stored_cells, with_interval
from mnemotune.policies import load_policy

Cli = Callable[..., Any]
WIDTHS = (390, 1280, 1920)
RAISED = 0.125


@pytest.fixture(scope="module")
def folder(finished_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs: as it was, and one that found AWI and scores more."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("first-0", "other-0"):
        shutil.copytree(finished_once, folder / name)
    study = open_run(folder / "other-0").study
    seed, test = study.trials[0], open_run(folder / "other-0").test
    better = replace(seed, number=len(study.trials), policy=load_policy("awi"), kind="candidate", accepted=True)
    study.append(better)
    row = test.rows[EVOLVED]
    raised = replace(row, by_group={group: score + RAISED for group, score in row.by_group.items()})
    study.note(TEST, replace(test, rows={**test.rows, EVOLVED: raised}).as_json())
    return folder


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> tuple[Outcome, Outcome]:
    return open_run(folder / "first-0"), open_run(folder / "other-0")


def written(folder: Path, outcomes: tuple[Outcome, Outcome], objective: str = "score") -> Path:
    """Write the report of an ablation whose searches these two runs are; return its path."""
    runs = []
    for outcome in outcomes:
        search = outcome.config.search.model_copy(update={"objective": objective})
        config = outcome.config.model_copy(update={"search": search})
        runs.append(Run(outcome.folder.name.removesuffix("-0"), 0, config, outcome.folder))
    file = Ablation(config="tiny.yaml", seeds=(0,), variants={"first": {}, "other": {"search.candidates": 5}})
    variants = compare_variants(read_searches(runs))
    return write_ablation_page(file, runs, variants, folder, command="mnemotune ablate parts.yaml", warnings=["Beware"])


@pytest.fixture(scope="module")
def ablation(folder: Path, outcomes: tuple[Outcome, Outcome]) -> Path:
    return written(folder, outcomes)


@pytest.fixture
def compared(cli: Cli, folder: Path) -> Path:
    """The page of their comparison."""
    page = folder / "compared.html"
    out = cli("compare", folder / "first-0", folder / "other-0", "--out", page).succeeded().out
    assert out.endswith(f"page {page}\n")
    return page


def page_of(file: Path) -> Page:
    page = read(file.read_text(encoding="utf-8"))
    for tag, key in (("script", "src"), ("link", "href"), ("img", "src")):
        assert not [attributes for attributes in page.named(tag) if attributes.get(key)], "nothing is loaded"
    linked = [str(attributes["href"]) for attributes in page.named("a")]
    assert [link for link in linked if not (file.parent / link).is_file() and not link.endswith((".json", ".md"))] == []
    return page


def test_the_report_of_an_ablation_tells_each_variant_and_each_search(
    ablation: Path, outcomes: tuple[Outcome, Outcome]
) -> None:
    page = page_of(ablation)
    scores = [outcome.test.rows[EVOLVED].by_group for outcome in outcomes]
    lead = with_interval(paired_difference(scores[1], scores[0]))
    variants, shown, searches = page.tables
    assert [row[0] for row in variants[1:]] == ["first", "other"]
    assert [row[1] for row in variants[1:]] == ["", lead]
    assert [row[4] for row in variants[1:]] == ["nothing", "search.candidates: 5"]
    recalls = [outcome.test.rows[EVOLVED].evidence_by_group for outcome in outcomes]
    assert [row[1] for row in shown[1:]] == [with_interval(estimate(list(of.values()))) for of in recalls]
    assert [row[2] for row in shown[1:]] == ["", with_interval(paired_difference(recalls[1], recalls[0]))]
    assert [row[0] for row in searches[1:]] == ["first", "other", "together"]
    policies = [outcome.study.best.policy for outcome in outcomes]
    assert [row[4] for row in searches[1:3]] == [policy.label for policy in policies if policy is not None]
    assert [row[5] for row in searches[1:3]] == [f"{outcome.consumed.calls:,}" for outcome in outcomes]
    assert searches[3][5] == f"{sum(outcome.consumed.calls for outcome in outcomes):,}"
    assert "Beware" in page.text
    assert "scores better: the interval of the difference lies above zero" in page.words()
    assert {a["href"] for a in page.named("a")} >= {"first-0/report.html", "other-0/best_policy.yaml"}
    assert "$" not in page.text


def test_an_ablation_whose_searches_went_by_both_also_says_what_differs_by_both(
    folder: Path, outcomes: tuple[Outcome, Outcome]
) -> None:
    page = page_of(written(folder, outcomes, "score-and-evidence"))
    assert "the searches of first went by it" in page.words()
    assert "By the mean of both: other, " in page.words()
    assert "does better: the interval of the difference lies above zero" in page.words()
    written(folder, outcomes)


def test_the_page_of_a_comparison_tells_scores_groups_policies_and_cost(
    compared: Path, outcomes: tuple[Outcome, Outcome]
) -> None:
    page = page_of(compared)
    scores, ends, stored, stages, groups, numbers, took = page.tables
    first, other = (outcome.test.rows[EVOLVED] for outcome in outcomes)
    assert [row[2] for row in scores[1:]] == [with_interval(row.memory_score) for row in (first, other)]
    assert [row[1] for row in scores[1:]] == ["", with_interval(paired_difference(other.by_group, first.by_group))]
    assert ends[0] == ["run", "accuracy", "utilisation", "read", "write"]
    assert [row[1] for row in ends[1:]] == [f"{row.accuracy:.3f}" for row in (first, other)]
    assert [row[4] for row in ends[1:]] == [f"{row.shares['write']:.3f}" for row in (first, other)]
    assert [row[1:] for row in stored[1:]] == [stored_cells(row) for row in (first, other)]
    assert stages[0][1:] == [str(n) for n in range(1, len(first.stages["memory_score"]) + 1)]
    assert {row[0] for row in groups[1:]} == {*first.by_group}
    assert {row[3] for row in groups[1:]} == {f"+{RAISED:.3f}"}
    assert ["write.mode", "none", "profile"] in [row[:3] for row in numbers]
    assert [row[3] for row in took[1:]] == [f"{outcome.consumed.calls:,}" for outcome in outcomes]
    assert "The write prompt" in page.text
    assert "$" not in page.text


def test_the_page_of_a_comparison_tells_which_settings_differ_and_which_are_not_compared(
    outcomes: tuple[Outcome, Outcome], tmp_path: Path
) -> None:
    first, other = outcomes
    same, apart = (tmp_path / name for name in ("same.html", "apart.html"))
    config = parse_config(
        dump_config(first.config),
        where="test",
        overrides=[
            "seed_policy=awi",
            "tracking.experiment=elsewhere",
            "search.generations=77",
            "search.space.top_k=[1, 9]",
        ],
    )
    for file, run in ((same, other), (apart, replace(other, config=config))):
        runs = {"first": first, "other": run}
        write_compare_page(Comparison.of(runs), runs, file)
        assert "tracking, workers, storage are not compared" in read(file.read_text(encoding="utf-8")).words()
    assert not [table for table in read(same.read_text(encoding="utf-8")).tables if table[0][0] == "setting"]
    (table,) = [table for table in read(apart.read_text(encoding="utf-8")).tables if table[0][0] == "setting"]
    rows = {row[0]: row[1:] for row in table[1:]}
    assert rows["seed_policy"] == rows["search.space"] == ["-", "differs"]
    assert rows["search.generations"][1] == "77"
    assert not [key for key in rows if key.startswith(("tracking", "templates"))]


def test_a_changed_prompt_is_shown_word_by_word(outcomes: tuple[Outcome, Outcome], tmp_path: Path) -> None:
    _, other = outcomes
    again = open_run(shutil.copytree(other.folder, tmp_path / "again"))
    best, policy = again.study.best, load_policy("awi")
    prompts = policy.prompts.model_copy(update={"write": f"{policy.prompts.write} Mind the cat."})
    edited = policy.model_copy(update={"prompts": prompts})
    again.study.append(replace(best, number=len(again.study.trials), policy=edited, accepted=True))
    runs = {"other": other, "again": open_run(again.folder)}
    write_compare_page(Comparison.of(runs), runs, tmp_path / "words.html")
    assert re.search(r"<ins>[^<]*Mind the cat\.</ins>", (tmp_path / "words.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@needs_browser
def test_pages_fit_every_window_and_everybody_can_read_them(browser: Any, ablation: Path, compared: Path) -> None:
    page = browser.new_page()
    page.on("console", lambda message: pytest.fail(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.on("request", lambda request: None if request.url.startswith("file:") else pytest.fail(request.url))
    for name, file in (("ablation", ablation), ("comparison", compared)):
        page.goto(file.absolute().as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            keep_picture(page, f"{name}-{width}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", "ink is dear"
        page.emulate_media(media="screen")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page).response["violations"]
            assert [(problem["id"], problem["nodes"][0]["html"]) for problem in found] == []

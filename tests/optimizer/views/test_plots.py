"""The report's plots."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from mnemotune.env import Summary
from mnemotune.env.cost import TurnCost
from mnemotune.env.statistics import Estimate
from mnemotune.optimizer.search.ablation import Finished, Variant
from mnemotune.optimizer.search.front import Placed
from mnemotune.optimizer.views import plots

SVG = "{http://www.w3.org/2000/svg}"


def row(score: float = 0.5, *, low: float = 0.4, high: float = 0.6, stages: int = 3) -> Summary:
    known = not math.isnan(score)
    return Summary(
        policy="",
        memory_score=Estimate(score, low, high, 9),
        accuracy=0.6 if known else math.nan,
        shares=dict(zip(("write", "read", "utilisation"), SHARES if known else [math.nan] * 3, strict=True)),
        stages={"memory_score": tuple(score - 0.1 * p for p in range(stages))},
    )


SHARES = (0.23, 0.02, 0.15)
ROWS = {"native": row(0.1, low=-0.2), "mine.yaml": row(0.3), "seed": row(0.4), "evolved": row(0.7)}
UNSCORED = {"native": row(math.nan, low=math.nan, high=math.nan), "seed": row(0.4, low=math.nan, high=math.nan)}

Plot = Callable[[Mapping[str, Any]], str]
OF_ROWS = pytest.mark.parametrize("plot", [plots.scores_plot, plots.shares_plot, plots.stages_plot])


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314 - our own drawing


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()).strip() for element in parsed(svg).iter(f"{SVG}text")]


@pytest.fixture
def trials(kit: Any) -> Sequence[Any]:
    return [
        kit.trial(validation={"v": 0.3, "w": 0.5}),
        kit.trial(1, policy=None, decided_at="check", train={}, summary=None),
        kit.trial(2, summary=None),
        kit.trial(3),
        kit.trial(4, decided_at="validate", accepted=True, validation={"v": 0.7, "w": 0.8}),
    ]


@OF_ROWS
def test_a_plot_is_one_svg_element_that_names_every_policy(plot: Plot) -> None:
    svg = plot(ROWS)
    assert parsed(svg).tag == f"{SVG}svg"
    assert set(ROWS) <= set(texts(svg))


@OF_ROWS
def test_the_same_scores_make_the_same_bytes(plot: Plot) -> None:
    assert plot(ROWS) == plot(ROWS)


@OF_ROWS
def test_other_scores_make_another_plot(plot: Plot) -> None:
    assert plot(ROWS) != plot(ROWS | {"evolved": replace(row(0.62), accuracy=0.3)})


@OF_ROWS
def test_policies_without_scores_are_named_all_the_same(plot: Plot) -> None:
    assert set(UNSCORED) <= set(texts(plot(UNSCORED)))


@OF_ROWS
def test_one_policy_alone_can_be_drawn(plot: Plot) -> None:
    assert "seed" in texts(plot({"seed": row()}))


@OF_ROWS
@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a&b.yaml", "a$x_1$b.yaml", "x\\y", "[red]mine"])
def test_any_name_of_a_policy_is_drawn_as_it_is(plot: Plot, name: str) -> None:
    assert name in texts(plot({name: row(), "seed": row()}))


@OF_ROWS
def test_a_plot_loads_nothing_and_runs_nothing(plot: Plot) -> None:
    svg = plot(ROWS)
    links = re.findall(r'href="([^"]*)"', svg) + re.findall(r"url\(([^)]*)\)", svg)
    assert all(link.startswith("#") for link in links)
    assert "<script" not in svg
    assert "<image" not in svg


@OF_ROWS
def test_a_plot_leaves_matplotlibs_settings_alone(plot: Plot) -> None:
    before = dict(mpl.rcParams)
    plot(ROWS)
    assert dict(mpl.rcParams) == before


def test_the_front_is_drawn_with_its_trials_the_seed_and_the_evolved_policy(kit: Any) -> None:
    costs = {0: 900.0, 1: 1000.0, 2: 4000.0, 3: 5000.0}
    scores = {0: 0.1, 1: 0.3, 2: 0.2, 3: 0.5}
    trials = [kit.trial(n, policy=kit.policy(n), train={"a": scores[n]}) for n in costs]
    places = [Placed(trial, TurnCost(1.0, costs[trial.number], 0.0)) for trial in trials]
    told = texts(plots.front_plot(places, trials[3]))
    assert {"raced", "front", "seed", "evolved", "0", "1", "3", "1,000", "5,000"} <= set(told)
    assert "2" not in told
    near = [*places, Placed(kit.trial(4, policy=kit.policy(4), train={"a": 0.501}), TurnCost(1.0, 5001.0, 0.0))]
    assert "3, 4" in texts(plots.front_plot(near, trials[3]))


def test_a_front_of_nothing_can_be_drawn(kit: Any) -> None:
    assert "tokens a turn" in texts(plots.front_plot([], kit.trial()))


def test_plots_on_one_page_do_not_take_each_others_parts(trials: Any) -> None:
    """An id that two inline elements define means the first one's part for both."""
    pages = [plots.scores_plot(ROWS), plots.shares_plot(ROWS), plots.stages_plot(ROWS), plots.search_plot(trials)]
    roots = [parsed(svg) for svg in pages]
    parts: dict[str, set[str]] = {}
    for root in roots:
        used = set(re.findall(r"#([\w-]+)", ElementTree.tostring(root, encoding="unicode")))
        for element in root.iter():
            if element.attrib.get("id") in used:
                parts.setdefault(element.attrib["id"], set()).add(
                    ElementTree.tostring(element, encoding="unicode").strip()
                )
    assert parts
    assert {name: len(kinds) for name, kinds in parts.items() if len(kinds) > 1} == {}


def test_shares_are_written_into_bars_that_are_wide_enough() -> None:
    told = texts(plots.shares_plot({"seed": row()}))
    assert {"0.60", "0.23", "0.15"} <= set(told)
    assert "0.02" not in told


def test_shares_have_a_legend() -> None:
    assert {"accuracy", "write", "read", "utilisation"} <= set(texts(plots.shares_plot(ROWS)))


@OF_ROWS
def test_a_long_path_keeps_its_end_and_leaves_room_for_the_plot(plot: Plot) -> None:
    (name,) = [text for text in texts(plot({"/a/very/long/way/" * 9 + "careful.yaml": row()})) if "careful" in text]
    assert name.startswith("\u2026")
    assert len(name) <= 30


def test_more_policies_than_colours_can_be_drawn() -> None:
    rows = {f"policy{i}": row(i / 20) for i in range(20)}
    assert set(rows) <= set(texts(plots.stages_plot(rows)))


def test_policies_with_different_numbers_of_periods_can_be_drawn() -> None:
    assert {"a", "b", "c"} <= set(
        texts(plots.stages_plot({"a": row(stages=1), "b": row(stages=11), "c": row(stages=0)}))
    )


def test_the_search_is_drawn_with_a_legend_of_what_happened_in_it(trials: Any) -> None:
    told = set(texts(plots.search_plot(trials, noun="user")))
    assert {"raced", "lost the race early", "accepted", "best so far, validation users"} <= told


def test_what_did_not_happen_in_the_search_is_not_in_its_legend(trials: Any) -> None:
    told = set(texts(plots.search_plot(trials[:1])))
    assert "accepted" in told
    assert not {"raced", "lost the race early"} & told


def test_the_same_search_makes_the_same_bytes(trials: Any) -> None:
    assert plots.search_plot(trials) == plots.search_plot(trials)


def test_trials_without_a_score_can_be_drawn(kit: Any) -> None:
    failed = kit.trial(1, train={"ann": math.nan}, summary=Summary(policy=""))
    assert "accepted" in texts(plots.search_plot([kit.trial(validation={"v": math.nan}), failed]))


def test_a_plot_of_variants_names_each_and_says_from_what_they_differ() -> None:
    score, unknown = Estimate(0.4, 0.3, 0.5, 9), Estimate(math.nan, math.nan, math.nan, 0)
    searches = tuple(
        Finished(0, "", by_group=scores, window=scores, candidates=1, accepted=1, periods=1, calls=1, seconds=1.0)
        for scores in ({"ann": 0.4}, {})
    )
    variants = [
        Variant("everything", searches, score, Estimate(0.1, 0.0, 0.2, 9), None),
        Variant("no racing", searches, score, unknown, score),
        Variant("nothing", searches[1:], unknown, unknown, unknown),
    ]
    svg = plots.variants_plot(variants)
    assert {"everything", "no racing", "nothing", "difference from everything, 95% interval"} <= set(texts(svg))
    assert "window" in texts(svg)
    assert svg == plots.variants_plot(variants)


def test_long_names_of_variants_are_wrapped_so_that_they_stay_apart() -> None:
    names = ["screening, half of all the calls", "no screening, half of all the calls", "x" * 200]
    score = Estimate(0.4, 0.3, 0.5, 9)
    told = texts(plots.variants_plot([Variant(name, (), score, score, None) for name in names]))
    assert {"screening, half of all the", "no screening, half of all"} <= set(told)
    assert max(len(text) for text in told if "x" * 9 in text) <= plots.LONGEST_NAME

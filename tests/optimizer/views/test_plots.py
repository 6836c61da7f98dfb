"""The report's plots."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from xml.etree import ElementTree

import pytest

from mnemotune.env import Summary
from mnemotune.env.cost import TurnCost
from mnemotune.env.statistics import Estimate
from mnemotune.optimizer.search.ablation import Compared, Finished, Variant
from mnemotune.optimizer.search.front import Placed
from mnemotune.optimizer.views import plots, search_plots, vega
from mnemotune.policies.lm.ledger import Ledger, Spend

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
PLOTS_OF_ROWS = (plots.scores_plot, plots.shares_plot, plots.stages_plot)
OF_ROWS = pytest.mark.parametrize("plot", PLOTS_OF_ROWS)


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # noqa: S314 - our own drawing


def texts(svg: str) -> list[str]:
    return [" ".join(element.itertext()).strip() for element in parsed(svg).iter(f"{SVG}text")]


def tips(svg: str) -> list[str]:
    """What the marks of a plot say when they are pointed at."""
    marks = [element.attrib for element in parsed(svg).iter() if element.get("role") == "graphics-symbol"]
    return [mark["aria-label"] for mark in marks]


@pytest.fixture
def trials(kit: Any) -> Sequence[Any]:
    return [
        kit.trial(validation={"v": 0.3, "w": 0.5}),
        kit.trial(1, policy=None, decided_at="check", train={}, summary=None),
        kit.trial(2, summary=None, series={"ann": (0.2, 0.3)}),
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


def test_the_front_is_drawn_with_its_trials_the_seed_and_the_evolved_policy(kit: Any) -> None:
    costs = {0: 900.0, 1: 1000.0, 2: 4000.0, 3: 5000.0}
    scores = {0: 0.1, 1: 0.3, 2: 0.2, 3: 0.5}
    trials = [kit.trial(n, policy=kit.policy(n), train={"a": scores[n]}) for n in costs]
    places = [Placed(trial, TurnCost(1.0, costs[trial.number], 0.0)) for trial in trials]
    told = texts(search_plots.front_plot(places, trials[3]))
    assert {"raced", "front", "seed", "evolved", "0", "1", "3", "1,000", "5,000"} <= set(told)
    assert "2" not in told
    near = [*places, Placed(kit.trial(4, policy=kit.policy(4), train={"a": 0.501}), TurnCost(1.0, 5001.0, 0.0))]
    assert "3, 4" in texts(search_plots.front_plot(near, trials[3]))


def test_a_front_of_nothing_can_be_drawn(kit: Any) -> None:
    assert "tokens a turn" in texts(search_plots.front_plot([], kit.trial()))


def test_plots_on_one_page_do_not_take_each_others_parts(trials: Any) -> None:
    """An id that two inline elements define means the first one's part for both."""
    for svg in (*(plot(ROWS) for plot in PLOTS_OF_ROWS), search_plots.search_plot(trials)):
        assert not [element for element in parsed(svg).iter() if "id" in element.attrib]


@OF_ROWS
def test_each_mark_says_what_it_stands_for(plot: Plot) -> None:
    said = tips(plot(ROWS))
    assert {tip.split(":")[0].split(",")[0] for tip in said} == set(ROWS)


def test_a_bar_says_its_share_and_a_score_its_interval() -> None:
    assert "seed: 0.230 of answers are lost when memory is written" in tips(plots.shares_plot({"seed": row()}))
    assert "seed: memory score 0.500 [0.400, 0.600]\n9 users" in tips(plots.scores_plot({"seed": row()}, noun="user"))


def test_a_trial_says_its_number_its_scores_and_why(trials: Any, kit: Any) -> None:
    cost = replace(row(), per_turn=TurnCost(1.0, 1234.0, 0.0))
    trial = kit.trial(5, train={"a": 0.2, "b": 0.4}, summary=cost, reason="no better", validation={"v": 0.3, "w": 0.4})
    (said,) = {tip for tip in tips(search_plots.search_plot([*trials, trial], noun="user")) if "Trial 5" in tip}
    assert said.splitlines()[0] == "Trial 5: dropped"
    assert said.splitlines()[2].startswith("train 0.300 [")
    assert said.splitlines()[3].startswith("validation 0.350 [")
    assert said.splitlines()[4:] == ["1,234 tokens a turn", "no better"]


def test_the_best_so_far_is_one_that_could_lead(kit: Any) -> None:
    trials = [kit.trial(0, train={"a": 0.2}), kit.trial(1, train={"a": 0.9}, over="bytes 900 of at most 500")]
    assert search_plots.search_plot(trials) != search_plots.search_plot([trials[0], replace(trials[1], over="")])


def test_a_picture_is_there_for_a_large_screen_and_for_a_small_one() -> None:
    both = parsed(f"<div>{vega.picture(partial(plots.shares_plot, ROWS), name='a & b')}</div>")
    assert [(svg.attrib["class"], svg.attrib["aria-label"]) for svg in both] == [("wide", "a & b"), ("narrow", "a & b")]
    assert [int(svg.attrib["width"]) for svg in both] == [vega.WIDE, vega.NARROW]


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
    told = set(texts(search_plots.search_plot(trials, noun="user")))
    assert {"raced to the end", "left its race", "never raced", "accepted", "score on validation"} <= told


def test_what_did_not_happen_in_the_search_is_not_in_its_legend(trials: Any) -> None:
    told = set(texts(search_plots.search_plot(trials[:1])))
    assert "accepted" in told
    assert not {"raced to the end", "left its race", "never raced"} & told


def test_the_same_search_makes_the_same_bytes(trials: Any) -> None:
    assert search_plots.search_plot(trials) == search_plots.search_plot(trials)


def test_trials_without_a_score_can_be_drawn(kit: Any) -> None:
    failed = kit.trial(1, train={"ann": math.nan}, summary=Summary(policy=""))
    assert "accepted" in texts(search_plots.search_plot([kit.trial(validation={"v": math.nan}), failed]))


def test_a_plot_of_variants_names_each_and_says_from_what_they_differ() -> None:
    score, unknown = Estimate(0.4, 0.3, 0.5, 9), Estimate(math.nan, math.nan, math.nan, 0)
    searches = tuple(
        Finished(0, "", by_group=of, window=of, evidence={}, candidates=1, accepted=1, periods=1, calls=1, seconds=1.0)
        for of in ({"ann": 0.4}, {})
    )
    first, known, nothing = Compared(score, None), Compared(score, score), Compared(unknown, unknown)
    variants = [
        Variant("everything", searches, first, Estimate(0.1, 0.0, 0.2, 9), first, first),
        Variant("no racing", searches, known, unknown, known, known),
        Variant("nothing", searches[1:], nothing, unknown, nothing, nothing),
    ]
    svg = plots.variants_plot(variants)
    assert {"everything", "no racing", "nothing", "difference from everything, 95% interval"} <= set(texts(svg))
    assert "window" in texts(svg)
    assert svg == plots.variants_plot(variants)


def test_long_names_of_variants_are_wrapped_so_that_they_stay_apart() -> None:
    names = ["screening, half of all the calls", "no screening, half of all the calls", "x" * 200]
    score = Estimate(0.4, 0.3, 0.5, 9)
    first = Compared(score, None)
    svg = plots.variants_plot([Variant(name, (), first, score, first, first) for name in names])
    assert {"screening, half of all the calls", "no screening, half of all the calls"} <= set(texts(svg))
    lines = ["".join(line.itertext()) for line in parsed(svg).iter(f"{SVG}tspan")]
    assert {"screening, half of all the", "no screening, half of all"} <= set(lines)
    assert max(map(len, lines)) <= vega.LONGEST_NAME


def test_what_each_role_took_is_told_trial_by_trial(kit: Any) -> None:
    spent = Ledger({"reply": Spend(3, 0, 1500, 500, 0.0), "write": Spend(2, 0, 100, 0, 0.0)})
    trials = [kit.trial(number, ledger=spent) for number in range(3)]
    assert "reply, trial 2: 3 calls, 2.0k tokens" in tips(search_plots.spend_plot(trials))
    assert {"reply", "write"} <= set(texts(search_plots.spend_plot(trials)))


def test_many_trials_share_bars(kit: Any) -> None:
    trials = [kit.trial(number, ledger=Ledger({"reply": Spend(1, 0, 10, 0, 0.0)})) for number in range(500)]
    said = tips(search_plots.spend_plot(trials))
    assert len(said) <= search_plots.MOST_BARS
    assert said[0] == "reply, trials 0 to 12: 13 calls, 130 tokens"
    assert said[-1].startswith("reply, trials 494 to 499: 6 calls")


def test_each_number_says_how_important_it_was() -> None:
    assert tips(search_plots.importance_plot({"top_k": 0.75, "store": 0.25})) == [
        "top_k: 0.75 of all importance",
        "store: 0.25 of all importance",
    ]


def test_the_line_to_the_evolved_policy_stands_out(kit: Any) -> None:
    trials = [kit.trial(), kit.trial(1), kit.trial(2, parent=1), kit.trial(3)]
    svg = search_plots.search_plot(trials, best=trials[2])
    lines = [element for element in parsed(svg).iter(f"{SVG}line") if element.attrib.get("stroke-width") == "2.5"]
    assert len(lines) == 2

"""The report of a run: a page that stands alone, tells what the study holds, and can be looked at."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

from browsing import chromium, needs_browser
from html_page import Page, read
from mnemotune.data.resources import resource
from mnemotune.data.task import tasks_of
from mnemotune.env import Summary
from mnemotune.env.cost import TurnCost
from mnemotune.env.statistics import Estimate
from mnemotune.optimizer.config import Config, dump_config, parse_config
from mnemotune.optimizer.search.outcome import ENDED, SEARCH_SPEND, TEST, TEST_SPEND, Outcome, open_run
from mnemotune.optimizer.search.sealed import SealedTest, open_test
from mnemotune.optimizer.views.report import render_report, score_rows, write_report
from mnemotune.optimizer.views.table import number, with_interval
from mnemotune.policies.lm import Ledger
from mnemotune.policies.lm.ledger import Spend, merged
from mnemotune.policies.lm.prices import Prices

FREE = Prices(input=0, output=0, date="2026-11-01")
CONFIG = "{data: made up, splits: {train: 4, validation: 4, test: 12}, seed_policy: native}"
EVIL = "</pre><script>document.title = 'stolen'</script><img src=x onerror=alert(1)> & {{ 7 * 7 }}"
TEMPLATE = resource("optimizer", "views", "report.html").read_text(encoding="utf-8")
HEADINGS = re.compile(r"<tr><th>policy</th><th class=\"text\">memory score.*?</tr>")
LOADS = {"src", "srcset", "data", "action", "poster", "background", "formaction"}


def cells(rows: Mapping[str, Summary]) -> list[list[str]]:
    return [list(row) for row in score_rows(rows, FREE)]


def settings(policy: Any, *overrides: str) -> Config:
    return parse_config(CONFIG, where="test", overrides=overrides).model_copy(update={"seed_policy": policy})


def as_outcome(rig: Any, policy: Any, *overrides: str) -> Outcome:
    """Make a run folder of the rig's study."""
    folder = Path(rig.storage.removeprefix("sqlite:///")).parent
    (folder / "config.yaml").write_text(dump_config(settings(policy, *overrides)), encoding="utf-8")
    return open_run(folder)


def evolve(rig: Any, policy: Any) -> None:
    rig.study.note(ENDED, asyncio.run(rig.run(policy)))
    asyncio.run(rig.look_last())
    rig.study.note(SEARCH_SPEND, merged([rig.model.ledger, rig.proposer.ledger]).as_json())


def open_sealed_test(rig: Any, baselines: dict[str, Any], policy: Any) -> None:
    policies = baselines | {"seed": policy, "evolved": rig.study.best.policy}
    tasks = tasks_of(rig.splits.test)
    test = open_test(policies, tasks, rig.evaluator, before=SealedTest({}), done=lambda _: None, keep=lambda *_: None)
    rig.study.note(TEST, asyncio.run(test).as_json())
    rig.study.note(TEST_SPEND, Ledger({"answer": Spend(12_345, 45, 678_000, 999, 0.25)}).as_json())


@pytest.fixture(scope="module")
def make_rig(make_rig: Callable[..., Any], make_storage: Callable[[], str]) -> Callable[..., Any]:
    """A rig whose study another can open: a report is of a run's folder."""
    return lambda **parts: make_rig(storage=make_storage(), **parts)


@pytest.fixture(scope="module")
def finished(make_rig: Callable[..., Any], kit: Any) -> Outcome:
    """A run whose evolved policy is better than its seed."""
    pupil = kit.pupil(edits=lambda text: text.replace("Care 20.", "Care 95."))
    rig, seed = make_rig(pupil=pupil, splits=kit.splits(validation=6, test=12)), kit.policy(20)
    evolve(rig, seed)
    open_sealed_test(rig, {"native": kit.policy(45)}, seed)
    return as_outcome(rig, seed)


@pytest.fixture(scope="module")
def page(finished: Outcome) -> Page:
    return read(render_report(finished))


def test_the_page_loads_nothing_and_runs_its_own_script_alone(finished: Outcome, page: Page) -> None:
    assert page.named("script") == [{}]
    assert not page.named("link")
    assert not page.named("iframe")
    for tag, attributes in page.elements:
        assert not LOADS & attributes.keys(), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        for name, value in attributes.items():
            if name.endswith("href"):
                assert (value or "").startswith("#"), (tag, value)
    assert not re.findall(r"url\((?!['\"]?#)", html := render_report(finished))
    assert "@import" not in html


def test_each_figure_of_the_sealed_test_stands_under_its_heading() -> None:
    window = Summary(policy="window", memory_score=Estimate(0.1, 0.0, 0.2, 2), by_group={"ann": 0.1, "bob": 0.1})
    mine = Summary(
        policy="mine",
        memory_score=Estimate(0.4, 0.3, 0.5, 2),
        accuracy=0.6,
        shares={"write": 0.2, "read": 0.15, "utilisation": 0.05},
        by_group={"ann": 0.4, "bob": 0.4},
        reworded_by_group={"ann": 0.3, "bob": 0.4},
        evidence_by_group={"ann": 0.5, "bob": 1.0},
        per_turn=TurnCost(1.5, 1000.0, 60.0),
    )
    _, row = score_rows({"window": window, "mine": mine}, FREE)
    headings = re.findall(r"<th[^>]*>(.*?)</th>", HEADINGS.search(TEMPLATE)[0])  # type: ignore[index]
    assert dict(zip(headings, row, strict=True)) == {
        "policy": "mine",
        "memory score [95% interval]": "0.400 [0.300, 0.500]",
        "over {{ window }}": "0.300 [0.300, 0.300]",
        "reworded": "0.350",
        "accuracy": "0.600",
        "evidence": "0.750",
        "write": "0.200",
        "read": "0.150",
        "utilisation": "0.050",
        "calls / turn": "1.50",
        "tokens / turn": "1,060",
        "$ / 1,000 turns": "$0.00",
    }


def test_scores_are_told_by_reader_where_there_are_several(make_rig: Any, kit: Any) -> None:
    readers = {f"user{i}": "keen" if i < 2 else "slow" for i in range(4)}
    by_group = {"user0": 0.5, "user1": 0.7, "user2": 0.1, "user3": 0.1}
    row = Summary(policy="evolved", memory_score=Estimate(0.35, 0.0, 1.0, 4), by_group=by_group, readers=readers)
    told = {}
    for rows in (
        {"evolved": row, "lost": Summary(policy="lost")},
        {"evolved": replace(row, readers={"user0": "keen"})},
    ):
        rig = make_rig()
        rig.study.append(kit.trial())
        rig.study.note(TEST, SealedTest(rows, done=True).as_json())
        told[len(rows)] = read(render_report(as_outcome(rig, kit.policy()))).words()
    assert "policykeen (2 users)slow (2 users)" in told[2].replace(" keen", "keen").replace(" slow", "slow")
    assert "0.100 [0.100, 0.100]" in told[2]
    assert "By reader" not in told[1]


def test_the_headline_tells_the_window_and_the_reworded_difference(make_rig: Any, kit: Any) -> None:
    def row(name: str, score: float, reworded: float) -> Summary:
        scores = {f"user{i}": score + i / 100 for i in range(3)}
        again = {user: value + reworded for user, value in scores.items()}
        return Summary(policy=name, memory_score=Estimate(score, 0.0, 1.0, 3), by_group=scores, reworded_by_group=again)

    rows = {"window": row("window", 0.2, 0), "rag": row("rag", 0.3, 0)}
    rows |= {"seed": row("seed", 0.1, 0), "evolved": row("evolved", 0.5, -0.1)}
    rig = make_rig()
    rig.study.append(kit.trial())
    rig.study.note(TEST, SealedTest(rows, done=True).as_json())
    words = read(render_report(as_outcome(rig, kit.policy()))).words()
    assert "evolved \u2212 seed, 95% interval0.400 [0.400, 0.400]" in words
    assert "evolved \u2212 rag, the best baseline here0.200 [0.200, 0.200]" in words
    assert "evolved \u2212 window, the newest messages that fit0.300 [0.300, 0.300]" in words
    assert "evolved \u2212 seed when the checks are reworded0.300 [0.300, 0.300]" in words


def test_the_table_of_the_sealed_test_has_every_figure(finished: Outcome, page: Page) -> None:
    (table,) = [table for table in page.tables if "memory score [95% interval]" in table[0]]
    assert [row[0] for row in table[1:]] == ["native", "seed", "evolved"]
    assert table[1:] == cells(finished.test.rows)


def test_the_front_is_a_table_of_policies_that_no_other_beats(finished: Outcome, page: Page) -> None:
    (table,) = [table for table in page.tables if "best for" in table[0]]
    rows = finished.front
    assert [int(row[0]) for row in table[1:]] == [row.trial for row in rows]
    costs, scores = ([row[i] for row in table[1:]] for i in (5, 2))
    assert costs == sorted(costs, key=float)
    assert scores == sorted(scores)
    assert {user for row in rows for user in row.best_for} <= finished.study.trials[0].train.keys()


def test_a_price_that_is_not_known_is_said_in_the_report(make_rig: Any, kit: Any, finished: Outcome) -> None:
    rig = make_rig()
    rig.study.append(kit.trial())
    rig.study.note(TEST, SealedTest({"seed": finished.test.rows["seed"]}).as_json())
    page = read(render_report(as_outcome(rig, kit.policy(), "model=openai:nobody-has-it")))
    (table,) = [table for table in page.tables if "memory score [95% interval]" in table[0]]
    assert table[1][-1] == "not known"


def test_the_headline_compares_the_evolved_policy_with_its_seed(finished: Outcome, page: Page) -> None:
    gain = finished.test.difference
    assert gain.low > 0
    assert f"evolved \u2212 seed, 95% interval{with_interval(gain)}" in page.words()
    assert "Compared with the seed policy, the evolved policy scores better" in page.words()
    assert "evolved \u2212 native, the best baseline here" in page.words()


@pytest.mark.parametrize(
    ("seed", "evolved", "verdict"),
    [
        ((0.1, 0.2, 0.3), (0.5, 0.6, 0.71), "scores better: the interval of the difference lies above zero"),
        ((0.5, 0.6, 0.71), (0.1, 0.2, 0.3), "scores worse: the interval of the difference lies below zero"),
        ((0.1, 0.6, 0.3), (0.5, 0.2, 0.3), "cannot be told apart: the interval of the difference includes zero"),
        ((0.1, 0.6, 0.3), (0.1, 0.6, 0.3), "scores exactly the same"),
        ((0.1,), (0.5,), "has too few pairs for an interval"),
    ],
)
def test_the_headline_says_no_more_than_the_interval_does(
    seed: Any, evolved: Any, verdict: str, finished: Outcome, make_rig: Any, kit: Any
) -> None:
    rig = make_rig()
    rig.study.append(kit.trial())
    rows = {
        name: replace(finished.test.rows[name], by_group=dict(zip("abc", scores, strict=False)))
        for name, scores in (("seed", seed), ("evolved", evolved))
    }
    rig.study.note(TEST, SealedTest(rows, "", done=True).as_json())
    words = read(render_report(as_outcome(rig, kit.policy()))).words()
    assert f"Compared with the seed policy, the evolved policy {verdict}." in words


def test_every_trial_is_there_with_its_verdict_its_reason_and_its_change(finished: Outcome, page: Page) -> None:
    trials = finished.study.trials
    parts = [attributes["class"] or "" for attributes in page.named("details") if attributes.get("class")]
    assert [part for part in parts if part.startswith("trial")] == [f"trial {trial.verdict}" for trial in trials]
    assert parts.count("generation") == len({trial.generation for trial in trials})
    told = page.words()
    for trial in trials:
        assert f"Trial {trial.number}: {trial.verdict} · {' '.join(trial.reason.split())}" in told
        assert " ".join(trial.change.split()) in told


def test_every_link_leads_to_a_trial_that_is_there(page: Page) -> None:
    there = {f"#{attributes['id']}" for _, attributes in page.elements if attributes.get("id")}
    links = [attributes["href"] for attributes in page.named("a")]
    assert len(links) > 3
    assert {*links} <= there


def test_the_line_from_the_seed_policy_to_the_evolved_one_says_what_each_step_changed(
    finished: Outcome, page: Page
) -> None:
    told = page.words()
    line = told[told.index("How the evolved policy came to be") : told.index("Every trial, and why")]
    best = finished.study.best
    assert line.split()[7:10] == ["Trial", "0:", "the"]
    assert f"Trial {best.number}" in line
    assert "The reply prompt, beside trial 0's:" in line


def test_the_counts_of_candidates_add_up(finished: Outcome, page: Page) -> None:
    counts = re.search(r"(\d+) proposed · (.*?)\. It ended because", page.words())
    assert counts is not None
    parts = [int(number) for number in re.findall(r"(\d+) [a-z]", counts[2])]
    assert int(counts[1]) == sum(parts) == sum(bool(trial.proposer) for trial in finished.study.trials)


def test_what_came_of_each_proposers_candidates_is_counted(finished: Outcome, page: Page) -> None:
    (table,) = [table for table in page.tables if table[0][0] == "proposer"]
    candidates = [trial for trial in finished.study.trials if trial.proposer]
    accepted = [trial.policy for trial in finished.study.trials if trial.accepted]
    assert {row[0] for row in table[1:]} == {trial.proposer for trial in candidates}
    for row in table[1:]:
        made = [trial for trial in candidates if trial.proposer == row[0]]
        calls = sum(trial.ledger.total.calls for trial in made)
        assert row[1:-1] == [
            str(len(made)),
            str(sum(trial.finished_race for trial in made)),
            str(sum(trial.led for trial in made)),
            str(len({trial.policy for trial in made if trial.policy in accepted and trial.decided_at != "check"})),
            f"{calls:,}",
        ]


def test_a_policy_that_is_proposed_again_is_not_accepted_a_second_time(make_rig: Any, kit: Any) -> None:
    rig = make_rig()
    best = {"policy": kit.policy(3), "summary": None}
    for trial in (
        kit.trial(),
        kit.trial(1, proposer="gp", decided_at="validate", accepted=True, **best),
        kit.trial(2, proposer="merge", decided_at="check", train={}, **best),
    ):
        rig.study.append(trial)
    page = read(render_report(as_outcome(rig, kit.policy())))
    (table,) = [table for table in page.tables if table[0][0] == "proposer"]
    at = table[0].index("accepted")
    assert {row[0]: row[at] for row in table[1:]} == {"gp": "1", "merge": "0"}


def test_every_look_is_there_with_what_it_was_decided_on(finished: Outcome, page: Page) -> None:
    (table,) = [table for table in page.tables if "surely worse on" in table[0]]
    looked = [trial for trial in finished.study.trials if trial.look]
    assert looked
    for row, trial in zip(table[1:], looked, strict=True):
        gain = trial.look.over_best.gain
        assert row[0] == str(trial.number)
        assert row[1] == with_interval(gain)
        assert row[6] == f"{trial.look.level:.2g}"
        assert row[7] == "none"


def test_the_evolved_policys_score_is_told_from_train_to_test(finished: Outcome, page: Page) -> None:
    best = finished.study.best
    validation = sum(best.validation.values()) / len(best.validation)
    told = [best.score, validation, finished.test.rows["evolved"].memory_score.mean]
    assert "train {} → validation {} → test {}".format(*map(number, told)) in page.words()
    search = finished.config.search.model_copy(update={"objective": "score-and-evidence"})
    both = replace(finished, config=finished.config.model_copy(update={"search": search}))
    assert "The evolved policy's mean of memory score and evidence recall where" in read(render_report(both)).words()


def test_a_run_that_looked_at_nothing_has_no_table_of_looks(make_rig: Any, kit: Any) -> None:
    rig = make_rig()
    rig.study.append(kit.trial())
    page = read(render_report(as_outcome(rig, kit.policy())))
    assert not [table for table in page.tables if "surely worse on" in table[0] or table[0][0] == "proposer"]


def test_the_prompt_that_evolved_is_shown_beside_the_seeds_word_by_word(page: Page) -> None:
    assert "The reply prompt, beside the seed policy's" in page.words()
    assert "Care 20." in page.words()
    assert page.named("ins")
    assert page.named("del")


def test_what_it_took_is_told_by_role_with_a_total(finished: Outcome, page: Page) -> None:
    (table,) = [table for table in page.tables if "of them cached" in table[0]]
    ledger = merged([finished.search_spend, finished.test_spend])
    told = {row[0]: row[1:] for row in table[1:]}
    assert {role: told[role][0] for role in ledger.by_role} == {r: f"{s.calls:,}" for r, s in ledger.by_role.items()}
    assert table[-1][:3] == ["total", f"{ledger.total.calls:,}", "45"]
    assert table[-1][-2] == "$0.25"
    assert all(row[-1] for row in table[1:-1]), "each role is explained"


def test_a_cost_that_is_not_known_is_not_written_as_zero(make_rig: Any, kit: Any) -> None:
    rig = make_rig()
    rig.study.append(kit.trial())
    rig.study.note(SEARCH_SPEND, Ledger({"answer": Spend(9, 0, 9, 9, None)}).as_json())
    page = read(render_report(as_outcome(rig, kit.policy())))
    assert "not known" in page.words()
    assert "$0.00" not in page.words()


def test_the_config_and_the_best_policy_are_there_as_files(finished: Outcome, page: Page) -> None:
    assert "made up" in page.words()
    assert " ".join(dump_config(finished.config).split()) in page.words()
    assert "Care 95." in page.words()


def test_a_report_made_with_the_embedded_model_says_so(make_rig: Any, kit: Any) -> None:
    rig = make_rig()
    rig.study.append(kit.trial())
    for overrides, told in [
        ([], True),
        (["model=openai:x"], False),
        (["model=openai:x", "user_model=embedded"], True),
        (["model=openai:x", "proposer_model=embedded"], True),
        (["model=embedded", "user_model=openai:x", "proposer_model=openai:y"], True),
    ]:
        page = read(render_report(as_outcome(rig, kit.policy(), *overrides)))
        assert ("The embedded model took part" in page.words()) == told, overrides


def test_the_same_study_makes_the_same_bytes(finished: Outcome) -> None:
    assert render_report(open_run(finished.folder)) == render_report(finished)


def test_the_report_is_written_into_the_run_folder(finished: Outcome) -> None:
    path = write_report(finished)
    assert path == finished.folder / "report.html"
    assert path.read_text(encoding="utf-8") == render_report(finished)


def test_a_run_without_any_trial_has_a_report_that_says_how_to_go_on(make_rig: Any, kit: Any) -> None:
    page = read(render_report(as_outcome(make_rig(), kit.policy())))
    assert "The sealed test has not been opened yet" in page.words()
    assert "--resume" in page.words()


def test_a_search_under_way_has_a_report(make_rig: Any, kit: Any) -> None:
    rig = make_rig()
    for trial in (
        kit.trial(),
        kit.trial(1, policy=None, decided_at="check", train={}, summary=None, reason="no {choices}"),
    ):
        rig.study.append(trial)
    page = read(render_report(as_outcome(rig, kit.policy())))
    assert "The sealed test has not been opened yet" in page.words()
    assert "not valid" in page.words()
    assert "no {choices}" in page.words()


def test_a_test_that_could_not_be_finished_says_why_and_shows_what_it_has(
    finished: Outcome, make_rig: Any, kit: Any
) -> None:
    rig = make_rig()
    rig.study.append(kit.trial())
    rows = {"seed": finished.test.rows["seed"]}
    rig.study.note(TEST, SealedTest(rows, "evolved could not be tested: no calls left", done=True).as_json())
    page = read(render_report(as_outcome(rig, kit.policy())))
    assert "evolved could not be tested: no calls left" in page.words()
    assert [*score_rows(rows, FREE, paid=False)[0]] in [row for table in page.tables for row in table], (
        "what is free has no dollars"
    )
    assert not [told for told in ("$", "has not been opened yet") if told in page.words()]


def test_a_run_whose_every_episode_failed_has_a_report(finished: Outcome, make_rig: Any, kit: Any) -> None:
    rig = make_rig()
    rig.study.append(kit.trial())
    rows = {name: Summary(policy=name) for name in ("seed", "evolved")}
    rig.study.note(TEST, SealedTest(rows, "", done=True).as_json())
    assert "nan" not in read(render_report(as_outcome(rig, kit.policy()))).words().lower()


def test_nothing_in_a_prompt_a_reason_or_a_name_becomes_html(finished: Outcome, make_rig: Any, kit: Any) -> None:
    evil = kit.policy(prompts={"reply": f"{EVIL} {{memories}}"})
    rig = make_rig()
    rig.study.append(kit.trial(policy=evil))
    rig.study.append(kit.trial(1, reason=EVIL, change=EVIL))
    rows = {EVIL: finished.test.rows["seed"], **finished.test.rows}
    rig.study.note(TEST, SealedTest(rows, EVIL, done=True).as_json())
    rig.study.note(ENDED, EVIL)
    page = read(render_report(as_outcome(rig, evil, f"tracking.experiment={EVIL!r}")))
    assert page.named("script") == [{}]
    assert not page.named("img")
    assert page.text.count("<script>document.title = 'stolen'</script>") >= 6
    assert "{{ 7 * 7 }}" in page.text


def test_a_prompt_with_odd_characters_is_shown(make_rig: Any, kit: Any) -> None:
    odd = kit.policy(prompts={"reply": "Tab\there, \u2028 line, emoji 🐘, ümläut, \r\n{memories}\n\n\nEnd"})
    rig = make_rig()
    rig.study.append(kit.trial(policy=odd))
    html = render_report(as_outcome(rig, odd))
    assert "🐘, ümläut" in html
    assert '<meta charset="utf-8">' in html


@contextmanager
def shown(report: Path, width: int = 1100) -> Iterator[Any]:
    """Show a report in a browser without a network."""
    with chromium() as browser:
        page = browser.new_page(offline=True, viewport={"width": width, "height": 2400})
        page.goto(report.resolve().as_uri())
        yield page


@needs_browser
def test_a_browser_shows_the_headline_and_the_table(finished: Outcome) -> None:
    with shown(write_report(finished)) as tab:
        page = read(tab.content())
    gain = finished.test.difference
    assert with_interval(gain) in page.words()
    for row in cells(finished.test.rows):
        assert row in [told for table in page.tables for told in table]
    assert len(page.named("svg")) == 12, "each picture is there for a large screen and for a small one"


@needs_browser
@pytest.mark.parametrize("width", [1100, 420])
def test_what_a_browser_paints_is_not_blank_and_fits_the_window(finished: Outcome, tmp_path: Path, width: int) -> None:
    shot = tmp_path / "report.png"
    with shown(write_report(finished), width) as tab:
        tab.screenshot(path=shot)
    pixels = matplotlib.image.imread(shot)[..., :3]
    assert pixels.shape[1] == width
    background = pixels[0, 0]
    inked = (abs(pixels - background) > 0.1).any(axis=2)
    assert 0.01 < inked.mean() < 0.7
    bands = [inked[top : top + 300].any() for top in range(0, 1500, 300)]
    assert all(bands), "a part of the page is blank"
    assert not inked[:, -2:].any(), "something sticks out to the right"

"""The report of a run as a browser shows it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from browsing import chromium, keep_picture, needs_browser
from mnemotune.env.failed_checks import FailedCheck, FailedChecks, Needed, write_failed_checks
from mnemotune.optimizer.search.outcome import TEST, open_run
from mnemotune.optimizer.search.sealed import EVOLVED, SEED, SealedTest
from mnemotune.optimizer.views.report import write_report

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTHS = (390, 1024, 1920)

pytestmark = needs_browser


@pytest.fixture
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def shown(browser: Any, finished: Path) -> Callable[[int], Any]:
    """Opens the report in a window of a width; whatever the page complains of fails the test."""

    def open_page(width: int) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("console", lambda message: pytest.fail(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: pytest.fail(str(error)))
        page.on("request", lambda request: None if request.url.startswith("file:") else pytest.fail(request.url))
        page.goto((finished / "report.html").absolute().as_uri())
        return page

    return open_page


def unfold(page: Any) -> None:
    """Open the list of failures, and wait until it is there."""
    page.click("#failures > summary")
    page.wait_for_selector("#failures-list > li")


def failed_on(run: Path, policy: str) -> set[tuple[str, int, str]]:
    failures = FailedChecks(run / "test" / policy)
    return {(failure["task"], failure["stage"], failure["check"]) for failure in failures}


def test_nothing_is_wider_than_the_window(shown: Callable[[int], Any]) -> None:
    for width in WIDTHS:
        page = shown(width)
        keep_picture(page, f"report-{width}")
        unfold(page)
        page.click("#failures-list > li summary >> nth=0")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_everybody_can_read_it_with_a_keyboard_and_in_the_dark(shown: Callable[[int], Any]) -> None:
    page = shown(1024)
    unfold(page)
    page.click("#failures-list > li summary >> nth=0")
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        keep_picture(page, f"report-{scheme}")
        found = Axe().run(page).response["violations"]
        assert [(problem["id"], problem["impact"], problem["nodes"][0]["html"]) for problem in found] == []


def test_every_failed_check_is_listed_with_both_policies(shown: Callable[[int], Any], finished: Path) -> None:
    page = shown(1024)
    unfold(page)
    seed, evolved = failed_on(finished, "seed"), failed_on(finished, "evolved")
    assert page.inner_text("#failures-found").startswith(
        f"{len(seed | evolved)} of {len(seed | evolved)} failed checks"
    )
    page.click("#failures-list > li summary >> nth=0")
    page.wait_for_selector(".failure-policy")
    parts = page.locator("#failures-list > li >> nth=0").locator(".failure-policy h3").all_inner_texts()
    assert [part.split(":")[0] for part in parts] == ["seed", "evolved"]
    assert "Right answer:" in page.inner_text("#failures-list > li >> nth=0")


def test_a_failed_check_tells_what_came_back(
    shown: Callable[[int], Any], finished: Path, cli: Callable[..., Any]
) -> None:
    came_back = {"seed": (), "evolved": ("Your cat is called Tom", "I moved\nto the coast")}
    for policy, texts in came_back.items():
        need = Needed("pet", "home", 0, known_then=True, known=False, shown=False, held_then=())
        failed = FailedCheck("ann", "ann", 1, "1.0", 0.0, "read", "Which pet?", "Right answer: dog", texts, (need,))
        write_failed_checks(finished / "test" / policy, [failed])
    cli("report", finished).succeeded()
    page = shown(1024)
    unfold(page)
    page.click("#failures-list > li summary >> nth=0")
    assert "Nothing came back." in page.inner_text("#failures-list .failure-policy >> nth=0")
    page.click("text=What came back: 2 texts")
    page.wait_for_selector(".came-back li")  # drawn once the list is unfolded
    assert page.locator(".came-back li").all_text_contents() == list(came_back["evolved"])


def test_failures_are_filtered_by_who_failed(shown: Callable[[int], Any], finished: Path) -> None:
    page = shown(1024)
    unfold(page)
    seed, evolved = failed_on(finished, "seed"), failed_on(finished, "evolved")
    wanted = {
        "seed": seed,
        "evolved": evolved,
        "both": seed & evolved,
        "worse": evolved - seed,
        "better": seed - evolved,
    }
    for value, checks in wanted.items():
        page.select_option("select[name=failed]", value)
        assert page.inner_text("#failures-found").startswith(f"{len(checks)} of ")


def test_a_policy_that_was_not_tested_is_not_called_right(shown: Callable[[int], Any], finished: Path) -> None:
    """The sealed test was stopped after the evolved policy, which comes first."""
    outcome = open_run(finished)
    rows = {EVOLVED: outcome.test.rows[EVOLVED]}
    outcome.study.note(TEST, SealedTest(rows, "").as_json())
    shutil.rmtree(finished / "test" / SEED)
    write_report(open_run(finished))
    page = shown(1024)
    unfold(page)
    told = page.locator("#failures-list > li summary .faint").all_inner_texts()
    assert told
    assert all("· seed: not tested ·" in line for line in told)
    page.select_option("select[name=failed]", "worse")
    assert page.inner_text("#failures-found").startswith("0 of ")


def test_failures_are_filtered_by_user_and_stage(shown: Callable[[int], Any], finished: Path) -> None:
    page = shown(1024)
    unfold(page)
    checks = failed_on(finished, "seed") | failed_on(finished, "evolved")
    user, stage, _ = sorted(checks)[0]
    page.select_option("select[name=group]", user)
    page.select_option("select[name=stage]", str(stage))
    count = sum((task, at) == (user, stage) for task, at, _ in checks)
    assert page.inner_text("#failures-found").startswith(f"{count} of ")


def drawn(page: Any) -> list[str]:
    """The pictures that can be seen, by their names."""
    pictures = page.locator("figure svg:visible")
    assert all(picture.locator("[role=graphics-symbol]").count() for picture in pictures.all())
    return [str(picture.get_attribute("aria-label")) for picture in pictures.all()]


def test_a_mark_that_is_pointed_at_says_what_it_stands_for(shown: Callable[[int], Any]) -> None:
    for width in WIDTHS:
        page = shown(width)
        assert page.is_hidden("#tip")
        for start in ("seed: memory score", "seed: 0.", "seed, period 1", "Trial 1: "):
            mark = page.locator(f"figure svg:visible [role=graphics-symbol][aria-label^='{start}']").first
            mark.scroll_into_view_if_needed()
            box = mark.bounding_box()
            page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            assert page.inner_text("#tip").startswith(start)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.mouse.move(1, 1)
        assert page.is_hidden("#tip")


def test_pictures_need_no_script_and_are_printed(browser: Any, finished: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 900}, java_script_enabled=False)
    page.goto((finished / "report.html").absolute().as_uri())
    pictures = drawn(page)
    assert len(pictures) == len({*pictures}) >= 5
    assert page.locator("figure svg.wide:visible").count() == 0
    page.emulate_media(media="print")
    assert drawn(page) == pictures
    assert page.locator("figure svg.narrow:visible").count() == 0
    assert page.locator(".trial > summary").first.is_visible(), "paper cannot be opened"
    page.set_viewport_size({"width": 720, "height": 900})
    assert page.evaluate("[...document.querySelectorAll('table')].every((table) => table.scrollWidth <= 680)")


def test_a_mark_and_a_link_lead_to_their_trial(shown: Callable[[int], Any]) -> None:
    page = shown(1024)
    assert page.is_hidden("#trial-1")
    mark = page.locator("figure svg.wide [aria-label^='Trial 1: ']").first
    mark.scroll_into_view_if_needed()
    mark.click(force=True)
    page.wait_for_selector("#trial-1", state="visible")
    page.click("#trial-1 a[href='#trial-0']")
    page.wait_for_selector("#trial-0", state="visible")

"""Outlines: 1. memory observes pieces of 200 tokens or fewer; 2. what is new, and whole lines where they fit;
3. a page that does not change has the same outline each time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from browsing import app_task, needs_browser, seen
from mnemotune.env.web.outline import MOST_CHARACTERS, MOST_PIECES, Outline
from mnemotune.env.web.page import Verdict
from mnemotune.policies.lm import Message

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=60).map(
    lambda text: " ".join(text.split())
)
LINES = st.lists(TEXTS.filter(bool), max_size=60)

EVERYTHING = """
<header><p>The shop</p><nav><ul><li><a href="#/a" aria-current="page">Home</a></li>
<li><a href="#/b">Orders</a></li></ul></nav></header>
<h1>Orders <small>of today</small></h1>
<p>There are <b>two</b> orders,<br>and <a href="#/old">older ones</a> too.</p>
<p hidden>hidden</p><p style="display: none">gone</p><p aria-hidden="true">decoration</p>
<p style="visibility: hidden">dark</p>
<div role="status">Saved.</div><div role="alert"></div>
<table><caption>Open orders</caption>
<tr><th>Order</th><th>Weight in kg</th><th></th></tr>
<tr><td>A-17</td><td>12.5</td><td><button>Open order A-17</button></td></tr>
<tr><td>A-18</td><td></td><td><button disabled>Open order A-18</button></td></tr></table>
<table><tr><th>Sum</th><td>24.5</td><td>kg</td></tr><tr><th>By:</th><td>van</td></tr></table>
<form><label for="name">Name</label><input id="name" value="Ada"><label>Note <textarea>be  quick</textarea></label>
<label for="size">Size</label><select id="size"><option>small</option><option selected>large</option></select>
<label><input type="checkbox" checked> Fragile</label><label><input type="radio" name="r"> Van</label>
<input type="password" aria-label="Key" value="abc"><input type="search" placeholder="Search">
<input type="hidden" value="h">
<input type="number" aria-label="Count" value="3"><input type="submit" value="Send">
<input type="text" readonly title="Fixed"></form>
<div style="cursor: pointer">Whole card</div><div onclick="1">Card with <button>Star</button></div>
<button aria-label="Close"><svg><path/></svg></button><img src="data:," alt="A map">
<details><summary>More</summary><p>inside</p></details>
<div role="tablist"><span role="tab" aria-selected="true">First</span><span role="tab">Second</span></div>
<div role="dialog" aria-label="Sure?"><button aria-expanded="false">Yes</button></div>
"""
SHOWN = """\
The shop
[1] link "Home" (current)
[2] link "Orders"
heading: Orders of today
There are two orders,
and [3] link "older ones" too.
status: Saved.
table "Open orders"
Order: A-17 | Weight in kg: 12.5 | [4] button "Open order A-17"
Order: A-18 | [5] button "Open order A-18" (disabled)
table
Sum: 24.5 | kg
By: van
[6] textbox "Name" = "Ada"
[7] textbox "Note" = "be quick"
[8] combobox "Size" = "large" of "small", "large"
[9] checkbox "Fragile" (checked)
[10] radio "Van" (not checked)
[11] textbox "Key" = "•••"
[12] searchbox "Search"
[13] spinbutton "Count" = "3"
[14] button "Send"
[15] textbox "Fixed" (read only)
[16] clickable "Whole card"
[17] clickable: Card with [18] button "Star"
[19] button "Close" image "A map"
[20] button "More" (closed)
[21] tab "First" (selected) [22] tab "Second"
dialog "Sure?"
[23] button "Yes" (closed)
"""


@needs_browser
async def test_a_page_is_shown_line_by_line_with_its_elements_numbered(tmp_path: Path) -> None:
    (outline,) = await seen(app_task(tmp_path, EVERYTHING), "goto")
    assert "\n".join(outline.lines) == SHOWN.strip()


@needs_browser
async def test_what_lies_open_is_shown_and_a_page_that_stays_is_shown_in_the_same_way(tmp_path: Path) -> None:
    task = app_task(tmp_path, EVERYTHING)
    first, again, opened = await seen(task, "goto", 'key: "Shift"', 'click button "More"')
    assert again == first
    place = first.plain.index('button "More" (closed)')
    assert opened.plain == (*first.plain[:place], 'button "More" (open)', "inside", *first.plain[place + 1 :])


@needs_browser
async def test_a_long_page_is_cut_at_a_line_and_says_how_much_is_left_out(tmp_path: Path) -> None:
    body = "".join(f"<p>Line {number} of many that stand one below the other.</p>" for number in range(1000))
    (outline,) = await seen(app_task(tmp_path, body), "goto")
    assert MOST_CHARACTERS - 60 < len("\n".join(outline.lines)) <= MOST_CHARACTERS
    assert outline.lines[-1].endswith("one below the other.")
    assert len(outline.lines) + outline.more == 1000
    assert outline.text.endswith(f"(and {outline.more} more lines)")


@given(TEXTS, LINES, LINES, st.lists(TEXTS.filter(bool), max_size=2))
def test_memory_observes_each_new_line_once_in_pieces_of_200_tokens(
    title: str, before: list[str], lines: list[str], notes: list[str]
) -> None:
    earlier = Outline(title, "/", tuple(before))
    pieces = Outline(title, "/", tuple(lines), tuple(notes)).pieces(earlier)
    assert 1 <= len(pieces) <= MOST_PIECES
    assert all(Message("user", piece).tokens <= 200 for piece in pieces)
    assert all(piece.startswith(earlier.heading) for piece in pieces)
    new = [*notes, *(Counter(lines) - Counter(before)).elements()]
    observed = [line for piece in pieces for line in piece.split("\n")[1:]]
    if len(pieces) < MOST_PIECES:
        assert Counter(observed) == Counter(new or ["Nothing has changed."])


@given(LINES, st.text(max_size=300))
def test_an_outline_is_read_as_it_was_recorded(lines: list[str], title: str) -> None:
    outline = Outline(title.encode("utf-8", "ignore").decode(), "/#/x", tuple(lines), ("There is none.",), 3)
    assert Outline.read(outline.recorded) == outline


def marked(*lines: str) -> Outline:
    """Return an outline whose brackets are all of numbers that the script gave."""
    return Outline("A", "/", tuple(line.replace("[", "\ufdd0") for line in lines))


@needs_browser
async def test_what_a_page_says_in_brackets_is_no_number_of_an_element(tmp_path: Path) -> None:
    body = """<p>The orders [1001] and [1002] wait, \ufdd01003] too</p><button>Open [7] now</button>
    <table><tr><th>Sum [3] of all</th><th><button>Sort</button></th></tr>
    <tr><td>5 [kg] [2] net</td><td>x</td></tr></table>
    <textarea aria-label="Note">[4] notes</textarea>"""
    (outline,) = await seen(app_task(tmp_path, body), "goto")
    assert outline.lines == (
        "The orders [1001] and [1002] wait, [1003] too",
        '[1] button "Open [7] now"',
        "table",
        '[2] button "Sort"',
        "Sum [3] of all: 5 [kg] [2] net | Sort: x",
        '[3] textbox "Note" = "[4] notes"',
    )
    assert outline.plain == tuple(
        line.removeprefix(f"[{number}] ") for line, number in zip(outline.lines, (0, 1, 0, 2, 0, 3), strict=True)
    )


def test_numbers_of_elements_are_no_part_of_what_memory_observes() -> None:
    before = marked('[1] link "Home"', '[2] button "Save"')
    after = marked('[1] link "Home"', '[2] button "New"', '[3] button "Save" (disabled) [4] link "Old"')
    assert after.pieces(before) == ['page A, /:\nbutton "New"\nbutton "Save" (disabled) link "Old"']
    assert after.pieces(after) == ["page A, /:\nNothing has changed."]


def test_a_line_that_is_very_long_hides_nothing_after_it() -> None:
    outline = Outline.of({"title": "t", "path": "/", "lines": ["x" * 30_000, '[1] button "Save"']}, origin="http://a")
    assert outline.lines[1] == '[1] button "Save"'
    assert (len(outline.lines[0]), outline.more) == (4_001, 0)


@needs_browser
async def test_half_a_character_can_be_recorded_and_a_name_is_cut_between_two(tmp_path: Path) -> None:
    script = "p.textContent = b.textContent = `${q.textContent} 😀`.slice(0, 3)"
    long = "x" * 198
    body = f"<p id=p></p><p id=q>A</p><button id=b></button><button>{long}😀tail</button><script>{script}</script>"
    shown = await seen(app_task(tmp_path, body), 'click button "A ?"', f'click button "{long}😀…"')
    assert [outline.notes for outline in shown] == [(), ()]
    assert shown[0].lines == ("A ?", "A", f'[1] button "A ?" [2] button "{long}😀…"')
    shown[0].text.encode()
    read = Outline.read(Outline("\ud83d", "/", ("\ude00",), ("\udfff",)).recorded)
    assert (read.title, read.lines, read.notes) == ("?", ("?",), ("?",))
    assert Verdict.read(Verdict(0.0, "\ud83d").recorded) == Verdict(0.0, "?")

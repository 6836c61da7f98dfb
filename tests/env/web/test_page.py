"""Acting in a page: 1. the same actions show the same texts each time; 2. what cannot be done is said, and nothing is
done; 3. nothing but the page's own server is asked for anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from browsing import app_task, needs_browser, seen
from mnemotune.data.web.task import WebTask
from mnemotune.env.outside import Outside, OutsideFault
from mnemotune.env.web import browser
from mnemotune.env.web import page as page_module
from mnemotune.env.web.action import Action
from mnemotune.env.web.outline import Outline
from mnemotune.env.web.page import Verdict, WebPage

pytestmark = needs_browser

SMALL = """
<h1 id="heading">Start</h1><p role="status" id="said"></p><p id="drawn"></p>
<a href="#/next">Next</a> <a href="mailto:a@b.example">Mail</a> <a href="other.html" target="_blank">Other</a>
<label>Note <input id="note"></label>
<label>Size <select id="size"><option>small</option><option> large  one </option></select></label>
<button onclick="tell('saved ' + note.value + ' ' + size.value)">Save</button><button disabled>Locked</button>
<button onclick="confirm('Delete all?') || tell('kept')">Delete</button><button>Twice</button><button>Twice</button>
<div style="position: relative; height: 40px"><button style="position: absolute">Below</button>
<div style="position: absolute; inset: 0; background: white">Curtain</div></div>
<button onclick="fetch('/api/state', {method: 'PUT', body: '{&quot;done&quot;: true}'})">Finish</button>
<button onclick="setTimeout(() => tell('later'), 900)">Wait</button>
<button onclick="drawn.textContent = [Math.random(), crypto.randomUUID(), new Date()].join(' ')">Draw</button>
<button onclick="document.body.insertAdjacentHTML('beforeend', '<p>' + Date.now() + '</p>')">Clock</button>
<input type="checkbox" aria-label="Box" style="opacity: 0">
<label><input type="checkbox" style="display: none" onchange="tell(this.checked)">Styled</label>
<script>
  const tell = (text) => (said.textContent = text);
  const show = () => (heading.textContent = location.hash.slice(2) || "Start");
  addEventListener("hashchange", show); show();
  addEventListener("keydown", ({key}) => key === "Escape" && tell("escaped"));
</script>
"""


@pytest.fixture
def other_server() -> Iterator[tuple[str, list[str]]]:
    """A server that nothing should ask for anything, and what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


def said(outline: Outline) -> str:
    """Return what the page tells the user."""
    return next((line.removeprefix("status: ") for line in outline.lines if line.startswith("status: ")), "")


async def test_elements_are_clicked_typed_into_and_selected_by_number_or_by_name(tmp_path: Path) -> None:
    outlines = await seen(
        app_task(tmp_path, SMALL),
        'type textbox "Note": "fragile \\"glass\\""',
        'select combobox "Size": "large one"',
        'click button "Save"',
        "click [6]",
        'key: "Escape"',
        'click checkbox "Styled"',
        'click checkbox "Box"',
    )
    assert 'textbox "Note" = "fragile "glass""' in outlines[0].plain
    assert [said(outline) for outline in outlines[2:5]] == ['saved fragile "glass" large one'] * 2 + ["escaped"]
    assert said(outlines[5]) == "true"
    assert 'checkbox "Styled" (checked)' in outlines[5].plain
    assert 'checkbox "Box" (checked)' in outlines[6].plain


async def test_pages_are_opened_and_left_again(tmp_path: Path) -> None:
    task = app_task(tmp_path, SMALL)
    (tmp_path / "other.html").write_text("<title>Another</title><p>Another page", encoding="utf-8")
    outlines = await seen(
        task,
        "goto",
        'click link "Next"',
        "back",
        'click link "Other"',
        "back",
        "back",
        'goto: "#/far"',
        'scroll: "down"',
    )
    paths = ["/", "/#/next", "/", "/other.html", "/", "/", "/#/far", "/#/far"]
    assert [outline.path for outline in outlines] == paths
    assert outlines[3].title == "Another"
    assert outlines[5].notes == ("There is no page to go back to.",)
    assert "heading: far" in outlines[6].lines


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ('click button "Nowhere"', 'There is no element button "Nowhere".'),
        ("click", 'click needs an element, such as [12] or button "Save".'),
        ('click link "Mail"', "No page begins with mailto:"),
        ('click button "save"', 'There is no element button "save".'),
        ("click [99]", "There is no element [99]."),
        ('click button "Twice"', 'There are 2 elements button "Twice".'),
        ('click button "Locked"', 'button "Locked" is disabled.'),
        ('click button "Below"', "button \"Below\" cannot be clicked: 'Curtain' lies over it."),
        ('select combobox "Size": "huge"', "combobox \"Size\" has no option 'huge'."),
        ('type button "Save": "x"', "'x' cannot be typed into button \"Save\"."),
        ('key: "NoSuchKey"', "There is no key 'NoSuchKey'."),
        ('goto: "http://127.0.0.1:1/"', "http://127.0.0.1:1/ is another server's, and was not opened."),
        ('click button "Delete"', "A dialog said 'Delete all?' and was refused."),
    ],
)
@pytest.mark.exhaustive("line", "note")
async def test_what_cannot_be_done_is_said_and_the_page_stays_as_it_is(tmp_path: Path, line: str, note: str) -> None:
    before, after = await seen(app_task(tmp_path, SMALL), "goto", line)
    assert after.notes == (note,)
    assert after.path == before.path
    assert [text for text in after.lines if text not in before.lines] in ([], ["status: kept"])


async def test_the_same_actions_show_the_same_texts_whatever_chance_and_clock_are_used(tmp_path: Path) -> None:
    task = app_task(tmp_path, SMALL)
    actions = ('click button "Wait"', 'click button "Draw"', 'click button "Clock"', 'click button "Draw"')
    first = await seen(task, *actions)
    assert said(first[0]) == "later"
    assert first[1].lines != first[3].lines
    assert await seen(task, *actions) == first


async def test_a_verdict_is_given_on_done_alone_and_of_what_the_server_has(tmp_path: Path) -> None:
    task = app_task(tmp_path, SMALL)
    outside = Outside()
    try:
        for actions, reward in ((["done"], 0.0), (['click button "Finish"', "done"], 1.0), (["fail"], 0.0)):
            page = await WebPage.open(outside, task)
            shown = [await page.act(Action.read(line).as_json) for line in actions]
            await page.aclose()
            assert Verdict.read(shown[-1]).reward == reward
    finally:
        await outside.aclose()


def test_a_browser_without_windows_is_taken_before_one_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(browser.CHROMIUM, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert browser.find_chromium() is None
    for name in ("google-chrome", "chromium", "chromium-headless-shell"):
        (tmp_path / name).touch(mode=0o755)
        assert browser.find_chromium() == str(tmp_path / name)


async def test_no_request_leaves_for_another_server(tmp_path: Path, other_server: tuple[str, list[str]]) -> None:
    url, asked = other_server
    body = f"""<img src="{url}/image" alt="x"><script src="{url}/script"></script><iframe src="{url}/frame"></iframe>
    <link rel="preload" href="{url}/preload" as="image"><link rel="dns-prefetch" href="https://example.com">
    <button onclick="fetch('{url}/fetch', {{mode: 'no-cors'}}).catch(() => 0); navigator.sendBeacon('{url}/beacon');
    window.open('{url}/open'); new WebSocket('{url.replace("http", "ws")}/socket')">Ask</button>
    <button onclick="location.href = '{url}/location'">Leave</button><a href="{url}/link" target="_blank">Out</a>
    <form action="{url}/form"><button>Submit</button></form><p>Here</p>"""
    outlines = await seen(
        app_task(tmp_path, body),
        'click button "Ask"',
        'click button "Leave"',
        'click link "Out"',
        'click button "Submit"',
        f'goto: "{url}/goto"',
    )
    assert asked == []
    assert [(outline.path, "Here" in outline.lines) for outline in outlines] == [("/", True)] * 5
    assert outlines[2].notes == (f"{url}/link is another server's, and was not opened.",)


async def test_a_session_that_cannot_be_made_ready_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(name: str) -> str:
        raise OutsideFault(f"there is no script {name}")

    monkeypatch.setattr(browser, "script", script)
    outside = Outside()
    try:
        with pytest.raises(OutsideFault, match="no script"):
            await WebPage.open(outside, app_task(tmp_path, SMALL))
        chromium = await outside.shared("web browser", browser.Chromium.start)
        assert chromium._browser is not None
        assert chromium._browser.contexts == []
    finally:
        await outside.aclose()


async def test_a_page_that_never_rests_ends_its_episode_and_not_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "ACT_S", 1.5)
    busy = app_task(tmp_path / "busy", "<button onclick='for (;;);'>Spin</button>", name="busy")
    calm = app_task(tmp_path / "calm", SMALL, name="calm")
    outside = Outside()
    try:
        page, other = await WebPage.open(outside, busy), await WebPage.open(outside, calm)
        with suppress(OutsideFault):  # a slow machine opens no page in so little time
            await other.act(Action("goto").as_json)
        with pytest.raises(OutsideFault, match=r"busy: .*Spin"):
            await page.act(Action("click", 'button "Spin"').as_json)
        await page.aclose()
        monkeypatch.setattr(page_module, "ACT_S", 30)
        assert "Small" in json.loads(await other.act(Action("goto").as_json))["title"]
        await other.aclose()
    finally:
        await outside.aclose()


FORM = """
<p role="status" id="said"></p>
<label>Size <select id="size" onchange="tell('size ' + this.value)">
<option disabled selected>Choose a size</option><option>small</option></select></label>
<label>Tags <select multiple id="tags" onchange="tell([...tags.selectedOptions].map((each) => each.text))">
<option>a</option><option>b</option></select></label>
<label>Fixed <input readonly value="x"></label>
<div style="position: relative; height: 40px"><label>Under <input oninput="tell('typed')"></label>
<div style="position: absolute; inset: 0; background: white">Curtain</div></div>
<label style="position: relative; display: block"><input oninput="tell('named')" style="width: 200px">
<span style="position: absolute; inset: 0; width: 200px">Name</span></label>
<a href="/data.csv">Export</a> <a href="/none">Nothing</a>
<script>const tell = (text) => (said.textContent = text);</script>
"""


async def test_what_a_person_could_not_do_in_a_form_is_said_and_not_done(tmp_path: Path) -> None:
    shown = await seen(
        app_task(tmp_path, FORM),
        'select combobox "Size": "Choose a size"',
        'type textbox "Under": "x"',
        'type textbox "Fixed": "y"',
    )
    assert [outline.notes for outline in shown] == [
        ("The option 'Choose a size' of combobox \"Size\" is disabled.",),
        ("Nothing can be typed into textbox \"Under\": 'Curtain' lies over it.",),
        ('textbox "Fixed" is read-only.',),
    ]
    assert not any(line.startswith("status") for outline in shown for line in outline.lines)


async def test_a_field_under_its_own_label_can_be_typed_into(tmp_path: Path) -> None:
    (typed,) = await seen(app_task(tmp_path, FORM), 'type textbox "Name": "Ann"')
    assert typed.notes == ()
    assert "status: named" in typed.lines


async def test_several_options_of_a_list_can_be_chosen_one_after_another(tmp_path: Path) -> None:
    *_, last = await seen(app_task(tmp_path, FORM), 'select listbox "Tags": "a"', 'select listbox "Tags": "b"')
    assert any(line.endswith("a,b") for line in last.lines), last.lines


SERVER = """
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

class Handler(SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/none":
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def do_POST(self):
        self.send_response(200)
        self.end_headers()

    do_PUT = do_POST

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("", 0), Handler).serve_forever()
"""


def served_task(folder: Path, body: str) -> WebTask:
    """Write an app of one page with a server of its own, and return a task in it."""
    task = app_task(folder, body)
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    return WebTask(task.id, task.group, 1, task.app, "", {}, "verify.py", (), {}, {})


async def test_a_link_that_leads_to_no_page_leaves_the_page_as_it_is(tmp_path: Path) -> None:
    task = served_task(tmp_path, FORM)
    (tmp_path / "data.csv").write_text("a,b\n", encoding="utf-8")
    exported, nothing, typed = await seen(
        task, 'click link "Export"', 'click link "Nothing"', 'select combobox "Size": "small"'
    )
    assert exported.notes == ("/data.csv is a download, and was refused.",)
    assert nothing.notes == ()
    assert any("size small" in line for line in typed.lines), typed


async def test_a_form_that_the_page_s_own_rules_forbid_leaves_the_page_as_it_is(tmp_path: Path) -> None:
    task = app_task(tmp_path, "")
    rules = """<meta http-equiv="Content-Security-Policy" content="form-action 'none'">"""
    form = "<form action='/two.html' method=post><button>Send</button></form>"
    (tmp_path / "index.html").write_text(f"<head><title>Small</title>{rules}</head>{form}", encoding="utf-8")
    (tmp_path / "two.html").write_text("<title>Two</title>", encoding="utf-8")
    sent, again = await seen(task, 'click button "Send"', 'click button "Send"')
    assert sent == again
    assert (sent.title, sent.notes) == ("Small", ("/two.html takes no form from this page, which forbids it.",))


async def test_a_form_of_an_app_leads_to_another_page_of_it(tmp_path: Path) -> None:
    task = app_task(tmp_path, "<form action='/two.html'><button>Send</button></form>")
    (tmp_path / "two.html").write_text("<title>Two</title>", encoding="utf-8")
    (sent,) = await seen(task, 'click button "Send"')
    assert (sent.title, sent.notes) == ("Two", ())


TABS = """<base target="_blank"><a href="/two.html">Link</a>
<form action="/two.html"><button>Form</button><button formtarget="other">Button</button></form>
<button onclick="document.forms[0].submit()">Script</button>
<form action="/two.html" target="inner"><button>Frame</button></form><iframe name="inner" hidden></iframe>
<button onclick="link = document.createElement('a'); link.href = '/two.html'; link.click()">Loose</button>
<button onclick="link = Object.assign(document.createElement('a'), {href: '/two.html', target: 'other'});
link.dispatchEvent(new MouseEvent('click'))">Sent</button>
"""


async def test_what_would_open_in_another_tab_opens_in_the_same_one_and_no_other_tab_stays(tmp_path: Path) -> None:
    task = served_task(tmp_path, TABS)
    (tmp_path / "two.html").write_text("<title>Two</title>", encoding="utf-8")
    buttons = [f'button "{name}"' for name in ("Form", "Button", "Script", "Loose", "Sent")]
    shown = await seen(task, *(line for name in ['link "Link"', *buttons] for line in (f"click {name}", "goto")))
    assert [(outline.title, outline.notes) for outline in shown] == [("Two", ()), ("Small", ())] * 6
    (framed,) = await seen(task, 'click button "Frame"')
    assert (framed.title, framed.notes) == ("Small", ())


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ('link "Link"', "Control+Enter"),
        ('link "Link"', "Shift+Enter"),
        ('link "Link"', "Meta+Enter"),
        ('button "Form"', "Shift+Enter"),
    ],
)
async def test_keys_that_ask_for_another_tab_open_none_and_are_told(tmp_path: Path, place: str, keys: str) -> None:
    task = served_task(tmp_path, TABS)
    (tmp_path / "two.html").write_text("<title>Two</title>", encoding="utf-8")
    (shown,) = await seen(task, f'key {place}: "{keys}"')
    assert shown.title == "Small"
    assert shown.notes == ("Control, Shift and Meta ask for another tab or window, and none was opened.",)


@pytest.mark.parametrize("wait", ["", ", 0", ", -5", ", 'x'"])
async def test_what_is_repeated_after_no_time_is_done_a_thousand_times_in_a_second(tmp_path: Path, wait: str) -> None:
    body = f"<p id=p>0</p><script>setInterval((by) => (p.textContent -= -by){wait or ', undefined'}, 1)</script>"
    first, second = await seen(app_task(tmp_path, body), "goto", 'scroll: "down"')
    assert int(second.lines[0]) - int(first.lines[0]) == 1000


ASKING = """<p role="status" id="said"></p><script>
const tell = (text) => (said.textContent = text);
const ask = (url, later = true) => { const asked = new XMLHttpRequest(); asked.open("GET", url, later); return asked; };
const tried = (act) => { try { act(); } catch (error) { tell(error.name); } };
</script>
<button onclick="tried(() => ask('http://other.example/', false).send())">Refused</button>
<button onclick="tried(() => new XMLHttpRequest().send())">Unopened</button>
<button onclick="const x = ask('/'); x.send(); x.open('GET', '/'); tell('again')">Again</button>
<button onclick="const x = ask('/'); x.onloadstart = () => x.abort(); x.send(); tell('given up')">Aborted</button>
<button onclick="const x = ask('/'); x.onload = () => tell(x.status); x.send(); tried(() => x.send())">Twice</button>
"""


async def test_requests_that_never_tell_their_end_keep_no_page_from_rest(tmp_path: Path) -> None:
    names = ("Refused", "Unopened", "Again", "Aborted", "Twice")
    shown = await seen(app_task(tmp_path, ASKING), *(f'click button "{name}"' for name in names))
    assert [said(outline) for outline in shown] == ["NetworkError", "InvalidStateError", "again", "given up", "200"]


async def test_each_document_has_chances_of_its_own(tmp_path: Path) -> None:
    drawn = await seen(app_task(tmp_path, SMALL), 'click button "Draw"', "goto index.html", 'click button "Draw"')
    assert len({line for outline in drawn for line in outline.lines if "-4" in line}) == 2


async def test_the_state_is_no_page_to_look_at(tmp_path: Path) -> None:
    _, looked = await seen(app_task(tmp_path, SMALL), 'click button "Finish"', "goto api/state")
    assert "done" not in looked.text
    assert "the state is no page" in looked.text

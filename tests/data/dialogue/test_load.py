"""Where scenarios come from, and what is said when they do not come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mnemotune.data import Scenario, ScenarioError, load_scenarios
from mnemotune.data.dialogue.generator import generate_scenarios
from mnemotune.data.dialogue.load import bundled_sets, held_out, load_folded, pinned
from mnemotune.data.dialogue.sizes import MOST_USERS, SIZES
from mnemotune.data.resources import resource
from mnemotune.optimizer.cli.data import generate_command

SAMPLE = Path(__file__).parents[4] / "shared" / "data" / "amemgym_sample.json"


@pytest.fixture
def rows(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [row | {"id": name} for name in ("ann", "bob", "cleo")]


def save(value: object, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def names(scenarios: list[Scenario]) -> list[str]:
    return [scenario.id for scenario in scenarios]


def refusal(source: str | Path, **options: Any) -> str:
    with pytest.raises(ScenarioError) as caught:
        load_scenarios(source, **options)
    return str(caught.value)


# Files and folders


def test_a_file_holds_a_list_of_users(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    path = save(rows, tmp_path / "users.json")
    assert load_scenarios(path) == [Scenario.parse(row) for row in rows]
    assert names(load_scenarios(str(path))) == ["ann", "bob", "cleo"]


def test_a_mark_of_the_byte_order_is_no_part_of_a_file(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text(json.dumps(rows), encoding="utf-8-sig")
    assert names(load_scenarios(path)) == ["ann", "bob", "cleo"]


def test_a_file_may_hold_one_user_alone(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    assert names(load_scenarios(save(rows[0], tmp_path / "ann.json"))) == ["ann"]


def test_a_folder_with_a_data_file_is_that_file(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    save(rows[:2], tmp_path / "data.json")
    save({"start_date": "2020-10-01"}, tmp_path / "config.json")
    assert names(load_scenarios(tmp_path)) == ["ann", "bob"]


def test_a_folder_without_a_data_file_is_all_its_json_files_by_name(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    save(rows[2], tmp_path / "a.json")
    save(rows[:2], tmp_path / "b.json")
    save("not read", tmp_path / "README.md")
    assert names(load_scenarios(tmp_path)) == ["cleo", "ann", "bob"]


def test_a_real_user_of_amemgyms_authors_loads() -> None:
    if not SAMPLE.is_file():
        pytest.skip(f"the real user of AMemGym's authors is not beside this checkout ({SAMPLE})")
    assert names(load_scenarios(SAMPLE)) == ["08575ecd"]
    assert names(load_scenarios(SAMPLE.parent, users=["08575ecd"])) == ["08575ecd"]


def test_texts_in_any_language_are_read_as_they_are(row: dict[str, Any], tmp_path: Path) -> None:
    row["periods"][0]["sessions"][0]["query"] = "Katze 猫 🐈 schläft"
    path = tmp_path / "users.json"
    path.write_text(json.dumps([row], ensure_ascii=False), encoding="utf-8")
    assert load_scenarios(path)[0].periods[0].sessions[0].query == "Katze 猫 🐈 schläft"


# Errors


def test_a_source_that_is_nowhere_is_refused_with_what_there_is() -> None:
    said = refusal("no/such/place")
    assert said.startswith("no/such/place: no such file, folder or bundled set; bundled: ")
    assert "base" in said
    assert "generated:USERS@SEED" in said


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}: holds neither data.json nor any other *.json file"


@pytest.mark.parametrize("text", ["", "{", "id: ann", "[1,"])
def test_a_file_that_is_not_json_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = save(text, tmp_path / "users.json")
    assert refusal(path).startswith(f"{path}: is not JSON: ")


@pytest.mark.parametrize("value", [[], 7, None, "ann"])
def test_a_file_without_users_is_refused_by_name(value: Any, tmp_path: Path) -> None:
    path = save(json.dumps(value), tmp_path / "users.json")
    assert refusal(path) == f"{path}: must be a list of users, as AMemGym's data.json, with at least one"


def test_a_file_that_is_not_text_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_bytes(b'[{"id": "\xff\xfe"}]')
    assert refusal(path).startswith(f"{path}: is not UTF-8 text ")


def test_a_file_that_is_nothing_but_brackets_is_refused(tmp_path: Path) -> None:
    path = save("[" * 100_000, tmp_path / "users.json")
    assert str(path) in refusal(path)


def test_each_wrong_row_is_named_by_file_user_period_and_field(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    rows[1] = json.loads(json.dumps(rows[1]))
    rows[1]["periods"][1]["period_end"] = None
    rows[1]["start_time"] = "soon"
    rows[2] = {"name": "no id"}
    path = save(rows, tmp_path / "users.json")
    lines = refusal(path).splitlines()
    assert all(line.startswith(f"{path}: user ") for line in lines)
    assert [line.split(": Input")[0] for line in lines if "bob" in line] == [
        f"{path}: user bob: start_time",
        f"{path}: user bob: period 1: period_end",
    ]
    assert f"{path}: user #2: id: Field required" in lines
    assert not any("user ann" in line for line in lines)


def test_a_wrong_file_of_a_folder_is_the_one_that_is_named(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    save(rows[:2], tmp_path / "a.json")
    wrong = save([], tmp_path / "b.json")
    assert refusal(tmp_path).startswith(f"{wrong}: ")


# A choice of users


def test_users_are_chosen_by_id_and_stay_in_the_order_of_the_data(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    path = save(rows, tmp_path / "users.json")
    assert names(load_scenarios(path, users=["cleo", "ann"])) == ["ann", "cleo"]
    assert names(load_scenarios(path, users=iter(["bob"]))) == ["bob"]
    assert load_scenarios(path, users=[]) == []


def test_a_user_that_is_not_there_is_refused_with_those_that_are(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    path = save(rows, tmp_path / "users.json")
    assert refusal(path, users=["zoe", "ann", "eve"]) == f"{path}: no user eve, zoe; there are ann, bob, cleo"


# Generated on the spot


def test_generated_users_are_those_of_the_generator() -> None:
    assert load_scenarios("generated:2@9") == generate_scenarios(users=2, seed=9)
    assert load_scenarios("generated:1") == generate_scenarios(users=1, seed=0)
    assert load_scenarios("generated:1@") == load_scenarios("generated:1@0")
    assert load_scenarios("generated:2@9:b") == generate_scenarios(users=2, seed=9, phrasing="b")


def test_the_words_of_sealed_users_are_a_source_of_their_own() -> None:
    assert held_out("generated:2@9") == "generated:2@9:b"
    assert held_out("generated:2") == "generated:2:b"
    assert held_out("generated:2@9:b") is None
    assert held_out("base") is None


@pytest.mark.parametrize(
    "source", ["generated:", "generated:0", "generated:-3", "generated:two", "generated:2@x", "generated:" + "9" * 5000]
)
def test_a_generation_that_makes_no_sense_is_refused_with_an_example(source: str) -> None:
    assert refusal(source) == (f"{source}: write generated:USERS or generated:USERS@SEED, for example generated:40@7")


def test_more_users_than_there_is_room_for_are_not_made() -> None:
    for count in (f"{MOST_USERS + 1}", "9" * 18):
        assert refusal(f"generated:{count}").endswith("at most 100,000 users are made on the spot")


def test_making_many_users_is_said_before_it_takes_its_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mnemotune.data.dialogue.load.MANY_USERS", 2)
    load_scenarios("generated:1@3")
    assert caplog.messages == []
    load_scenarios("generated:2@3")
    assert caplog.messages == ["generated:2@3: making 2 users, which takes a while"]
    caplog.clear()
    load_folded("generated:2@3")
    assert caplog.messages == [], "these are made when they are opened"


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "x" * 201])
def test_an_id_that_no_file_or_database_could_hold_is_refused(
    name: str, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    rows[0]["id"] = name
    assert ": id: String should " in refusal(save(rows, tmp_path / "data.json"))


def test_users_without_questions_are_refused_by_name(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    rows[0]["qas"] = []
    path = save(rows, tmp_path / "data.json")
    assert refusal(path) == f"{path}: users ann: qas: no question, so that nothing can be scored"


# The bundled set


def test_the_bundled_sets_all_load() -> None:
    assert bundled_sets() == sorted(SIZES)
    for name, size in SIZES.items():
        assert len(load_scenarios(name)) == size.users


@pytest.mark.parametrize("size", SIZES)
def test_a_bundled_set_is_what_the_command_writes_again_to_the_byte(size: str, tmp_path: Path) -> None:
    again = tmp_path / "again" / f"{size}.json"
    generate_command(out=again, size=size)
    assert again.read_bytes() == resource("data", "dialogue", "bundled", f"{size}.json").read_bytes()


def test_a_written_set_reads_back_to_the_same_users(tmp_path: Path) -> None:
    generate_command(out=tmp_path / "two.json", users=2, seed=5)
    assert load_scenarios(tmp_path / "two.json") == generate_scenarios(users=2, seed=5)


def test_a_file_of_a_bundled_sets_name_comes_first(
    rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(rows, tmp_path / "base")
    assert names(load_scenarios("base")) == ["ann", "bob", "cleo"]


# The Hugging Face hub


class Hub(ThreadingHTTPServer):
    """A hub with files by (dataset, revision, path); everything else is missing in the words of the real one."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _HubHandler)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _HubHandler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self._send(whole=True)

    def do_HEAD(self) -> None:
        self._send(whole=False)

    def _send(self, *, whole: bool) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        body = self.server.files.get(self.path)
        self.send_response(404 if body is None else 200)
        if body is None:
            self.send_header("X-Error-Code", "EntryNotFound" if "/main/" in self.path else "RevisionNotFound")
        else:
            self.send_header("X-Repo-Commit", "c" * 40)
            self.send_header("ETag", f'"{sha256(body).hexdigest()}"')
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if whole:
            self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join(10)


LOADER = """
import json, sys
from mnemotune.data import ScenarioError, load_scenarios

said = []
for source in sys.argv[1:]:
    try:
        said.append([scenario.id for scenario in load_scenarios(source)])
    except ScenarioError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def load_from_hub(*sources: str, home: Path, **environment: str) -> list[Any]:
    """Load in a process of its own, since the hub's client reads its settings when it is imported."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        environment.setdefault(name, "")
    done = subprocess.run(
        [sys.executable, "-c", LOADER, *sources],
        env=os.environ | {"HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: list[Any] = json.loads(done.stdout)
    return said


def test_a_dataset_of_the_hub_loads_by_name_by_revision_and_by_file(
    rows: list[dict[str, Any]], hub: Hub, tmp_path: Path
) -> None:
    there = "/datasets/AGI-Eval/AMemGym/resolve"
    hub.files = {
        f"{there}/main/v1.base/data.json": json.dumps(rows).encode(),
        f"{there}/old/v1.base/data.json": json.dumps(rows[:1]).encode(),
        f"{there}/main/v1.extra/data.json": json.dumps(rows[1:]).encode(),
    }
    sources = ["hf:AGI-Eval/AMemGym", "hf:AGI-Eval/AMemGym@old", "hf:AGI-Eval/AMemGym/v1.extra/data.json"]
    loaded = load_from_hub(sources[0], sources[2], home=tmp_path / "a", HF_ENDPOINT=hub.url)
    assert loaded == [["ann", "bob", "cleo"], ["bob", "cleo"]]
    assert load_from_hub(sources[1], home=tmp_path / "b", HF_ENDPOINT=hub.url) == [["ann"]]


def test_a_run_keeps_the_revision_that_it_loaded_wherever_the_hub_s_files_lie(
    rows: list[dict[str, Any]], hub: Hub, tmp_path: Path
) -> None:
    hub.files = {"/datasets/o/n/resolve/main/a/b.json": json.dumps(rows).encode()}
    script = "from mnemotune.data.dialogue.load import pinned; print(pinned('hf:o/n/a/b.json'))"
    there = {"HF_HOME": str(tmp_path / "snapshots" / "hf"), "HF_ENDPOINT": hub.url, "no_proxy": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | there, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"hf:o/n/a/b.json@{'c' * 40}\n"


def test_what_the_hub_does_not_have_is_refused_with_what_to_do(hub: Hub, tmp_path: Path) -> None:
    sources = ["hf:AGI-Eval/AMemGym", "hf:AGI-Eval/AMemGym@never", "hf:AGI-Eval/AMem Gym"]
    for source, said in zip(sources, load_from_hub(*sources, home=tmp_path, HF_ENDPOINT=hub.url), strict=True):
        assert said.startswith(f"{source}: could not be fetched (")
        assert said.endswith("check the network, the name and the revision, or download the file and pass its path")


def test_without_a_network_the_hub_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (said,) = load_from_hub("hf:AGI-Eval/AMemGym", home=tmp_path, HF_HUB_OFFLINE="1")
    assert said.startswith("hf:AGI-Eval/AMemGym: could not be fetched (")
    assert said.endswith("or download the file and pass its path")


@pytest.mark.parametrize("source", ["hf:", "hf:AMemGym", "hf:/AMemGym", "hf:AGI-Eval/"])
def test_a_dataset_without_owner_or_name_is_refused_with_an_example(source: str) -> None:
    assert refusal(source) == (
        f"{source}: write hf:OWNER/NAME, optionally with @REVISION, for example hf:AGI-Eval/AMemGym"
    )


def test_two_users_of_one_name_are_refused_wherever_they_come_from(tmp_path: Path) -> None:
    rows = [scenario.model_dump(mode="json") for scenario in load_scenarios("generated:1@1")]
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(ScenarioError, match="user-1-000 occur more than once"):
        load_scenarios(tmp_path)


PINNER = """
import logging, sys
from mnemotune.data.dialogue.load import load_scenarios, pinned

logging.basicConfig(format="%(message)s", stream=sys.stdout)
source = pinned(sys.argv[1])
print(source)
print(len(load_scenarios(source)))
"""


def test_a_dataset_without_a_revision_is_told_with_the_one_that_it_has_and_is_had_again_without_a_network(
    rows: list[dict[str, Any]], hub: Hub, tmp_path: Path
) -> None:
    hub.files = {"/datasets/AGI-Eval/AMemGym/resolve/main/v1.base/data.json": json.dumps(rows).encode()}
    environment = os.environ | {"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_TELEMETRY": "1", "HF_ENDPOINT": hub.url}
    whole = f"hf:AGI-Eval/AMemGym@{'c' * 40}"
    for source, more in (("hf:AGI-Eval/AMemGym", {}), (whole, {"HF_HUB_OFFLINE": "1"})):
        command = [sys.executable, "-c", PINNER, source]
        done = subprocess.run(command, env=environment | more, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-2:] == [whole, "3"]
        told = done.stdout.splitlines()[:-2]
        assert told == ([] if more else [f"hf:AGI-Eval/AMemGym is {whole} today"])


@pytest.mark.parametrize("source", ["base", "generated:2@1", "hf:AGI-Eval/AMemGym@v1"])
def test_what_always_gives_the_same_stays_as_it_is(source: str) -> None:
    assert pinned(source) == source


def test_users_asked_for_by_id_are_the_same_as_among_all_that_would_be_made() -> None:
    every = load_scenarios("generated:5@3")
    wanted = ["user-3-004", "user-3-001"]
    assert load_scenarios("generated:5@3", users=wanted) == [every[1], every[4]]
    assert "no user user-3-009; there are user-3-000, user-3-001" in refusal("generated:5@3", users=["user-3-009"])

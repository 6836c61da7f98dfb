"""``mnemotune data import``: own logs and questions become data that a policy is scored on and evolved with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from talks import LOCOMO, LONGMEMEVAL, written

Cli = Callable[..., Any]
THINGS = ("canoe", "violin", "ladder", "parrot", "lantern", "bicycle", "mosaic", "kettle", "anvil", "globe")


def own_logs(users: int) -> tuple[str, str]:
    """Write a chat of some users, each of whom tells where something is, and a question on each."""
    lines, questions = list[Any](), list[Any]()
    for number, thing in enumerate(THINGS[:users]):
        said = [f"My {thing} stands in room {number}.", "Which tea goes with cake?", "Tell me about glaciers."]
        for place, text in enumerate(said):
            about = {"user": f"user-{number}", "time": f"2026-03-0{place + 1}T10:00"}
            lines.append(about | {"id": f"{number}.{place}", "role": "user", "content": text})
            lines.append(about | {"id": f"{number}.{place}.r", "role": "assistant", "content": "I see."})
        evidence = [f"{number}.0"]
        questions.append({"question": f"Where is my {thing}?", "answer": f"room {number}", "evidence": evidence})
        questions.append({"question": f"Who sold me my {thing}?", "user": f"user-{number}"})
    written(Path("chat.jsonl"), lines)
    written(Path("questions.jsonl"), questions)
    return "chat.jsonl", "questions.jsonl"


def imported(cli: Cli, users: int, *more: str) -> Any:
    chat, questions = own_logs(users)
    return cli("data", "import", "--from", "chat", chat, "--questions", questions, "--out", "own.jsonl", *more)


def test_own_logs_are_imported_checked_and_scored(cli: Cli) -> None:
    done = imported(cli, 2)
    assert "12 messages in 6 sessions of 2 users, 4 questions, written to own.jsonl" in done.succeeded().err
    checked = cli("data", "check", "own.jsonl", "--track", "conversations").succeeded().out
    assert "user-0 (user-0): 3 sessions, 1 facts, 2 checks" in checked
    score = cli("evaluate", "rag", "--track", "conversations", "--data", "own.jsonl", "--json").succeeded().json
    assert (score["evidence_recall"], score["context_tokens"], score["groups"]) == (1.0, 1000, 2)
    assert set(score["extras"]["by_kind"]) == {"all", "abstention", "other"}
    shown = cli("evaluate", "rag", "--track", "conversations", "--data", "own.jsonl", "--no-window").succeeded().out
    (row,) = (line.split() for line in shown.splitlines() if line.lstrip().startswith("other"))
    assert (row[1], row[-3:]) == ("2", ["1.000", "[1.000,", "1.000]"])


def test_broken_lines_are_told_and_a_strict_import_stops_at_the_first(cli: Cli) -> None:
    chat, questions = own_logs(1)
    lines = Path(chat).read_text(encoding="utf-8")
    Path(chat).write_text("{\n" + lines, encoding="utf-8")
    command = ("data", "import", "--from", "chat", chat, "--questions", questions, "--out", "own.jsonl")
    done = cli(*command, "--json").succeeded()
    assert "left out: chat.jsonl: line 1: is not JSON" in done.err
    assert "1 broken lines were left out, and nothing else with them" in done.err
    assert (done.json["messages"], len(done.json["left_out"])) == (6, 1)
    assert "one user cannot be split: --by conversation" in done.err
    Path("own.jsonl").unlink()
    assert "chat.jsonl: line 1: is not JSON" in cli(*command, "--strict").refused()
    assert not Path("own.jsonl").exists()


@pytest.mark.parametrize(("form", "row"), [("locomo", LOCOMO), ("longmemeval", LONGMEMEVAL)])
def test_a_benchmarks_file_brings_its_own_questions(cli: Cli, form: str, row: Any) -> None:
    written(Path("rows.json"), [row])
    done = cli("data", "import", "--from", form, "rows.json", "--out", "out.jsonl", "--json").succeeded()
    assert (done.json["groups"], done.json["histories"]) == (1, 1)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--from", "mail", "chat.jsonl"), "mail is none of chat, locomo, longmemeval"),
        (("--from", "chat", "chat.jsonl"), "without any, nothing can be scored"),
        (("--from", "locomo", "chat.jsonl", "--questions", "questions.jsonl"), "questions and groups of its own"),
        (("--from", "locomo", "nothing.json"), "nothing.json: no such file"),
        (("--from", "chat", "chat.jsonl", "--questions", "q", "--by", "day"), "day is neither user nor conversation"),
    ],
)
def test_what_does_not_go_together_is_refused(cli: Cli, given: tuple[str, ...], why: str) -> None:
    own_logs(1)
    done = cli("data", "import", *given, "--out", "own.jsonl")
    assert (done.code, why in " ".join(done.err.replace("│", " ").split())) == (2, True)


def test_the_track_refuses_what_no_import_has_written(cli: Cli) -> None:
    own_logs(1)
    refusal = cli("data", "check", "chat.jsonl", "--track", "conversations").refused()
    assert "chat.jsonl: row 0: was not written by `data import`; `mnemotune data import --from" in refusal
    assert "no such file" in cli("evaluate", "rag", "--track", "conversations", "--data", "nothing").refused()


UNANSWERED = "track_options={judge: exact}"
"""The embedded model gives no answer exactly: it has no memory score, and can be evolved by evidence all the same."""


def test_a_policy_is_evolved_on_own_logs_with_the_shipped_config(cli: Cli) -> None:
    imported(cli, 10).succeeded()
    small = ("data=own.jsonl", "splits={train: 4, validation: 3, test: 3}", "search.generations=1")
    narrow = ("search.candidates=1", "search.broad_start=0", "search.proposers=[known]", "baselines=[window, rag]")
    sets = [
        part
        for value in (*small, *narrow, "tracking=none", "workers.runner=here", UNANSWERED)
        for part in ("--set", value)
    ]
    done = cli("evolve", "conversations.yaml", *sets, "--out", "run").succeeded()
    assert "evidence shown, evolved - seed: " in done.out
    assert ", the best baseline in that: " in done.out
    report = Path("run/report.html").read_text(encoding="utf-8")
    assert "topic abstention" in report
    assert "evidence that the seed policy shows" in report


def test_a_model_makes_questions_which_are_checked_and_can_be_looked_through(cli: Cli) -> None:
    chat, _ = own_logs(3)
    command = ("data", "import", "--from", "chat", chat, "--questions", "4", "--model", "embedded")
    done = cli(*command, "--out", "own.jsonl", "--json").succeeded()
    assert "4 questions with embedded: 36 calls at the very most" in done.err
    assert (done.json["kept"], done.json["questions"], done.json["groups"]) == (3, 3, 3)
    assert [dropped["group"] for dropped in done.json["dropped"]].count("user-0") == 2
    assert "dropped, user-0, session 1: the reply holds no JSON object" in done.err
    looked_through = ("--questions", "own.questions.jsonl", "--out", "two.jsonl")
    cli("data", "import", "--from", "chat", chat, *looked_through).succeeded()
    tasks = [Path(name).read_text(encoding="utf-8") for name in ("own.jsonl", "two.jsonl")]
    assert tasks[0] == tasks[1]


def test_made_questions_that_a_person_has_changed_are_kept(cli: Cli) -> None:
    chat, _ = own_logs(3)
    command = ("data", "import", "--from", "chat", chat, "--model", "embedded", "--out", "own.jsonl")
    cli(*command, "--questions", "2").succeeded()
    cli(*command, "--questions", "2").succeeded()
    file, tasks = Path("own.questions.jsonl"), Path("own.jsonl").read_bytes()
    changed = file.read_text(encoding="utf-8").replace("How does it go on", "Where")
    file.write_text(changed, encoding="utf-8")
    for wanted in ("2", "3"):
        done = cli(*command, "--questions", wanted)
        assert (done.code, "error: own.questions.jsonl: has other questions than were made now" in done.err) == (
            1,
            True,
        )
        assert "remove it, or write to another --out" in done.err
    assert (file.read_text(encoding="utf-8"), Path("own.jsonl").read_bytes()) == (changed, tasks)
    file.unlink()
    cli(*command, "--questions", "3").succeeded()


@pytest.mark.parametrize("out", ["chat.jsonl", "questions.jsonl", "../{here}/chat.jsonl", "linked.jsonl"])
def test_an_import_is_not_written_over_what_it_reads(cli: Cli, out: str) -> None:
    chat, questions = own_logs(1)
    Path("linked.jsonl").symlink_to(questions)
    before = Path(chat).read_bytes(), Path(questions).read_bytes()
    where = out.format(here=Path.cwd().name)
    done = cli("data", "import", "--from", "chat", chat, "--questions", questions, "--out", where)
    assert (done.code, "would be written over" in " ".join(done.err.replace("│", " ").split())) == (2, True)
    assert (Path(chat).read_bytes(), Path(questions).read_bytes()) == before
    assert Path("linked.jsonl").is_symlink()


def test_the_budget_of_a_generation_holds_for_questions(cli: Cli) -> None:
    chat, _ = own_logs(3)
    Path("small.yaml").write_text("model: embedded\ngeneration: {budget: {calls: 2}}\n", encoding="utf-8")
    command = ("data", "import", "--from", "chat", chat, "--questions", "3", "--config", "small.yaml")
    done = cli(*command, "--out", "o.jsonl")
    assert done.code == 1
    assert "error: the budget of 2 calls is spent" in done.err
    assert "the same command goes on from there" in done.err
    assert not Path("o.jsonl").exists()

"""``mnemotune data generate`` with a language model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from mnemotune.data import load_scenarios
from mnemotune.env.dialogue.generation.plan import GenerationPlan
from mnemotune.optimizer.cli import data

Cli = Callable[..., Any]

SMALL = {"questions": 3, "periods": 2, "changes_per_period": 2, "users": 2}
PEOPLE = [
    {"uuid": f"u{n}", "age": 30 + n, "occupation": "baker", "persona": f"Rosa Diaz bakes. She is number {n}."}
    for n in range(6)
]


@pytest.fixture
def small() -> Path:
    """A config for two users whose lives are short."""
    path = Path("small.yaml")
    path.write_text(yaml.safe_dump({"generation": SMALL}), encoding="utf-8")
    return path


@pytest.fixture
def remote(server: Any) -> Path:
    """The same on an endpoint behind which the embedded model sits."""
    path = Path("remote.yaml")
    endpoint = {"base_url": server.url, "attempts": 1}
    path.write_text(yaml.safe_dump({"endpoint": endpoint, "generation": SMALL}), encoding="utf-8")
    return path


def test_the_embedded_model_makes_users_from_beginning_to_end(cli: Cli) -> None:
    """In the proportions of v1.base; the upper bound is clearly above chance, so that memory matters."""
    done = cli("data", "generate", "--model", "embedded", "--users", "2", "--out", "x.json").succeeded()
    assert done.out == ""
    assert re.search(r"^2 users with embedded: about 270 calls when every reply is right the first time, ", done.err)
    assert "2 of 2 users written to x.json" in done.err
    assert cli("data", "check", "x.json").succeeded().out.splitlines()[-1] == "2 users, no errors"
    score = cli("evaluate", "awi", "--data", "x.json", "--json").succeeded().json
    assert score["ceiling"] > score["floor"] + 0.5
    for scenario in load_scenarios("x.json"):
        assert len(scenario.periods) == 11
        assert len(scenario.qas) == 10
        assert len(scenario.state_schema) == 20


def test_one_object_tells_all_for_scripts(cli: Cli, small: Path) -> None:
    told = cli("data", "generate", "--config", small, "--out", "x.json", "--json").succeeded().json
    assert told["users"] == ["person-0-000", "person-0-001"]
    assert (told["asked"], told["dropped"], told["model"], told["seed"]) == (2, [], "embedded", 0)
    assert (told["out"], told["parts"]) == ("x.json", "x.parts")
    assert 0 < told["calls"] <= told["most_calls"]
    assert told["tokens"].keys() == {"input", "output"}
    assert (told["cached"], told["cost_usd"]) == (0, 0)
    assert told["wall_s"] > 0


def test_the_same_seed_makes_the_same_bytes_and_another_other_users(cli: Cli, small: Path) -> None:
    for name, seed in (("one", 5), ("two", 5), ("three", 6)):
        cli("data", "generate", "--config", small, "--seed", seed, "--out", f"{name}.json").succeeded()
    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()
    assert Path("one.json").read_bytes() != Path("three.json").read_bytes()


def test_a_process_of_its_own_makes_the_same_bytes(cli: Cli, start: Any, small: Path) -> None:
    cli("data", "generate", "--config", small, "--out", "here.json").succeeded()
    assert start("data", "generate", "--config", str(small), "--out", "there.json").wait(60) == 0
    assert Path("here.json").read_bytes() == Path("there.json").read_bytes()


def test_the_library_is_used_unless_a_model_is_named(cli: Cli) -> None:
    cli("data", "generate", "--users", "1", "--out", "x.json").succeeded()
    assert load_scenarios("x.json") == load_scenarios("generated:1@0")
    done = cli("data", "generate", "--users", "1", "--out", "y.json", "--json")
    assert done.code == 2
    assert "--model" in done.err


def test_an_endpoint_is_asked_with_the_role_and_nothing_is_paid_twice(cli: Cli, remote: Path, server: Any) -> None:
    command = ("data", "generate", "--model", "openai:tiny", "--config", remote, "--out", "x.json", "--json")
    first = cli(*command).succeeded().json
    assert {headers["x-mnemotune-role"] for headers, _ in server.asked} == {"generate"}
    assert {body["max_tokens"] for _, body in server.asked} == {8192}
    assert first["calls"] == len(server.asked)
    assert first["cost_usd"] is None
    for path in Path("x.parts").glob("*/*.json"):
        path.unlink()
    again = cli(*command).succeeded().json
    assert again["cached"] == again["calls"] == first["calls"] == len(server.asked)


def test_a_larger_bound_on_replies_asks_anew(cli: Cli, remote: Path, server: Any) -> None:
    """A reply that was cut must not come back from the cache."""
    config = yaml.safe_load(remote.read_text(encoding="utf-8"))
    command = ("data", "generate", "--model", "openai:tiny", "--config", remote, "--out", "x.json", "--json")
    for bound in (9000, 9001):
        config["endpoint"]["max_tokens"] = bound
        remote.write_text(yaml.safe_dump(config), encoding="utf-8")
        assert cli(*command).succeeded().json["cached"] == 0
        for path in Path("x.parts").glob("*/*.json"):
            path.unlink()
    assert {body["max_tokens"] for _, body in server.asked} == {9000, 9001}


def test_a_budget_stops_the_run_and_a_larger_one_goes_on(cli: Cli, small: Path, remote: Path, server: Any) -> None:
    cli("data", "generate", "--config", small, "--out", "whole.json").succeeded()
    config = yaml.safe_load(remote.read_text(encoding="utf-8"))
    command = ("data", "generate", "--model", "openai:tiny", "--config", remote, "--out", "x.json")
    config["generation"]["budget"] = {"calls": 20}
    remote.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = cli(*command)
    assert done.code == 1
    assert "the budget of 20 calls is spent; 0 of 2 users are finished" in done.err
    assert "x.parts" in done.err
    assert len(server.asked) <= 20
    assert not Path("x.json").exists()
    config["generation"]["budget"] = {"calls": 2000}
    remote.write_text(yaml.safe_dump(config), encoding="utf-8")
    cli(*command).succeeded()
    assert Path("x.json").read_bytes() == Path("whole.json").read_bytes()


def test_small_budgets_come_to_the_same_end_and_pay_for_nothing_twice(
    cli: Cli, small: Path, remote: Path, server: Any
) -> None:
    """Fewer calls than may be under way at once: what is under way when the budget is used up is kept."""
    whole = cli("data", "generate", "--config", small, "--out", "whole.json", "--json").succeeded().json
    config = yaml.safe_load(remote.read_text(encoding="utf-8"))
    config["generation"]["budget"] = {"calls": 10}
    remote.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = ("data", "generate", "--model", "openai:tiny", "--config", remote, "--out", "x.json")
    runs = 1
    while cli(*command).code:
        runs += 1
        assert len(server.asked) <= 10 * runs
    assert Path("x.json").read_bytes() == Path("whole.json").read_bytes()
    assert len(server.asked) == whole["calls"]
    assert runs == -(-whole["calls"] // 10)


def test_a_killed_run_goes_on_to_the_same_file(cli: Cli, start: Any, small: Path, remote: Path, server: Any) -> None:
    cli("data", "generate", "--config", small, "--out", "whole.json").succeeded()
    command = ("data", "generate", "--model", "openai:tiny", "--config", str(remote), "--out", "x.json")
    running = start(*command)
    while running.poll() is None and not list(Path("x.parts").glob("*/update-01.json")):
        pass
    running.kill()
    running.communicate()
    cli(*command).succeeded()
    assert Path("x.json").read_bytes() == Path("whole.json").read_bytes()


def test_an_endpoint_that_refuses_ends_the_run_with_one_message(cli: Cli, remote: Path, server: Any) -> None:
    server.refusal = 401
    done = cli("data", "generate", "--model", "openai:tiny", "--config", remote, "--out", "x.json")
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "0 of 2 users are finished" in done.err
    assert "the same command goes on" in done.err


def test_dropped_users_are_told_and_the_others_written(cli: Cli, small: Path) -> None:
    config = {"generation": {**SMALL, "attempts": 1, "texts": {"initial_state": "{profile} {schema}?"}}}
    small.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = cli("data", "generate", "--config", small, "--out", "x.json", "--json")
    assert done.code == 1
    told = json.loads(done.out)
    assert [(one["user"], one["stage"]) for one in told["dropped"]] == [
        ("person-0-000", "initial"),
        ("person-0-001", "initial"),
    ]
    assert "user person-0-000 dropped at initial: the only reply cannot be used: " in done.err
    assert "0 of 2 users, x.json is not written" in done.err
    assert not Path("x.json").exists()
    assert len(json.loads(Path("x.parts/dropped.json").read_text(encoding="utf-8"))) == 2


def test_a_few_users_are_written_though_others_are_dropped(cli: Cli, small: Path) -> None:
    people = [PEOPLE[0], {**PEOPLE[1], "persona": "one sentence without an end " * 300}]
    Path("people.json").write_text(json.dumps(people), encoding="utf-8")
    config = {"generation": {**SMALL, "attempts": 1}}
    small.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = cli("data", "generate", "--config", small, "--personas", "people.json", "--out", "x.json", "--json")
    assert done.code == 1
    told = json.loads(done.out)
    assert told["users"] == ["u0"]
    assert [(one["user"], one["stage"]) for one in told["dropped"]] == [("u1", "profile")]
    assert [scenario.id for scenario in load_scenarios("x.json")] == ["u0"]
    assert "1 of 2 users written to x.json" in done.err
    assert "the same command tries the dropped users again" in done.err


def test_people_come_from_a_file(cli: Cli, small: Path) -> None:
    Path("people.json").write_text(json.dumps(PEOPLE), encoding="utf-8")
    command = ("data", "generate", "--config", small, "--personas", "people.json", "--out", "x.json")
    cli(*command, "--users", "3").succeeded()
    made = load_scenarios("x.json")
    assert {scenario.id for scenario in made} <= {row["uuid"] for row in PEOPLE}
    for scenario in made:
        assert "occupation: baker" in scenario.user_profile.formatted_str
        assert "name: Rosa Diaz" in scenario.user_profile.formatted_str
    assert "has 6 personas; 9 users are wanted" in cli(*command[:-1], "y.json", "--users", "9").err


def test_amemgyms_env_config_is_a_plan(cli: Cli) -> None:
    env = {"num_rounds_init": 1, "num_rounds_update": 2, "num_user_profiles": 1, "num_questions": 2, "num_periods": 1}
    env |= {"num_changes_per_period": 1, "start_date": "2021-01-31", "num_months_per_period": 1, "lang": "en"}
    Path("env.json").write_text(json.dumps(env), encoding="utf-8")
    cli("data", "generate", "--config", "env.json", "--out", "x.json").succeeded()
    (made,) = load_scenarios("x.json")
    assert [str(period.period_end) for period in made.periods] == ["2021-01-31", "2021-02-28"]


def test_other_settings_in_the_same_folder_are_refused(cli: Cli, small: Path) -> None:
    cli("data", "generate", "--config", small, "--out", "x.json").succeeded()
    told = cli("data", "generate", "--config", small, "--out", "x.json", "--seed", "1")
    assert told.code == 1
    assert "seed was 0 and is 1" in told.err
    cli("data", "generate", "--config", small, "--out", "x.json", "--seed", "1", "--parts", "elsewhere").succeeded()
    assert Path("elsewhere/plan.json").is_file()


def test_a_folder_cannot_be_the_file(cli: Cli, small: Path) -> None:
    Path("x.json").mkdir()
    assert "is a folder" in cli("data", "generate", "--config", small, "--out", "x.json").err


def test_the_defaults_that_the_help_tells_are_the_plan_s() -> None:
    assert (GenerationPlan().users, GenerationPlan().seed) == (data.USERS, data.SEED)

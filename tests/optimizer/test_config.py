"""The config of a run.

1. What a config says is what ``dump_config`` writes down: both read back to equal values.
2. Whatever is wrong is named by file and key, and is a ConfigError.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.env.dialogue.generation.plan import GenerationPlan
from mnemotune.env.dialogue.generation.texts import GenerationTexts
from mnemotune.optimizer.config import (
    Config,
    ConfigError,
    dump_config,
    load_config,
    parse_config,
)
from mnemotune.optimizer.stores import default_uri
from mnemotune.policies.files import RetiredField, load_policy
from mnemotune.policies.space import Space

BUNDLED = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.yaml"))

LEAST = """
data: base
splits: {train: 1, validation: 2, test: 2}
seed_policy: awi
"""

EVERYTHING = """
track: letters
track_options: {longest: 6}
data: folder/with data.json
test_data: folder/real.json
splits: {train: 3, validation: 4, test: 5, seed: 6}
context_tokens: 1000
model: openai:org/some-model:7b
user_model: embedded
proposer_model: openai:thinker
embedder: openai:small-vectors
embedder_endpoint: {base_url: "http://127.0.0.1:8001/v1"}
endpoint:
  quote_server: false
  base_url: http://127.0.0.1:8000/v1
  concurrency: 3
  requests_per_minute: 90
  timeout_seconds: 12.5
  attempts: 2
  longest_outage_seconds: 60
  max_tokens: {reply: 512}
  structured: json_object
  max_tokens_field: max_completion_tokens
  extra_body: {reasoning_effort: low}
  prices: {large: {input: 0.15, output: 0.6, date: 2026-10-01}}
  cache: false
rounds: {init: 2, update: 3}
compat: [strict_replies]
templates: {answer: "Choose for me.\\n{query}\\n{choices}"}
seed_policy:
  write: {mode: facts, roles: user}
  update_every: 2
  buffer_size: 4
  store: external
  top_k: 30
  read: {order: relevance}
  prompts: {write: "Notez, s'il vous plaît : {conversation} — {ceci} n'est pas une case."}
baselines: [native, my/policy.yaml]
search:
  seed: 7
  generations: 2
  candidates: 5
  prompts: false
  numbers: true
  failures_shown: 3
  longest_prompt: 900
  race_block: 2
  space: {modes: [facts, profile], stores: [external], update_every: [2, 4], buffer_size: [0, 8], top_k: [5, 10]}
  budget: {calls: 1000, tokens: 2000, usd: 1.5, seconds: 60}
generation:
  users: 3
  start_date: 2021-01-31
  exclude_ids: [a, b]
  texts: {repair: "Mend it: {problems}"}
  budget: {calls: 100}
workers: {runner: ray, count: 4, address: "10.0.0.5:6379"}
storage: {url: "postgresql://db/mine", study: mine}
tracking: {uri: "sqlite:///elsewhere.db", experiment: mine}
"""


def parse(text: str, *overrides: str) -> Config:
    return parse_config(text, where="my.yaml", overrides=overrides)


def problem(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, *overrides)
    return str(caught.value)


def test_there_is_a_bundled_config() -> None:
    assert "quickstart.yaml" in [path.name for path in BUNDLED]


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_a_bundled_config_parses_and_reads_back_equal(path: Path) -> None:
    config = load_config(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_config(dump_config(config), where="again") == config


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_a_bundled_config_is_found_by_its_name_from_any_folder(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(f"configs/{path.name}") == load_config(path)


def test_a_file_of_the_user_comes_before_the_bundled_one_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quickstart.yaml").write_text(LEAST, encoding="utf-8")
    assert load_config("quickstart.yaml") == parse(LEAST)


def test_a_config_that_says_everything_reads_back_equal_and_nothing_in_it_is_a_default() -> None:
    config, least = parse(EVERYTHING), parse(LEAST)
    assert parse(dump_config(config)) == config
    told = config.model_dump()
    of_other_packages = {"track", "track_options"}
    for name, value in least.model_dump(exclude=of_other_packages).items():
        assert told[name] != value, name
    for section in ("splits", "endpoint", "rounds", "tracking"):
        for name, value in least.model_dump()[section].items():
            assert told[section][name] != value, f"{section}.{name}"


def test_a_written_config_keeps_the_letters_of_every_language_readable() -> None:
    assert "plaît" in dump_config(parse(EVERYTHING))


def test_amemgyms_env_config_gives_the_rounds_and_the_plan_of_new_users() -> None:
    """Models are those that our own config names."""
    env = "{num_rounds_init: 2, num_rounds_update: 5, seed: 42, llm_config_low_temp: {llm_model: gpt-4.1}}"
    needed = {"data": "base", "splits": {"train": 1, "validation": 2, "test": 2}, "seed_policy": "native"}
    config = parse_config(env, where="v1.extra.json", defaults=needed)
    assert (config.rounds.init, config.rounds.update) == (2, 5)
    assert config.generation is not None
    assert config.generation.plan == GenerationPlan(seed=42)
    assert config.model == "embedded"


def test_new_users_have_numbers_texts_and_a_budget(tmp_path: Path) -> None:
    file = tmp_path / "texts.yaml"
    file.write_text("{repair: 'Mend it: {problems}'}", encoding="utf-8")
    section = parse(LEAST, f"generation.texts={file}", "generation.questions=3", "generation.budget.usd=2").generation
    assert section is not None
    assert section.plan == GenerationPlan(questions=3)
    assert section.texts.repair == "Mend it: {problems}"
    assert section.texts.events == GenerationTexts.bundled().events
    assert section.budget.usd == 2
    assert parse(LEAST).generation is None, "a search needs none, and does not write one down"


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("generation.questions=0", "generation.questions"),
        ("generation.min_variants=10", "generation: min_variants: 10 answers need"),
        ("generation.texts={events: none}", "events: lacks {updates}"),
        ("generation.texts=none.yaml", "none.yaml: No such file"),
        ("generation.quetsions=3", "generation.quetsions"),
    ],
)
def test_a_generation_that_cannot_be_is_refused_by_key(override: str, told: str) -> None:
    assert told in problem(LEAST, override)


def test_policies_start_from_the_configs_texts(tmp_path: Path) -> None:
    file = tmp_path / "texts.yaml"
    file.write_text("{reply_context: 'R {memories}', write_profile: 'W {memories} {conversation}'}", encoding="utf-8")
    config = parse(LEAST, f"templates={file}", "seed_policy=awi", "seed_policy.update_every=6")
    assert config.seed_policy.prompts.reply == "R {memories}"
    assert config.seed_policy.prompts.write == "W {memories} {conversation}"
    assert config.seed_policy.update_every == 6
    file.unlink()
    assert parse(dump_config(config)) == config, "a run folder needs no other file"


@given(st.text(min_size=1), st.text())
def test_any_prompt_reads_back_equal(before: str, after: str) -> None:
    policy = {
        "write": {"mode": "profile"},
        "update_every": 4,
        "buffer_size": 4,
        "store": "context",
        "prompts": {"write": f"{before}{{memories}}{{conversation}}{after}"},
    }
    values = yaml.safe_load(LEAST) | {"seed_policy": policy}
    config = Config.model_validate(values)
    assert parse(dump_config(config)) == config


@pytest.mark.parametrize("preset", ["native", "rag", "awe", "awi"])
def test_the_seed_policy_can_be_a_preset(preset: str) -> None:
    assert parse(LEAST, f"seed_policy={preset}").seed_policy == load_policy(preset)


def test_numbers_of_a_preset_can_be_overridden() -> None:
    policy = parse(LEAST, "seed_policy=awi", "seed_policy.update_every=8").seed_policy
    assert policy.update_every == 8
    assert policy.prompts == load_policy("awi").prompts


def test_the_seed_policy_can_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("{write: {mode: none}, update_every: 2, buffer_size: 6}", encoding="utf-8")
    assert parse(LEAST, f"seed_policy={file}").seed_policy.label == "none(2,6)"


@pytest.mark.parametrize("model", ["embedded", "openai:gpt-4.1-mini", "openai:org/model:7b"])
@pytest.mark.parametrize("role", ["model", "user_model", "proposer_model"])
def test_a_model_is_embedded_or_openai_with_a_name(role: str, model: str) -> None:
    assert getattr(parse(LEAST, f"{role}={model}"), role) == model


@pytest.mark.parametrize("model", ["gpt-4.1-mini", "openai", "'openai:'", "'openai: '", "''", "Embedded", "3"])
@pytest.mark.parametrize("role", ["model", "user_model", "proposer_model"])
def test_any_other_model_is_refused_by_key(role: str, model: str) -> None:
    assert problem(LEAST, f"{role}={model}").startswith(f"my.yaml: {role}: ")


@pytest.mark.parametrize(
    ("model", "embedder"),
    [("embedded", "lexical:1024"), ("openai:small", "lexical:1024"), ("openai:a:b", "lexical:1024")],
)
@pytest.mark.parametrize("given", [[], ["embedder=null"]])
def test_memories_are_not_searched_with_few_dimensions(model: str, embedder: str, given: list[str]) -> None:
    assert parse(LEAST, f"model={model}", *given).embedder == embedder


@pytest.mark.parametrize("embedder", ["lexical:64", "openai:org/small:1", "fastembed:org/tiny", "fastembed:/a/folder"])
def test_an_embedder_can_be_named(embedder: str) -> None:
    assert parse(LEAST, f"embedder={embedder}").embedder == embedder


@pytest.mark.parametrize(
    "embedder", ["lexical", "lexical:0", "'lexical:'", "'openai:'", "fastembed", "glove", "''", "3"]
)
def test_any_other_embedder_is_refused_by_key(embedder: str) -> None:
    told = problem(LEAST, f"embedder={embedder}")
    assert told.startswith("my.yaml: embedder: ")
    assert embedder == "3" or "`fastembed:NAME`, `lexical:DIMENSIONS` or `openai:NAME`" in told


def test_an_embedder_is_spoken_to_like_the_models_but_for_what_is_added_to_their_requests() -> None:
    shared = parse(LEAST, "endpoint.base_url=http://a/v1", "endpoint.extra_body={reasoning_effort: low}")
    assert (shared.reach_of_embedder.base_url, shared.reach_of_embedder.extra_body) == ("http://a/v1", {})
    own = parse(LEAST, "endpoint.base_url=http://a/v1", "embedder_endpoint={base_url: http://b/v1, attempts: 2}")
    assert (own.reach_of_embedder.base_url, own.reach_of_embedder.attempts) == ("http://b/v1", 2)
    assert (own.endpoint.base_url, own.endpoint.attempts) == ("http://a/v1", 8)


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("serach={}", "serach"),
        ("splits.tset=3", "splits.tset"),
        ("search.budget.cals=3", "search.budget.cals"),
        ("search.space.topk=[1, 2]", "search.space.topk"),
        ("endpoint.prices.m.currency=EUR", "endpoint.prices.m.currency"),
        ("seed_policy.temperature=1", "seed_policy.temperature"),
        ("tracking.url=x", "tracking.url"),
    ],
)
def test_an_unknown_key_is_named_with_its_file(override: str, key: str) -> None:
    inline = LEAST.replace("awi", "{write: {mode: none}}")
    assert f"my.yaml: {key}: " in problem(inline, override, "endpoint.prices.m.date=2026-10-01")


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("data=3", "data"),
        ("splits=7", "splits"),
        ("splits.train=0", "splits.train"),
        ("splits.validation=1", "splits.validation"),
        ("splits.test=1", "splits.test"),
        ("splits.test=2.5", "splits.test"),
        ("search.generations=many", "search.generations"),
        ("search.candidates=null", "search.candidates"),
        ("search.prompts=perhaps", "search.prompts"),
        ("search.budget.calls=-1", "search.budget.calls"),
        ("search.budget.usd=0", "search.budget.usd"),
        ("search.space.modes=[facts, feelings]", "search.space.modes.1"),
        ("search.space.update_every=[1, 2, 3]", "search.space.update_every"),
        ("search.space.top_k=[9, 3]", "search.space.top_k"),
        ("endpoint.timeout_seconds=0", "endpoint.timeout_seconds"),
        ("endpoint.prices.m={input: 1, output: 2}", "endpoint.prices.m.date"),
        ("endpoint.prices.m={input: -1, output: 2, date: 2026-10-01}", "endpoint.prices.m.input"),
        ("endpoint.prices={input: 1, output: 2, date: 2026-10-01}", "endpoint.prices.input"),
        ("endpoint.extra_body={max_tokens: 9000}", "endpoint.extra_body"),
        ("rounds.init=0", "rounds.init"),
        ("baselines=native", "baselines"),
        ("seed_policy={write: {mode: dreams}}", "seed_policy.write.mode"),
        ("seed_policy={write: {mode: none}, top_k: 3}", "seed_policy"),
        ("seed_policy=nobody", "seed_policy"),
        ("seed_policy=3", "seed_policy"),
    ],
)
def test_a_wrong_value_is_named_with_its_file_and_key(override: str, key: str) -> None:
    assert f"my.yaml: {key}: " in problem(LEAST, override)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("search.proposers=[]", ["search.proposers: needs at least 1, has 0"]),
        ("search.slots=[]", ["search.slots: needs at least 1, has 0"]),
        ("search.space.modes=[]", ["search.space.modes: needs at least 1, has 0"]),
        ("search.space.stores=[]", ["search.space.stores: needs at least 1, has 0"]),
        ("search.space.stores=[context, context]", ["search.space.stores: name each once"]),
        ("splits=3", ["splits: needs names with values, such as {name: value}"]),
        ("search.proposers=[bayes]", ["search.proposers.0: there is no proposer 'bayes'"]),
        (
            "search.proposers=[bayes, gp, grid]",
            ["search.proposers.0: there is no proposer 'bayes'", "search.proposers.2: there is no proposer 'grid'"],
        ),
    ],
)
def test_a_list_is_said_to_be_too_short_only_where_it_is(override: str, told: list[str]) -> None:
    lines = problem(LEAST, override).splitlines()
    assert len(lines) == len(told)
    assert all(line.startswith(f"my.yaml: {start}") for line, start in zip(lines, told, strict=True))


@pytest.mark.parametrize("objective", ["score-per-token", "score-per-dollar", "score-per-call"])
def test_off_policy_nothing_but_score_can_be_asked_for_since_no_reply_is_paid_for(objective: str) -> None:
    told = problem(LEAST, "search.off_policy=true", f"search.objective={objective}")
    assert told.startswith("my.yaml: search: objective: off_policy, nobody replies")
    assert parse(LEAST, "search.off_policy=true").search.objective == "score"
    assert parse(LEAST, f"search.objective={objective}").search.objective == objective


def test_bounds_that_cross_are_told() -> None:
    assert "top_k: the lower bound 9 is above the upper bound 3" in problem(LEAST, "search.space.top_k=[9, 3]")


def test_a_seed_policy_without_a_slot_is_refused_with_the_slot() -> None:
    policy = "{write: {mode: verbatim}, update_every: 2, buffer_size: 4, store: context, prompts: {reply: 'Hi.'}}"
    assert "prompts.reply: lacks {memories}" in problem(LEAST, f"seed_policy={policy}")


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ("prompts: {answer: 'Choose! {query} {choices}'}", "prompts.answer"),
        ("read: {budget_tokens: 400}", "read.budget_tokens"),
    ],
)
def test_a_seed_policy_with_a_field_of_an_older_version_is_the_one_without_it_and_a_warning(
    part: str, field: str
) -> None:
    rag = "write: {mode: verbatim}, update_every: 2, buffer_size: 4, store: external, top_k: 30"
    with pytest.warns(RetiredField, match=rf"^seed_policy: {field} is left out: ") as caught:
        config = parse(LEAST, f"seed_policy={{{rag}, {part}}}")
    assert len(caught) == 1
    assert config.seed_policy == load_policy("rag")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse(dump_config(config)) == config, "what is written down has it no more"


def test_a_seed_policy_with_a_field_that_never_was_is_refused() -> None:
    assert "my.yaml: seed_policy.prompts.answers: " in problem(
        LEAST, "seed_policy={write: {mode: none}, prompts: {answers: x}}"
    )


@pytest.mark.parametrize(("preset", "said"), [("awi_complete", "rewrites its own prompts"), ("awi_oracle", "oracle")])
def test_a_search_does_not_start_from_a_policy_that_is_a_baseline_by_nature(preset: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config("quickstart.yaml", overrides=[f"seed_policy={preset}"])


def test_without_a_search_a_policy_that_rewrites_its_own_prompts_is_a_seed_policy_like_any_other() -> None:
    config = load_config("quickstart.yaml", overrides=["seed_policy=awi_complete", "search.generations=0"])
    assert config.seed_policy.evolution is not None


def test_every_problem_gets_its_own_line() -> None:
    lines = problem(LEAST, "splits.train=0", "serach=1").splitlines()
    assert sorted(line.split(": ")[1] for line in lines) == ["serach", "splits.train"]


@pytest.mark.parametrize("missing", ["data", "splits", "seed_policy"])
def test_what_has_no_default_must_be_given(missing: str) -> None:
    values = yaml.safe_load(LEAST)
    del values[missing]
    assert f"my.yaml: {missing}: " in problem(yaml.safe_dump(values))


@pytest.mark.parametrize("text", ["", "- a\n- b", "just text", "3"])
def test_a_config_that_is_no_mapping_is_refused(text: str) -> None:
    assert problem(text) == "my.yaml: must be a mapping of keys to values"


def test_a_config_that_is_no_yaml_is_refused_with_the_place() -> None:
    told = problem("data: base\nsplits: {train: [")
    assert told.startswith("my.yaml: is not YAML: ")
    assert "line 2" in told


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such file"):
        load_config(tmp_path / "nowhere.yaml")


def test_the_named_file_is_the_one_that_was_read(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(LEAST + "serach: 1\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert str(caught.value).startswith(f"{file}: serach: ")


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("search.budget.calls=20000", "search.budget.calls", 20000),
        ("search.budget.calls=null", "search.budget.calls", None),
        ("search.budget.calls=", "search.budget.calls", None),
        ("search.numbers=no", "search.numbers", False),
        ("baselines=[native, awi]", "baselines", ("native", "awi")),
        ("baselines=[]", "baselines", ()),
        ("search.space={top_k: [3, 9]}", "search.space", Space.within({"top_k": (3, 9)})),
        ("search.space.roles=[user]", "search.space", Space.within({"roles": ["user"]})),
        ("endpoint.timeout_seconds=1.5", "endpoint.timeout_seconds", 1.5),
        ("endpoint.base_url=http://h:1/v1?a=b", "endpoint.base_url", "http://h:1/v1?a=b"),
        ("endpoint={concurrency: 2}", "endpoint.concurrency", 2),
        ("tracking.experiment='17'", "tracking.experiment", "17"),
    ],
)
def test_an_override_has_dots_in_its_key_and_yaml_in_its_value(override: str, path: str, value: object) -> None:
    found: Any = parse(LEAST, override)
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value


def test_an_override_leaves_its_neighbours_alone() -> None:
    config = parse(EVERYTHING, "search.budget.calls=9", "seed_policy.top_k=7")
    want = yaml.safe_load(EVERYTHING)
    want["search"]["budget"]["calls"], want["seed_policy"]["top_k"] = 9, 7
    assert config == Config.model_validate(want)


def test_the_last_override_of_a_key_counts() -> None:
    assert parse(LEAST, "search.seed=1", "search.seed=2").search.seed == 2


@pytest.mark.parametrize("override", ["search.seed", "=3", "", "search.seed:3"])
def test_an_override_that_is_no_assignment_says_how_to_write_one(override: str) -> None:
    told = problem(LEAST, override)
    assert told.startswith(f"--set {override}: write key=value")


def test_an_override_whose_value_is_no_yaml_is_told() -> None:
    assert problem(LEAST, "baselines=[native").startswith("--set baselines=[native: the value is not YAML")


def test_runs_in_one_folder_share_one_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_uri(Path("runs")) == default_uri(tmp_path / "runs") == f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}"


def test_what_is_nested_too_deeply_is_refused_on_one_line() -> None:
    assert problem("[" * 9000) == "my.yaml: is not YAML: it is nested too deeply"
    assert problem(LEAST, "a=" + "[" * 9000).endswith("...: the value is not YAML: it is nested too deeply")
    assert problem(LEAST, "a." * 9000 + "b=1").endswith("...: the key is nested too deeply")

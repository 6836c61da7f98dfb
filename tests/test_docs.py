"""README and docs: their links lead somewhere, their commands exist, their programs and settings are read."""

from __future__ import annotations

import asyncio
import re
import runpy
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import mnemotune
from mnemotune.env.dialogue.compat import DEFECTS
from mnemotune.env.dialogue.generation.plan import GenerationPlan
from mnemotune.env.dialogue.generation.texts import GenerationTexts
from mnemotune.optimizer.cli.commands import COMMANDS, command_named
from mnemotune.optimizer.config import GenerationConfig, parse_config
from mnemotune.policies.files import dump_policy, load_policy, parse_policy, presets
from mnemotune.policies.lm import lexical
from mnemotune.policies.lm.embedded import instructions, writing
from mnemotune.policies.lm.embedded.reading import Reading
from mnemotune.policies.prompts import Templates

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *ROOT.glob("experiments/**/*.md"), *ROOT.glob("examples/*.md")]
)
HISTORY = ROOT / "CHANGELOG.md"


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(path), re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    """Return a page without its code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", read(path), flags=re.MULTILINE | re.DOTALL))


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings: words with dashes, a number behind those of before."""
    page = re.sub(r"^```.*?^```", "", read(path), flags=re.MULTILINE | re.DOTALL)
    seen: Counter[str] = Counter()
    slugs = set()
    for heading in re.findall(r"^#{1,6} (.+)$", page, re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        slugs.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return slugs


def links(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the file and the anchor of each link of a page that leads to this tree."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            yield (path.parent / file).resolve() if file else path, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    for file, anchor in links(page):
        assert file.exists(), f"{file} is not there"
        if anchor:
            assert anchor in anchors(file), f"{file.name} has no heading #{anchor}"


def test_the_index_names_every_page() -> None:
    named = {file for file, _ in links(DOCS / "index.md")}
    assert {page.name for page in DOCS.glob("*.md") if page.name != "index.md"} - {page.name for page in named} == set()


def test_the_readme_is_read_in_minutes() -> None:
    assert len(read(ROOT / "README.md").split()) < 1200


def commands() -> list[tuple[str, list[str]]]:
    """Return each command that a shell block of README, docs or examples gives to mnemotune, with its page."""
    shown = []
    for page in PAGES:
        if page == HISTORY:
            continue
        for line in "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "mnemotune" in words[:2]:
                shown.append((page.name, words[words.index("mnemotune") + 1 :]))
    return shown


def resolved(words: list[str]) -> tuple[str, Any, list[str]]:
    """Return the name of a command, the command itself, and the words after its name."""
    command, used = command_named(words[0]), 1
    if hasattr(command, "commands"):
        command, used = command.commands[words[1]], 2
    return " ".join(words[:used]), command, words[used:]


def test_every_command_shown_exists_with_the_options_that_it_is_given() -> None:
    shown = commands()
    assert len(shown) > 60
    for page, words in shown:
        name, command, rest = resolved(words)
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        given = set(re.findall(r"--[a-z][a-z-]*", " ".join(rest)))
        assert given <= known, f"{page}: {name} has no {given - known}"


def test_the_page_on_commands_names_every_preset() -> None:
    (item,) = re.findall(r"^- `POLICY` is(.*?)^- ", read(DOCS / "commands.md"), re.MULTILINE | re.DOTALL)
    assert sorted(re.findall(r"`([^`]+)`", item)) == presets()


def test_the_page_on_commands_shows_all_of_them_with_all_their_options() -> None:
    there = set()
    for name in COMMANDS:
        parts = getattr(command_named(name), "commands", None)
        there |= {f"{name} {part}" for part in parts} if parts else {name}
    shown: dict[str, list[str]] = {name: [] for name in there}
    for page, words in commands():
        if page == "commands.md":
            name, _, rest = resolved(words)
            shown[name] += re.findall(r"--[a-z][a-z-]*", " ".join(rest))
    for name, options in shown.items():
        _, command, _ = resolved(name.split())
        for parameter in command.params:
            names = {*parameter.opts, *parameter.secondary_opts}
            argument = not any(option.startswith("-") for option in names)
            assert argument or names & {"--help", "--show-completion", *options}, f"{name}: {names} is not shown"


def test_every_config_of_the_docs_has_keys_that_exist() -> None:
    """What is shown of a config, laid over the quick start's, is a config; other YAML is named here."""
    quickstart = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text(encoding="utf-8"))
    others = {"policies.md", "your_memory.md", "amemgym.md", "ablations.md", "generation.md", "your_proposer.md"}
    seen = 0
    for page in DOCS.glob("*.md"):
        for block in blocks(page, "yaml") if page.name not in others else ():
            given = yaml.safe_load(block)
            given["search"] = quickstart["search"] | given.get("search", {})
            parse_config(yaml.safe_dump(quickstart | given), where=page.name)
            seen += 1
    assert seen > 2


def test_the_page_on_configuration_is_what_the_models_say() -> None:
    assert runpy.run_path(str(DOCS / "config_reference.py"))["page"]() == read(DOCS / "configuration.md"), (
        "run `python docs/config_reference.py`"
    )


def test_the_page_on_the_api_names_every_public_name() -> None:
    named = re.findall(r"^\| `(\w+)` \|", read(DOCS / "api.md"), re.MULTILINE)
    assert sorted(named) == sorted(mnemotune.__all__)


def test_the_policy_of_the_docs_is_one() -> None:
    (policy,) = blocks(DOCS / "policies.md", "yaml")
    assert parse_policy(policy, where="policies.md").label == "facts+external(2,4,10)"


def test_the_program_of_the_readme_runs_with_the_embedded_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model and the file are replaced; everything else is the README's."""
    (program,) = blocks(ROOT / "README.md", "python")
    monkeypatch.chdir(tmp_path)
    Path("best_policy.yaml").write_text(dump_policy(load_policy("awi")), encoding="utf-8")
    program = program.replace('OpenAIModel("my-model", base_url="http://localhost:8000/v1")', "EmbeddedModel()")
    program = program.replace("import Assistant,", "import Assistant, EmbeddedModel,")
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - our own page
    assert names["assistant"].uses["reply"].calls == 1


def test_the_page_on_amemgym_tells_every_switch_and_every_text() -> None:
    page = read(DOCS / "amemgym.md")
    assert [name for name in (*DEFECTS, *Templates.slots()) if f"`{name}`" not in page] == []


def test_the_page_on_generation_tells_every_number_and_every_text_with_its_slots() -> None:
    (config,) = blocks(DOCS / "generation.md", "yaml")
    shown = yaml.safe_load(config)["generation"]
    assert shown.keys() == GenerationConfig.model_fields.keys()
    for name, value in GenerationPlan().model_dump().items():
        assert shown[name] == (list(value) if isinstance(value, tuple) else value), name
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", read(DOCS / "generation.md"), re.MULTILINE))
    for kind, slots in GenerationTexts.slots().items():
        required, _, optional = rows[kind].partition("[")
        assert tuple(re.findall(r"`(\w+)`", required)) == slots.required
        assert tuple(re.findall(r"`(\w+)`", optional)) == slots.optional


def test_the_page_on_the_embedded_model_tells_its_parameters() -> None:
    shown = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", read(DOCS / "embedded_model.md"), re.MULTILINE))
    modules = (instructions, lexical, writing)
    named = {name: value for module in modules for name, value in vars(module).items() if name in shown}
    assert {name: float(value) for name, value in shown.items()} == asdict(Reading()) | named
    assert shown.keys() >= asdict(Reading()).keys()


def test_the_programs_on_keeping_memories_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the page's first two blocks, on the names that its text speaks of."""
    monkeypatch.chdir(tmp_path)
    model, embedder = mnemotune.EmbeddedModel(), mnemotune.LexicalEmbedder()
    policy = load_policy("awi").model_copy(update={"update_every": 1, "buffer_size": 0})
    messages = [mnemotune.Message("user", "I live in Lisbon."), mnemotune.Message("assistant", "Nice.")]
    names = {"policy": policy, "model": model, "embedder": embedder, "messages": messages}
    names |= {"memory": mnemotune.open_memory(policy, model, embedder), **vars(asyncio)}
    for block in blocks(DOCS / "deploy.md", "python")[:2]:
        program = "async def main():\n" + textwrap.indent(block, "    ") + "    return locals()\n"
        exec(program, names)  # noqa: S102 - our own page
        left = asyncio.run(names["main"]())  # type: ignore[operator]
    assert "Lisbon" in "".join(message.text for message in left["context"].render())
    with mnemotune.MemoryStore("memories.db", policy, model, embedder) as store:
        assert store.users() == []

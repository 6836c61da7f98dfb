"""The house: what ships, what git keeps, what the README promises."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from mnemotune.env.dialogue.compat import DEFECTS
from mnemotune.env.dialogue.generation.plan import GenerationPlan
from mnemotune.env.dialogue.generation.texts import GenerationTexts
from mnemotune.optimizer.cli.app import app
from mnemotune.optimizer.config import GenerationConfig, load_config, parse_config
from mnemotune.policies.files import dump_policy, load_policy, parse_policy
from mnemotune.policies.lm import lexical
from mnemotune.policies.lm.embedded import instructions, writing
from mnemotune.policies.lm.embedded.reading import Reading
from mnemotune.policies.prompts import Templates

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ("data/", "env/", "policies/", "optimizer/", "experiments/", "configs/")
LEFT_OUT = (".md", ".svg")


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, f"git cannot read this tree: {done.stderr.strip()}"
    return done.stdout.splitlines()


def commands(text: str) -> list[str]:
    """Return the commands of a text's shell blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = (line.split("#")[0].strip() for block in blocks for line in block.splitlines())
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build the wheel from the tree and return its files, named as in the tree."""
    out = tmp_path_factory.mktemp("wheel")
    # setuptools writes into the source tree: build from a copy of what git knows
    tree = tmp_path_factory.mktemp("tree")
    for name in git("ls-files", "--cached", "--others", "--exclude-standard"):
        if (ROOT / name).is_file() and not name.startswith(".typing/"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(tree)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = out.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        return {name.removeprefix("mnemotune/") for name in archive.namelist() if name.startswith("mnemotune/")}


def tree() -> set[str]:
    names = git("ls-files", "--cached", "--others", "--exclude-standard")
    inside = {name for name in names if name.startswith(SHIPPED) and not name.endswith(LEFT_OUT)}
    return inside | {name for name in names if "/" not in name and name.endswith((".py", "py.typed"))}


def test_the_wheel_holds_every_file_of_the_packages(wheel: set[str]) -> None:
    assert tree() - wheel == set()


def test_the_wheel_holds_nothing_else(wheel: set[str]) -> None:
    assert wheel - tree() == set()


@pytest.mark.parametrize(
    "folder", ["data", "data/dialogue/bundled", "env", "optimizer", "policies/lm", "experiments", "tests"]
)
def test_no_folder_of_code_is_ignored_by_git(folder: str) -> None:
    assert git("check-ignore", "--no-index", f"{folder}/new_module.py", f"{folder}/new.json") == []


def test_runs_and_databases_are_ignored_by_git() -> None:
    things = ["runs/quickstart-001/study.db", "runs/mlflow.db", ".venv/bin/python"]
    assert git("check-ignore", "--no-index", *things) == things


@pytest.mark.parametrize("config", sorted(ROOT.glob("configs/*.yaml")), ids=lambda path: path.name)
def test_a_config_parses_and_its_first_line_is_the_command_that_runs_it(config: Path) -> None:
    first = config.read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# mnemotune evolve configs/{config.name}"
    load_config(config)


def test_the_readme_s_commands_are_the_ones_that_ci_runs() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    run = [line for line in script.splitlines() if line.startswith("make ")]
    made = [c for c in commands((ROOT / "README.md").read_text(encoding="utf-8")) if c.startswith("make ")]
    assert made == run == ["make evolve", "make test", "make audit"]


def test_every_command_of_the_readme_exists() -> None:
    text = "\n".join(commands((ROOT / "README.md").read_text(encoding="utf-8")))
    named = set(re.findall(r"^mnemotune (\w+(?: generate| check)?)", text, re.MULTILINE))
    assert {"evolve", "evaluate", "data generate", "data check", "report", "ui"} <= named
    for command in named:
        assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0, command


def test_every_file_that_the_readme_names_exists() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    files = [path for path in ROOT.rglob("*.py") if not {".typing", ".venv", "build"} & set(path.parts)]
    lines = {path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    longest = {path: 500 if path.parts[0] == "tests" else 400 for path in lines}
    assert len(files) > 400
    assert {path: count for path, count in lines.items() if count > longest[path]} == {}


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "torch", "mlflow", "dspy", "optuna", "matplotlib", "openai"
    script = f"import mnemotune, mnemotune.env, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_imported() -> None:
    import mnemotune

    for name in mnemotune.__all__:
        assert getattr(mnemotune, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mnemotune.nothing


def test_the_links_for_type_checkers_lead_to_every_package() -> None:
    for folder in ("data", "env", "policies", "optimizer", "experiments"):
        link = ROOT / ".typing" / "mnemotune" / folder
        assert link.is_symlink()
        assert link.resolve() == ROOT / folder


def blocks(language: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_policy_of_the_readme_is_one() -> None:
    (policy,) = [block for block in blocks("yaml") if "update_every" in block]
    assert parse_policy(policy, where="README.md").label == "facts+external(2,4,10)"


def test_the_settings_of_the_readme_belong_to_a_config() -> None:
    (settings,) = [block for block in blocks("yaml") if "endpoint" in block]
    quickstart = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text(encoding="utf-8"))
    given = yaml.safe_load(settings)
    quickstart["search"] |= given.pop("search")
    assert parse_config(yaml.safe_dump(quickstart | given), where="README.md").endpoint.prices


def test_the_page_on_amemgym_tells_every_switch_and_every_text() -> None:
    page = (ROOT / "docs" / "amemgym.md").read_text(encoding="utf-8")
    assert [name for name in (*DEFECTS, *Templates.slots()) if f"`{name}`" not in page] == []


def test_the_program_of_the_readme_runs_with_the_embedded_model(tmp_path: Path) -> None:
    """The model and the file are replaced; everything else is the README's."""
    (program,) = blocks("python")
    (tmp_path / "best_policy.yaml").write_text(dump_policy(load_policy("awi")), encoding="utf-8")
    program = program.replace('OpenAIModel("my-model", base_url="http://localhost:8000/v1")', "EmbeddedModel()")
    program = program.replace("import Assistant,", "import Assistant, EmbeddedModel,")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_on_generation_tells_every_number_and_every_text_with_its_slots() -> None:
    page = (ROOT / "docs" / "generation.md").read_text(encoding="utf-8")
    (config,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    told = yaml.safe_load(config)["generation"]
    assert told.keys() == GenerationConfig.model_fields.keys()
    for name, value in GenerationPlan().model_dump().items():
        assert told[name] == (list(value) if isinstance(value, tuple) else value), name
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    for kind, slots in GenerationTexts.slots().items():
        required, _, optional = rows[kind].partition("[")
        assert tuple(re.findall(r"`(\w+)`", required)) == slots.required
        assert tuple(re.findall(r"`(\w+)`", optional)) == slots.optional


def test_the_page_on_the_embedded_model_tells_its_parameters() -> None:
    page = (ROOT / "docs" / "embedded_model.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", page, re.MULTILINE))
    modules = (instructions, lexical, writing)
    named = {name: value for module in modules for name, value in vars(module).items() if name in told}
    assert {name: float(value) for name, value in told.items()} == asdict(Reading()) | named
    assert told.keys() >= asdict(Reading()).keys()

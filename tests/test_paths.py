"""Names from data, configs and the command line never lead out of a folder (what is written: test_interchange.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemotune.data import ScenarioError, load_scenarios
from mnemotune.env.dialogue.generation.folder import open_user
from mnemotune.env.dialogue.interchange import InterchangeError, read_results
from mnemotune.optimizer.config import ConfigError, load_config
from mnemotune.optimizer.search.ablation import slug
from mnemotune.policies.files import PolicyError, load_policy

EVIL = ["..", ".", "../x", "a/../../x", "/etc/x", "a\\..\\x", "", " ", "~", "\u2025/x"]


def is_name(text: str) -> bool:
    return text not in {"", ".", ".."} and Path(text).name == text


@given(st.sampled_from(EVIL) | st.text(max_size=30))
def test_a_variant_s_folder_is_a_name(name: str) -> None:
    assert is_name(slug(name))


@pytest.mark.parametrize("user", EVIL)
def test_a_user_s_parts_are_in_a_folder_of_the_work_folder(user: str, tmp_path: Path) -> None:
    assert open_user(tmp_path / "parts", 7, user).path.parent == tmp_path / "parts"


@pytest.mark.parametrize("user", ["../outside/ann", "..", "x/../ann"])
def test_results_are_not_read_out_of_their_folder(user: str, tmp_path: Path) -> None:
    for folder in ("outside/ann", "run/ann"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "overall_results.json").write_text("[]", encoding="utf-8")
    life = load_scenarios("generated:1@1")[0].model_copy(update={"id": user})
    with pytest.raises(InterchangeError, match="leads out of"):
        read_results(tmp_path / "run", [life], upper_bound=None, policy=load_policy("native"))


@pytest.mark.parametrize("name", ["../policies/awi", "../../configs/policies/awi.yaml", "..", "awi/../awi"])
def test_bundled_things_have_names_and_no_places(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PolicyError):
        load_policy(name)
    with pytest.raises(ScenarioError):
        load_scenarios(name.replace("awi", "base"))
    with pytest.raises(ConfigError):
        load_config(f"{name}/..")


@pytest.mark.parametrize(
    "source", ["hf:a/b/../../c", "hf:../../c", "hf:a/b//etc/passwd", "hf:a/..", "hf:a/b/c/../../../d"]
)
def test_a_file_of_the_hub_is_in_its_dataset(source: str) -> None:
    with pytest.raises(ScenarioError, match="write hf:OWNER/NAME"):
        load_scenarios(source)

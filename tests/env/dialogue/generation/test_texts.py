"""The texts by which a model is asked for new users."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from mnemotune.data.resources import resource
from mnemotune.env.dialogue.generation.texts import GenerationTexts

SLOTS = GenerationTexts.slots()


def test_the_bundled_texts_use_the_slots_that_there_are_and_all_of_them() -> None:
    texts = GenerationTexts.bundled().model_dump()
    assert texts.keys() == SLOTS.keys()
    for kind, text in texts.items():
        used = set(re.findall(r"\{([a-z_]+)\}", text))
        assert used == {*SLOTS[kind].required, *SLOTS[kind].optional}, kind


def test_every_bundled_text_but_the_repair_says_which_json_is_wanted() -> None:
    for kind, text in GenerationTexts.bundled().model_dump().items():
        if kind != "repair":
            assert "JSON" in text
            assert text.rstrip().splitlines()[-1].startswith("{")


def test_a_file_replaces_the_texts_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("repair: 'Mend this: {problems} {\"a\": 1}'", encoding="utf-8")
    texts = GenerationTexts.load(path)
    assert texts.repair == 'Mend this: {problems} {"a": 1}'
    assert texts.events == GenerationTexts.bundled().events
    assert texts.digest != GenerationTexts.bundled().digest


@pytest.mark.parametrize("kind", SLOTS)
def test_a_text_that_lacks_a_slot_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    slot = SLOTS[kind].required[-1]
    bundled = yaml.safe_load(resource("configs", "templates", "generation.yaml").read_text(encoding="utf-8"))
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({kind: bundled[kind].replace(f"{{{slot}}}", "")}), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"mine\.yaml: .*{kind}: lacks \{{{slot}\}}"):
        GenerationTexts.load(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1, 2]", "texts"),
        ("just text", "texts"),
        ("a: [", "is not YAML"),
        ("other: x", "other"),
        ("repair: 3", "repair"),
    ],
)
def test_a_file_that_is_no_set_of_texts_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"mine\.yaml: .*{told}"):
        GenerationTexts.load(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.yaml: No such file"):
        GenerationTexts.load(tmp_path / "none.yaml")

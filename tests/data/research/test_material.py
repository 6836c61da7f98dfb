from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.data.research.material import folder, installed, marks_in, occurs, renamed
from mnemotune.data.task import TaskError

TEXT = """# Blue Heron

The Blue Heron stands in shallow water for hours at a time. It is hunted by the marsh-fox, as is well known.

```python
The code of this block is left out, Blue Heron or not.
```

- a list item that is no sentence
"""


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    (tmp_path / "heron.md").write_text(TEXT)
    (tmp_path / "fox.rst").write_text(
        "Marsh Fox\n=========\n\nNobody has seen the Marsh-Fox, not even a blue heron does.\n"
    )
    (tmp_path / "data.csv").write_text("not,read\n")
    return tmp_path


def test_a_document_is_a_subject_that_leads_to_those_it_names(birds: Path) -> None:
    material = folder(birds)
    fox, heron = material.subjects
    assert [material.names[subject.name] for subject in (fox, heron)] == ["Marsh Fox", "Blue Heron"]
    assert (fox.links, heron.links) == ((heron.name,), (fox.name,))


def test_names_are_marked_in_any_case_and_however_they_are_joined(birds: Path) -> None:
    material = folder(birds)
    fox, heron = material.subjects
    names = {fox.name: "Zorn", heron.name: "Quab"}
    assert [renamed(passage, names) for passage in heron.passages] == [
        "The Quab stands in shallow water for hours at a time.",
        "It is hunted by the Zorn, as is well known.",
    ]
    assert [renamed(passage, names) for passage in fox.passages] == ["Nobody has seen the Zorn, not even a Quab does."]
    assert marks_in(fox.passages[0]) == {fox.name, heron.name}


def test_a_name_is_found_as_whole_words() -> None:
    assert occurs("marsh fox", ["the MARSH-FOX."])
    assert not occurs("marsh fox", ["the marsh foxes", "a marsh, a fox"])


def test_the_installed_distributions_have_names_prose_and_requirements() -> None:
    material = installed()
    by_name = {material.names[subject.name].lower(): subject for subject in material.subjects}
    assert by_name["numpy"].name in by_name["scipy"].links
    assert sum(len(subject.passages) for subject in material.subjects) > 100


def test_another_finder_of_distributions_makes_the_same_material() -> None:
    installed.cache_clear()
    material = installed()
    pytest.importorskip("importlib_metadata")  # puts itself in the place of Python's finder
    installed.cache_clear()
    assert installed() == material


def test_a_folder_without_documents_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"holds no \.md, \.txt, \.rst file"):
        folder(tmp_path)
    (tmp_path / "short.md").write_text("# Short\n\nToo short.\n")
    with pytest.raises(TaskError, match="no file holds a whole sentence"):
        folder(tmp_path)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(TaskError, match=r"bad\.txt: cannot be read"):
        folder(tmp_path)

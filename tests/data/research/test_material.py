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


def test_no_document_is_lost_for_its_title(tmp_path: Path) -> None:
    titles = ("Overview", "Blue Heron", "Overview", "blue heron", "Blue Heron 1", "Who is the maintainer")
    for number, title in enumerate(titles):
        (tmp_path / f"{number}.md").write_text(f"# {title}\n\nThe {number}th bird stands in shallow water for hours.\n")
    material = folder(tmp_path)
    names = ["Overview 1", "Blue Heron", "Overview 2", "blue heron 2", "Blue Heron 1", "Who is the maintainer 1"]
    assert [material.names[subject.name] for subject in material.subjects] == names
    assert all(len(subject.passages) == 1 for subject in material.subjects)


@pytest.mark.parametrize(
    "sentence",
    [
        "Der Ofen der Hütte wurde im frühen Frühling von einem Tischler repariert.",
        "Über die Hütte des „Alten“ weiß im ganzen Tal niemand mehr etwas zu sagen!",
        "The cabin\u2019s heater \u2013 an old one \u2013 was repaired in the early spring\u2026",
        "Печь в хижине ранней весной починил один старый плотник из соседней деревни.",
        "去年早春\uff0c住在山谷另一边的老木匠修好了小屋里的暖炉\uff0c现在整个冬天屋子里都非常暖和\uff0c再也不会漏烟了。",
        "오두막의 난로는 이른 봄에 이웃 마을에 사는 늙은 목수가 새로 고쳐서 지금은 따뜻합니다.",
    ],
)
def test_sentences_of_a_document_are_prose_whatever_their_letters(tmp_path: Path, sentence: str) -> None:
    (tmp_path / "a.md").write_text(f"# Käse und Brot\n\n{sentence}\n{sentence} no sentence\n", encoding="utf-8")
    [subject] = folder(tmp_path).subjects
    assert subject.passages == (sentence,)


def test_names_beyond_ascii_are_marked(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# Käse und Brot\n\nEs gibt seit je Ka\u0308se-und-Brot, aber keine Käse und Brote im Haus.\n", encoding="utf-8"
    )
    [subject] = folder(tmp_path).subjects
    assert [renamed(passage, {subject.name: "Zorn"}) for passage in subject.passages] == [
        "Es gibt seit je Zorn, aber keine Käse und Brote im Haus."
    ]

"""People to make users from."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from mnemotune.data.dialogue import personas
from mnemotune.data.dialogue.personas import PersonaError, made_up_person, profile_of, read_personas

ANN = {
    "uuid": "a1",
    "sex": "Female",
    "age": 41,
    "marital_status": "married_present",
    "education_level": "bachelors",
    "occupation": "bus_driver",
    "persona": "Ann Lee drives a bus and grows roses.",
    "professional_persona": "Ann Lee, a calm driver.",
    "hobbies_and_interests_list": "['rose growing', \"chess\"]",
    "skills_and_expertise_list": "['patience']",
    "country": "not read",
}
PEOPLE = [ANN, *({"uuid": f"u{n}", "age": 20 + n, "persona": f"Person number {n}."} for n in range(9))]


def _json(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(rows), encoding="utf-8")


def _jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n\n" for row in rows), encoding="utf-8")


def _csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, ANN)
        writer.writeheader()
        writer.writerows(rows)


def _parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    parquet.write_table(pa.Table.from_pylist(rows), path)


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
    "json": _json,
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_tells_the_same(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"people.{kind}"
    WRITERS[kind](path, PEOPLE)
    people = {one.id: one for one in read_personas(path, count=10, seed=0)}
    assert people.keys() == {row["uuid"] for row in PEOPLE}
    assert people["a1"].values == {
        "age": "41",
        "sex": "Female",
        "marital_status": "married present",
        "education_level": "bachelors",
        "occupation": "bus driver",
        "hobbies_and_interests_list": "rose growing, chess",
        "skills_and_expertise_list": "patience",
        "persona": "Ann Lee drives a bus and grows roses.",
        "professional_persona": "Ann Lee, a calm driver.",
    }
    assert people["u3"].text == "age: 23\npersona: Person number 3."


def test_a_seed_draws_the_same_people_and_more_go_on_in_the_same_order(tmp_path: Path) -> None:
    _json(tmp_path / "people.json", PEOPLE)

    def drawn(count: int, seed: int, *exclude: str) -> list[str]:
        return [one.id for one in read_personas(tmp_path / "people.json", count=count, seed=seed, exclude=exclude)]

    assert drawn(7, 1)[:4] == drawn(4, 1)
    assert drawn(10, 1) != drawn(10, 2)
    left_out = drawn(4, 1)[1]
    assert drawn(9, 1, left_out) == [one for one in drawn(10, 1) if one != left_out]


def test_lists_may_be_lists_or_words_with_commas(tmp_path: Path) -> None:
    rows = [{"id": 7, "hobbies_and_interests_list": ["tea", " "]}, {"id": 8, "hobbies_and_interests_list": "tea, figs"}]
    _json(tmp_path / "people.json", rows)
    texts = {
        one.id: one.values["hobbies_and_interests_list"]
        for one in read_personas(tmp_path / "people.json", count=2, seed=0)
    }
    assert texts == {"7": "tea", "8": "tea, figs"}


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    trap = f"[__import__('pathlib').Path({str(tmp_path / 'trap')!r}).touch()]"
    _json(tmp_path / "people.json", [{"id": "a", "persona": "x", "hobbies_and_interests_list": trap}])
    with pytest.raises(PersonaError, match="row 1, column hobbies_and_interests_list: is no list"):
        read_personas(tmp_path / "people.json", count=1, seed=0)
    assert not (tmp_path / "trap").exists()


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"persona": "x"}, "row 2: has no id; a column `uuid` or `id` is needed"),
        ({"uuid": " ", "persona": "x"}, "row 2: has no id"),
        (["a"], "row 2: must be an object of columns, not list"),
        ({"uuid": "b", "age": 3}, "row 2: says nothing about the person"),
        ({"uuid": "b", "persona": "x", "age": "old"}, "row 2, column age: 'old' is no age in years"),
        ({"uuid": "b", "persona": "x", "age": 1e400}, "row 2, column age"),
        ({"uuid": "b", "persona": ["x"]}, "row 2, column persona: must be a text, not list"),
        ({"uuid": "b", "skills_and_expertise_list": [1]}, "row 2, column skills_and_expertise_list: must be a list of"),
        ({"uuid": "b", "skills_and_expertise_list": "['a'"}, "row 2, column skills_and_expertise_list: is no list"),
        ({"uuid": "a1", "persona": "x"}, "ids must be distinct; a1 occur more than once"),
    ],
)
def test_a_bad_row_is_named(row: Any, told: str, tmp_path: Path) -> None:
    _json(tmp_path / "people.json", [ANN, row])
    with pytest.raises(PersonaError) as error:
        read_personas(tmp_path / "people.json", count=2, seed=0)
    assert told in str(error.value)
    assert str(tmp_path / "people.json") in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("people.json", b"{", "is not JSON"),
        ("people.json", b'{"id": 1}', "must be a list of personas"),
        ("people.json", b"\xff\xfe\x00", "is not UTF-8 text"),
        ("people.json", b"[]", "has 0 personas; 1 users are wanted"),
        ("people.jsonl", b'{"id": 1, "persona": "x"}\n{', "line 2 is not JSON"),
        ("people.csv", b'uuid,persona\na,"x', "is not CSV"),
        ("people.csv", b"", "has 0 personas"),
        ("people.parquet", b"PAR1 not really", "is no readable parquet file"),
        ("people.xlsx", b"", "is none of .json, .jsonl, .csv, .parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(name: str, content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PersonaError) as error:
        read_personas(tmp_path / name, count=1, seed=0)
    assert told in str(error.value)
    assert name in str(error.value)


def test_a_missing_file_and_too_few_people_are_told(tmp_path: Path) -> None:
    with pytest.raises(PersonaError, match="no such file"):
        read_personas(tmp_path / "none.json", count=1, seed=0)
    _json(tmp_path / "people.json", PEOPLE)
    with pytest.raises(PersonaError, match="has 9 personas once 1 are excluded; 10 users are wanted"):
        read_personas(tmp_path / "people.json", count=10, seed=0, exclude=["a1"])


def test_a_profile_has_amemgyms_fields_in_its_order(tmp_path: Path) -> None:
    _json(tmp_path / "people.json", [ANN])
    (persona,) = read_personas(tmp_path / "people.json", count=1, seed=0)
    profile = profile_of(persona, name="Ann Lee", description="Grows roses.").model_dump()
    assert profile["formatted_str"].splitlines() == [
        "name: Ann Lee",
        "age: 41",
        "gender: Female",
        "marital_status: married present",
        "education_level: bachelors",
        "occupation: bus driver",
        "hobbies_and_interests: rose growing, chess",
        "skills_and_expertise: patience",
        "complementary_info: Grows roses.",
    ]
    assert (profile["uuid"], profile["age"]) == ("a1", 41)


def test_a_made_up_person_is_the_same_however_many_are_made() -> None:
    assert made_up_person(seed=1, index=3) == made_up_person(seed=1, index=3)
    assert made_up_person(seed=1, index=3) != made_up_person(seed=2, index=3)
    user, profile = made_up_person(seed=1, index=3)
    assert user == profile.model_dump()["uuid"] == "person-1-003"


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_without_ids_is_refused_whatever_its_format(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"people.{kind}"
    WRITERS[kind](path, [{"persona": "x"}])
    with pytest.raises(PersonaError, match="row 1: has no id"):
        read_personas(path, count=1, seed=0)


def test_a_parquet_file_that_unpacks_to_very_much_is_read_in_little_memory(tmp_path: Path) -> None:
    """4 GB of texts in a file of less than 200 kB: one text of a megabyte, 4,000 times."""
    path, text = tmp_path / "people.parquet", "Ann fishes. " * 90_000
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 4000, pa.int32()), pa.array([text]))
    parquet.write_table(pa.table({"uuid": [f"user {i}" for i in range(4000)], "persona": texts}), path)
    assert path.stat().st_size < 200_000
    before = pa.default_memory_pool().max_memory()
    first, second = read_personas(path, count=2, seed=0)
    assert first.text == second.text
    assert pa.default_memory_pool().max_memory() < before + 100_000_000


@pytest.mark.parametrize(("limit", "most"), [("MOST_ROWS", 10), ("MOST_BYTES", 1000)])
def test_a_parquet_file_that_says_that_it_is_too_large_is_refused(
    limit: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.parquet"
    _parquet(path, [{"uuid": f"user {i}", "persona": f"Ann fishes {i} times."} for i in range(100)])
    monkeypatch.setattr(personas, limit, most)
    with pytest.raises(PersonaError, match=f"at most {most:,} are read"):
        read_personas(path, count=2, seed=0)


@pytest.mark.parametrize("user", ["a\0b", "a\nb", "x" * 201])
def test_an_id_that_no_scenario_can_have_is_refused(user: str, tmp_path: Path) -> None:
    path = tmp_path / "people.json"
    path.write_text(json.dumps([{"uuid": user, "persona": "Ann"}]), encoding="utf-8")
    with pytest.raises(PersonaError, match="row 1: the id has control characters, or more than 200"):
        read_personas(path, count=1, seed=0)

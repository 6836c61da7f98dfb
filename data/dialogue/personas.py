"""People to make users from: files with the columns of AMemGym's source, Nemotron-Personas, or made-up ones."""

from __future__ import annotations

import ast
import csv
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import MnemotuneError
from ..resources import load_yaml, resource
from .library import load_library
from .scenario import ID, LONGEST_ID, UserProfile

IDS = ("uuid", "id")
NUMBERS = ("age",)
LISTS = ("hobbies_and_interests_list", "skills_and_expertise_list")
FIELDS = tuple("name sex gender marital_status education_level bachelors_field occupation city state".split())
TEXTS = tuple(
    "persona professional_persona sports_persona arts_persona travel_persona culinary_persona cultural_background "
    "skills_and_expertise hobbies_and_interests career_goals_and_ambitions".split()
)
COLUMNS = (*IDS, *NUMBERS, *FIELDS, *LISTS, *TEXTS)
UNKNOWN = "N/A"

Rows = tuple[list[Any], Callable[[Collection[int]], Mapping[int, Any]]]
"""The ids' columns of all rows at least, and how to get whole rows by their places."""
MOST_ROWS = 5_000_000
"""People of a parquet file, whose ids are all in memory."""
MOST_BYTES = 2**30
"""Of a group of a parquet file's rows when it is unpacked: a small file may unpack to very much."""
BATCH_ROWS = 16_384
"""Rows of a parquet file that are in memory at once."""
HOBBIES = 5
"""Hobbies of a made-up person."""


class PersonaError(MnemotuneError, ValueError):
    """Say what is wrong with a persona file, naming the file, the row and the column."""


@dataclass(frozen=True, slots=True)
class Persona:
    """What a file tells about a person; columns without a value are left out, lists are joined with commas."""

    id: str
    values: Mapping[str, str]

    @property
    def text(self) -> str:
        """Everything that is known, a line for each column."""
        return "\n".join(f"{column.replace('_', ' ')}: {value}" for column, value in self.values.items())


def read_personas(path: Path, *, count: int, seed: int, exclude: Collection[str] = ()) -> list[Persona]:
    """Draw ``count`` personas from a .json, .jsonl, .csv or .parquet file.

    More are drawn by going on in the same order. Columns that are not known are not read. Raises PersonaError naming
    the file, the row (the first is 1) and the column.
    """
    table = _TABLES.get(path.suffix.lower())
    if table is None:
        raise PersonaError(f"{path}: is none of {', '.join(_TABLES)}")
    if not path.is_file():
        raise PersonaError(f"{path}: no such file")
    try:
        heads, rows_at = table(path)
    except UnicodeDecodeError as error:
        raise PersonaError(f"{path}: is not UTF-8 text ({error})") from None
    ids = [_id(row, f"{path}: row {number}") for number, row in enumerate(heads, 1)]
    twice = [user for user, times in Counter(ids).items() if times > 1]
    if twice:
        raise PersonaError(f"{path}: ids must be distinct; {', '.join(twice[:5])} occur more than once")
    order = [i for i in random.Random(f"personas:{seed}").sample(range(len(ids)), len(ids)) if ids[i] not in exclude]
    if len(order) < count:
        left = f" once {len(ids) - len(order)} are excluded" if len(order) < len(ids) else ""
        raise PersonaError(f"{path}: has {len(order)} personas{left}; {count} users are wanted")
    drawn = order[:count]
    rows = rows_at(drawn)
    return [_persona(ids[i], rows[i], f"{path}: row {i + 1}") for i in drawn]


@cache
def _choices() -> dict[str, Any]:
    choices: dict[str, Any] = load_yaml(resource("data", "dialogue", "people.yaml").read_text(encoding="utf-8"))
    return choices


def person(rng: random.Random, *, hobbies: Sequence[str]) -> UserProfile:
    """Make up a person; nothing of it depends on the states of the user's life."""
    choices = _choices()
    gender = rng.choice(sorted(choices["names"]))
    fields = {
        "name": f"{rng.choice(choices['names'][gender])} {rng.choice(choices['surnames'])}",
        "age": str(rng.randint(24, 71)),
        "gender": gender,
        "marital_status": rng.choice(choices["marital_status"]),
        "education_level": rng.choice(choices["education_level"]),
        "occupation": rng.choice(choices["occupation"]),
        "hobbies_and_interests": ", ".join(hobby.replace("_", " ") for hobby in sorted(hobbies)),
        "skills_and_expertise": rng.choice(choices["skills_and_expertise"]),
        "complementary_info": rng.choice(choices["complementary_info"]),
    }
    return profile(fields)


def profile(fields: Mapping[str, str], **more: str) -> UserProfile:
    """Return the profile of fields, which the simulated user is shown line by line; ``more`` is not shown."""
    age: dict[str, Any] = {"age": int(fields["age"])} if fields["age"].isdecimal() else {}
    formatted = "\n".join(f"{key}: {value}" for key, value in fields.items())
    return UserProfile.model_validate({**more, **fields, **age, "formatted_str": formatted})


def made_up_person(*, seed: int, index: int) -> tuple[str, UserProfile]:
    """Return the id and the profile of a made-up person, who is the same however many are made."""
    rng = random.Random(f"person:{seed}:{index}")
    own = person(rng, hobbies=rng.sample(sorted(load_library()), HOBBIES))
    user = f"person-{seed}-{index:03d}"
    return user, UserProfile.model_validate({"uuid": user, **own.model_dump()})


def profile_of(persona: Persona, *, name: str, description: str) -> UserProfile:
    """Return the profile of a persona that was given a name and a description."""
    known = defaultdict(lambda: UNKNOWN, persona.values)
    same = ("marital_status", "education_level", "occupation")
    fields = {
        "name": name,
        "age": known["age"],
        "gender": persona.values.get("sex", known["gender"]),
        **{column: known[column] for column in same},
        **{column: known[f"{column}_list"] for column in ("hobbies_and_interests", "skills_and_expertise")},
        "complementary_info": description,
    }
    return profile(fields, uuid=persona.id)


def _id(row: Any, where: str) -> str:
    if not isinstance(row, Mapping):
        raise PersonaError(f"{where}: must be an object of columns, not {type(row).__name__}")
    for column in IDS:
        value = row.get(column)
        if isinstance(value, str | int) and not isinstance(value, bool) and (user := str(value).strip()):
            if not re.fullmatch(ID, user) or len(user) > LONGEST_ID:
                raise PersonaError(f"{where}: the id has control characters, or more than {LONGEST_ID} characters")
            return user
    raise PersonaError(f"{where}: has no id; a column `uuid` or `id` is needed")


def _persona(user: str, row: Mapping[str, Any], where: str) -> Persona:
    values = {}
    for column in COLUMNS:
        if column not in IDS and not _is_missing(row.get(column)):
            values[column] = _value(column, row[column], f"{where}, column {column}")
    if not any(column in values for column in (*TEXTS, *LISTS)):
        raise PersonaError(f"{where}: says nothing about the person; one of {', '.join((*TEXTS, *LISTS))} is needed")
    return Persona(user, values)


def _is_missing(value: Any) -> bool:
    empty = isinstance(value, str) and not value.strip()
    return value is None or empty or (isinstance(value, float) and math.isnan(value))


def _value(column: str, value: Any, where: str) -> str:
    if column in LISTS:
        return ", ".join(_items(value, where))
    if column in NUMBERS:
        return _whole(value, where)
    if not isinstance(value, str):
        raise PersonaError(f"{where}: must be a text, not {type(value).__name__}")
    text = value if column in TEXTS else value.replace("_", " ")
    return _clean(text)


def _items(value: Any, where: str) -> list[str]:
    if isinstance(value, str) and value.lstrip().startswith(("[", "(")):
        try:
            value = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise PersonaError(f"{where}: is no list in Python's notation, such as ['chess', 'hiking']") from None
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise PersonaError(f"{where}: must be a list of texts")
    return [cleaned for item in value if (cleaned := _clean(item))]


def _whole(value: Any, where: str) -> str:
    try:
        number = float(value)
        if isinstance(value, bool) or not number.is_integer() or not 0 <= number <= 150:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise PersonaError(f"{where}: {str(value)[:40]!r} is no age in years") from None
    return str(int(number))


def _clean(text: str) -> str:
    return " ".join(text.encode("utf-8", "replace").decode().split())


def _json_rows(path: Path) -> Rows:
    text = path.read_text(encoding="utf-8-sig")
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PersonaError(f"{path}: is not JSON: {error}") from None
    if not isinstance(rows, list):
        raise PersonaError(f"{path}: must be a list of personas")
    return _listed(rows)


def _json_lines(path: Path) -> Rows:
    rows: list[Any] = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise PersonaError(f"{path}: line {number} is not JSON: {error}") from None
    return _listed(rows)


def _csv_rows(path: Path) -> Rows:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            rows: list[Any] = list(reader)
        except csv.Error as error:
            raise PersonaError(f"{path}: line {reader.line_num} is not CSV: {error}") from None
    return _listed(rows)


def _listed(rows: list[Any]) -> Rows:
    return rows, lambda places: {place: rows[place] for place in places}


def _parquet_rows(path: Path) -> Rows:
    """Read a file of maybe a million people without making Python's objects of more than those drawn.

    Texts are unpacked once each, however often they occur, and few rows at a time.
    """
    from pyarrow import ArrowException, RecordBatch, parquet  # imported late: most runs read no such file

    try:
        metadata = parquet.read_metadata(path)
        leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        leaves = [leaf for leaf in leaves if leaf.path.partition(".")[0] in COLUMNS]
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        file = parquet.ParquetFile(path, read_dictionary=texts)
    except (ArrowException, OSError) as error:
        raise PersonaError(f"{path}: is no readable parquet file: {error}") from None
    known = [name for name in file.schema_arrow.names if name in COLUMNS]
    _check_sizes(path, metadata, [leaf.path for leaf in leaves])

    def batches(columns: Sequence[str]) -> Iterator[tuple[int, RecordBatch]]:
        begin = 0
        try:
            for batch in file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False):
                yield begin, batch
                begin += batch.num_rows
        except (ArrowException, OSError) as error:
            raise PersonaError(f"{path}: is no readable parquet file: {error}") from None

    def rows_at(places: Collection[int]) -> Mapping[int, Any]:
        rows: dict[int, Any] = {}
        for begin, batch in batches(known):
            inside = [place for place in places if begin <= place < begin + batch.num_rows]
            rows |= {place: batch.slice(place - begin, 1).to_pylist()[0] for place in inside}
        return rows

    heads = [row for _, batch in batches([name for name in known if name in IDS]) for row in batch.to_pylist()]
    return heads or [{}] * file.metadata.num_rows, rows_at  # without any id's column there are no rows either


def _check_sizes(path: Path, metadata: Any, columns: Collection[str]) -> None:
    """Raise PersonaError when a parquet file says itself that it unpacks to more than there is room for."""
    if metadata.num_rows > MOST_ROWS:
        raise PersonaError(f"{path}: has {metadata.num_rows:,} rows; at most {MOST_ROWS:,} are read")
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        read = [column for column in map(group.column, range(group.num_columns)) if column.path_in_schema in columns]
        size = sum(column.total_uncompressed_size for column in read)
        if size > MOST_BYTES:
            what = f"a group of rows unpacks to {size:,} bytes; at most {MOST_BYTES:,} are read"
            raise PersonaError(f"{path}: {what}: write it in smaller groups of rows")


_TABLES: Mapping[str, Callable[[Path], Rows]] = {
    ".json": _json_rows,
    ".jsonl": _json_lines,
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
}

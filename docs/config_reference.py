"""Write configuration.md: every key of a config, read off the models that check it.

python docs/config_reference.py
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mnemotune.optimizer.config import Config
from mnemotune.policies.prompts import TextSet
from mnemotune.policies.space import Space

PAGE = Path(__file__).with_name("configuration.md")
HEAD = """\
<!-- python docs/config_reference.py writes this page -->

# Configuration

A config is a YAML file with these keys. `data`, `splits` and `seed_policy` are needed; everything else has a default.
`--set key=value` overrides a key on the command line, with dots in it: `--set search.budget.calls=20000`. A key that is
none is refused, with the nearest that is.

[configs](../configs/quickstart.yaml) has examples; the first line of each is the command that runs it.
"""
OWN_VALUES = {
    "search.proposers": "list of names",
    "search.slots": "list of prompts",
    "search.objective": "name",
    "search.space": "map of [knobs](space.md) to choices or to bounds",
    "compat": "`amemgym`, or a list of names",
    "templates": "file, or map of [texts](amemgym.md#the-same-requests)",
    "generation.texts": "file, or map of [texts](generation.md#the-texts)",
    "seed_policy": "name, file, or [policy](#seed_policy)",
    "embedder_endpoint": "[map](#endpoint), or `null`",
    "seed_policy.knobs": "map of names to values",
    "endpoint.prices": "map of models to [prices](#endpointprices)",
    "endpoint.max_tokens": "whole number, 1 or more, or a map of roles to such numbers, or `null`",
    "endpoint.structured": "`auto`, `json_schema`, `json_object`, `text`",
    "storage": "URL, or [map](#storage)",
    "tracking": "`none`, or [map](#tracking)",
}
"""Values that are read from something else than what they become."""
OWN_DEFAULTS = {"templates": "bundled", "generation.texts": "bundled", "seed_policy.prompts": "bundled"}
SEE = {
    "search.proposers": "[Who proposes](search.md#who-proposes).",
    "search.objective": "[Score against cost](search.md#score-against-cost).",
    "compat": "[The names](amemgym.md#its-defects-by-name).",
    "embedder": "[Embedders](your_model.md#embedders).",
    "track": "[Tracks](tracks.md).",
    "data": "[What it can be](your_data.md#what-data-can-be).",
    "search.screening": "[Screening](memrm.md#screening).",
    "search.acceptance": "[Looks](search.md#looks).",
    "search.budget": "[Budget](cost.md#budget).",
    "endpoint.prices": "[Prices](cost.md#prices).",
    "endpoint.longest_outage_seconds": "[A bad night](your_model.md#a-bad-night).",
    "workers": "[Workers](workers.md#where-episodes-are-played).",
    "storage": "[PostgreSQL](workers.md#study-and-replies-in-postgresql).",
    "context_tokens": "[One budget](memories.md#one-budget).",
}
PLAIN = {
    "splits.train": "Users that candidates are raced on.",
    "splits.validation": "Users that leaders are looked at on.",
    "splits.test": "Users of the sealed test.",
    "rounds.init": "Rounds of a session in the first period.",
    "rounds.update": "Rounds of a session in the periods after it.",
    "search.seed": "Draws proposals.",
    **{f"{where}.budget.calls": "Most calls." for where in ("search", "generation")},
    **{f"{where}.budget.tokens": "Most tokens, input and output together." for where in ("search", "generation")},
    **{f"{where}.budget.usd": "Most US dollars." for where in ("search", "generation")},
    **{f"{where}.budget.seconds": "Most seconds." for where in ("search", "generation")},
    "seed_policy.knobs": "Values of knobs that other packages have registered, by name.",
}
"""What is clear to who reads the model, and has to be said to who does not."""
MAX_EXACT = 2**53


@cache
def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return what is written below each field of a model, its bases' included."""
    texts: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if not kind.__module__.startswith("mnemotune"):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        body = definition.body if isinstance(definition, ast.ClassDef) else []
        for field, below in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                texts[ast.unparse(field.target)] = str(below.value.value)
    return texts


def plain(text: str) -> str:
    """Return a docstring's text as a cell of a table, in the words of YAML."""
    line = " ".join(text.split()).replace("``", "`").replace("|", "\\|")
    return re.sub(r"(?<!`)\bNone\b(?!`)", "`null`", line)


def bounds(metadata: list[Any]) -> str:
    """Return the bounds of a number in words, after a comma; nothing where there are none."""
    limits = {type(part): part for part in metadata if isinstance(part, Ge | Gt | Le | Lt)}
    low = limits[Ge].ge if Ge in limits else None
    high = limits[Le].le if Le in limits else None
    if low is not None and high is not None:
        return f", {low} to {high}"
    words = [f"{low} or more"] if low is not None else []
    words += [f"above {limits[Gt].gt}"] if Gt in limits else []
    words += [f"{high} or less"] if high is not None else []
    words += [f"below {limits[Lt].lt}"] if Lt in limits and limits[Lt].lt != MAX_EXACT else []
    return "".join(f", {word}" for word in words)


def _united(annotation: Any) -> bool:
    return get_origin(annotation) is Union or type(annotation).__name__ == "UnionType"


def value_of(annotation: Any, metadata: list[Any], path: str) -> str:
    """Return in words what a key may be."""
    if _united(annotation):
        parts = [value_of(part, metadata, path) for part in get_args(annotation) if part is not type(None)]
        return ", or ".join([*parts, *(["`null`"] if type(None) in get_args(annotation) else [])])
    if hasattr(annotation, "__metadata__"):
        return value_of(get_args(annotation)[0], [*metadata, *unfolded(annotation)], path)
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(annotation))
    if get_origin(annotation) is tuple:
        return f"list of {plural(value_of(get_args(annotation)[0], [], path))}"
    if get_origin(annotation) is dict:
        key, value = get_args(annotation)
        return f"map of {plural(value_of(key, [], path))} to {value_of(value, [], path)}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[map](#{path.lower().replace('.', '')})"
    names: dict[Any, str] = {
        int: "whole number",
        float: "number",
        bool: "`true`, `false`",
        str: "text",
        date: "date",
        Any: "anything",
    }
    return names[annotation] + (bounds(metadata) if annotation in {int, float} else "")


def unfolded(annotation: Any) -> list[Any]:
    """Return the metadata of an annotation, those of pydantic's fields taken apart."""
    return [
        inner
        for part in annotation.__metadata__
        for inner in (part.metadata if isinstance(part, FieldInfo) else [part])
    ]


def plural(words: str) -> str:
    """Return a value's name for several of them."""
    return {"text": "texts", "whole number": "whole numbers", "anything": "anything"}.get(words, words)


def record_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model that a field's value is made of; None for a plain value, and for texts and limits."""
    parts = [*get_args(field.annotation), field.annotation]
    parts += [inner for part in parts for inner in get_args(part)]
    records = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
    return next((part for part in records if not issubclass(part, TextSet | Space)), None)


def default_of(field: FieldInfo, path: str) -> str:
    """Return the default as YAML has it; nothing where a section says it."""
    if path in OWN_DEFAULTS:
        return OWN_DEFAULTS[path]
    if field.is_required():
        return "needed"
    value = field.default
    if isinstance(value, BaseModel) or field.default_factory is not None:
        return ""
    if isinstance(value, bool) or value is None:
        return {True: "`true`", False: "`false`", None: "`null`"}[value]
    if isinstance(value, tuple | list):
        return f"`[{', '.join(map(str, value))}]`"
    return "`{}`" if value == {} else f"`{value}`"


def summary(model: type[BaseModel] | None, path: str) -> str:
    """Return what a model says of itself in its first sentence. Raises ValueError for a key that nothing is said of."""
    if model is None or not model.__doc__:
        raise ValueError(f"{path}: say below the field what it means")
    return model.__doc__.split("\n\n")[0]


def section(model: type[BaseModel], path: str, title: str) -> Iterator[str]:
    """Yield the lines of a model's section, and of those of its parts."""
    yield from ("", f"{'#' * (2 + path.count('.'))} {title}", "")
    if path:
        yield from (plain(summary(model, path)), "")
    yield from ("| key | value | default | meaning |", "|---|---|---|---|")
    parts = []
    for name, field in model.model_fields.items():
        key = f"{path}.{name}" if path else name
        record = record_of(field)
        meaning = PLAIN.get(key) or meanings(model).get(name) or summary(record, key)
        value = OWN_VALUES.get(key) or value_of(field.annotation, list(field.metadata), key)
        text = " ".join(filter(None, [plain(meaning), SEE.get(key)]))
        yield f"| `{name}` | {value} | {default_of(field, key)} | {text} |"
        if record is not None and record not in (part for _, part in parts):
            parts.append((key, record))
    for key, record in parts:
        if record.model_fields:
            yield from section(record, key, key)


def page() -> str:
    """Return the whole page."""
    return HEAD + "\n".join(section(Config, "", "The run")) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

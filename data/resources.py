"""Files that ship inside the package."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""As safe as the other, and ten times as fast where libyaml is there."""


def resource(*parts: str) -> Traversable:
    """Return a file or folder of the installed package, for example ``resource("configs", "policies")``."""
    return files("mnemotune").joinpath(*parts)


def load_yaml(text: str, loader: Any = _LOADER) -> Any:
    """Return what a YAML text holds. Raises YAMLError, also where a key stands twice in a mapping."""
    reader = loader(text)
    try:
        node = reader.get_single_node()
        _refuse_twice(node, set())
        return None if node is None else reader.construct_document(node)
    finally:
        reader.dispose()


def _refuse_twice(node: yaml.Node | None, seen: set[int]) -> None:
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    pairs = node.value if isinstance(node, yaml.MappingNode) else [(None, each) for each in node.value]
    known: set[tuple[str, str]] = set()
    for key, value in pairs:
        _refuse_twice(value, seen)
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if (key.tag, key.value) in known:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
            known.add((key.tag, key.value))

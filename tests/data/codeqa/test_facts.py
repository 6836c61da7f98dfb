"""What is read off a source file holds when the file is run."""

from __future__ import annotations

import ast
import builtins
import dis
import importlib
import inspect
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from mnemotune.data.codeqa.facts import KINDS, CodeFact, facts_of
from mnemotune.data.codeqa.tree import standard_library

NOT_IMPORTED = {"antigravity", "distutils", "idlelib", "lib2to3", "pdb", "this", "turtledemo"}
"""Modules that act or warn when they are imported, and the one into which pytest puts its own functions."""
SOURCE = """
import socket
from errors import Broken
SIZE = 0x10
NAMES = ("a", "b")
MANY = [1, 2]
once = 1
once = 2
if SIZE:
    MAYBE = 3
later = None
LINE = "a\\n"

def plain(a, b=2, *, c="x", d=(), e=SIZE):
    if a:
        raise ValueError("no")
    return 7

def other(a):
    if a:
        raise KeyError
    raise ValueError

def again(error):
    raise error

def imported():
    raise Broken("no")

def twice(): return 1
def twice(): return 2

@decorated
def hidden(b=5): return 1

def yields():
    yield 1
    return 3

class Box(socket.socket):
    def open(self, mode="r"):
        def inner():
            raise OSError
        return inner

class Pair(NamedTuple):
    pass
"""


def facts(source: str) -> list[CodeFact]:
    return facts_of(source, ast.parse(source), "a.py")


def test_a_module_s_facts_are_those_that_hold_however_it_is_run() -> None:
    assert [(fact.kind, fact.scope, fact.name, fact.value) for fact in facts(SOURCE)] == [
        ("constant", "SIZE", "SIZE", "0x10"),
        ("constant", "NAMES", "NAMES", '("a", "b")'),
        ("default", "plain", "b", "2"),
        ("default", "plain", "c", '"x"'),
        ("default", "plain", "d", "()"),
        ("raise", "plain", "plain", "ValueError"),
        ("return", "plain", "plain", "7"),
        ("raise", "imported", "imported", "Broken"),
        ("base", "Box", "Box", "socket.socket"),
        ("default", "Box.open", "mode", '"r"'),
    ]


def test_a_fact_says_where_its_value_is_written() -> None:
    lines = [line.encode() for line in SOURCE.split("\n")]
    for fact in facts(SOURCE):
        assert lines[fact.line - 1][slice(*fact.columns)].decode() == fact.value


def test_a_module_that_imports_everything_of_another_has_no_facts() -> None:
    assert facts("SIZE = 16\ntry:\n    from other import *\nexcept ImportError:\n    pass\n") == []


@pytest.mark.parametrize("pattern", ["SIZE", "int() as SIZE", "[1, *SIZE]", '{"a": 1, **SIZE}', "Box(SIZE) | [SIZE]"])
def test_a_name_that_a_pattern_binds_is_no_constant(pattern: str) -> None:
    assert facts(f"SIZE = 5\nmatch argument:\n    case {pattern}:\n        pass\n") == []
    assert len(facts("SIZE = 5\nmatch argument:\n    case sizes.SIZE | [_, *_]:\n        pass\n")) == 1


def test_keys_are_distinct_within_the_standard_library() -> None:
    keys = [fact.key for fact in standard_library().facts]
    assert len(keys) == len(set(keys))


@pytest.mark.filterwarnings("ignore")
def test_every_fact_of_the_standard_library_agrees_with_what_is_imported() -> None:
    every = importable()
    assert len(every) > 5_000
    assert {fact.kind for fact in every} == set(KINDS)
    assert [fact.key for fact in every if not agrees(fact)] == []


def importable() -> Sequence[CodeFact]:
    return [fact for fact in standard_library().facts if can_be_imported(fact.file)]


@cache
def can_be_imported(file: str) -> bool:
    if file.split("/")[0].removesuffix(".py") in NOT_IMPORTED or file.endswith("__main__.py"):
        return False
    try:
        importlib.import_module(module_name(file))
    except ImportError:  # of another system
        return False
    return True


def module_name(file: str) -> str:
    parts = file.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def agrees(fact: CodeFact) -> bool:
    """Tell whether a fact is what the imported module shows."""
    module = importlib.import_module(module_name(fact.file))
    if fact.kind == "constant":
        return repr(getattr(module, fact.name)) == repr(ast.literal_eval(fact.value))
    *outer, last = fact.scope.split(".")
    owner = module
    for name in outer:
        owner = getattr(owner, name)
    mangled = f"_{outer[-1].lstrip('_')}{last}" if outer and last.startswith("__") and not last.endswith("__") else last
    thing = vars(owner)[mangled]
    thing = thing.__func__ if isinstance(thing, staticmethod | classmethod) else thing
    if fact.kind == "default":
        return repr(inspect.signature(thing).parameters[fact.name].default) == repr(ast.literal_eval(fact.value))
    if fact.kind == "base":
        return bool(thing.__bases__ == (resolved(fact.value, owner, module),))
    instructions = list(dis.get_instructions(thing.__code__))
    if fact.kind == "raise":
        raises = sum(step.opname == "RAISE_VARARGS" for step in instructions)
        return raises > 0 and issubclass(resolved(fact.value, module), BaseException) and uses(thing, fact.value)
    returned = [before.argval for before, step in pairwise(instructions) if step.opname == "RETURN_VALUE"]
    returned += [step.argval for step in instructions if step.opname == "RETURN_CONST"]
    return [repr(value) for value in returned] == [repr(ast.literal_eval(fact.value))]


def uses(function: Any, name: str) -> bool:
    return name.split(".")[0] in function.__code__.co_names


def resolved(name: str, *spaces: object) -> Any:
    first, *rest = name.split(".")
    value = next(getattr(space, first) for space in (*spaces, builtins) if hasattr(space, first))
    for part in rest:
        value = getattr(value, part)
    return value

"""Facts of a source file, found by static analysis alone: nothing is imported or run."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["default", "constant", "base", "raise", "return"]
KINDS: tuple[Kind, ...] = get_args(Kind)

LONGEST_LITERAL = 60
"""Characters of a literal; a longer one is no fact."""

_PLAIN_DECORATORS = frozenset({"staticmethod", "classmethod"})
"""Those that leave a function's signature and code as they are written."""
_REWRITTEN_BASES = frozenset({"NamedTuple", "TypedDict", "Protocol", "Generic", "object"})
"""Bases that a class does not have when it is made, or that say nothing."""
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class CodeFact:
    """Something that a source file says."""

    file: str
    """Path within the tree, with ``/``."""
    scope: str
    """Qualified name of the function or class; of a constant, its name."""
    kind: Kind
    name: str
    """Of the parameter, the constant, the class or the function: what a fact elsewhere may share."""
    value: str
    """A literal, or a dotted name, as it is written."""
    line: int
    """1-based line of the value."""
    columns: tuple[int, int]
    """Where the value begins and ends in its line, in bytes of UTF-8."""

    @property
    def key(self) -> str:
        """What it is about, distinct within the tree."""
        parameter = f":{self.name}" if self.kind == "default" else ""
        return f"{self.file}:{self.kind}:{self.scope}{parameter}"


def facts_of(source: str, module: ast.Module, file: str) -> list[CodeFact]:
    """Return what holds of a module however it is run: names that are bound once, outside of conditions.

    A default, a constant, the only base of a class, the only exception that a function raises, a literal that a
    function returns in all cases. ``module`` is ``source`` parsed. A module that imports ``*`` has none, since it may
    bind any name.
    """
    statements = list(_statements(module.body, nested=True))
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in statements):
        return []
    declared_global = [name for node in statements if isinstance(node, ast.Global) for name in node.names]
    finder = _Finder(source, module, file, declared_global)
    return [fact for fact in finder.facts() if len(fact.value) <= LONGEST_LITERAL]


class _Finder:
    """Finds the facts of one module."""

    def __init__(self, source: str, module: ast.Module, file: str, declared_global: Sequence[str]) -> None:
        self._lines, self._module, self._file = source.split("\n"), module, file
        self._classes = {node.name for node in module.body if isinstance(node, ast.ClassDef)}
        self._bound = Counter(_bindings(module.body)) + Counter(declared_global)

    def facts(self) -> Iterator[CodeFact]:
        for node in self._module.body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ) if self._bound[name] == 1 and not _is_none(value):  # None is what a later value replaces
                    yield from self._fact("constant", name, name, value)
        yield from self._definitions(self._module.body, self._bound, "")

    def _definitions(self, body: Sequence[ast.stmt], bound: Counter[str], prefix: str) -> Iterator[CodeFact]:
        for node in body:
            if isinstance(node, Function) and bound[node.name] == 1 and _is_plain(node):
                yield from self._of_function(node, prefix + node.name)
            elif isinstance(node, ast.ClassDef) and bound[node.name] == 1 and not node.decorator_list:
                yield from self._of_class(node, prefix + node.name)

    def _of_class(self, node: ast.ClassDef, scope: str) -> Iterator[CodeFact]:
        match node.bases:
            case [(ast.Name() | ast.Attribute()) as base] if ast.unparse(base).split(".")[-1] not in _REWRITTEN_BASES:
                yield from self._fact("base", scope, node.name, base)
        yield from self._definitions(node.body, Counter(_bindings(node.body)), f"{scope}.")

    def _of_function(self, node: Function, scope: str) -> Iterator[CodeFact]:
        for parameter, default in _defaults(node.args):
            yield from self._fact("default", scope, parameter, default)
        statements = list(_statements(node.body, nested=False))
        if raised := self._raised(node, statements):
            yield from self._fact("raise", scope, node.name, raised)
        returns = [inner for inner in statements if isinstance(inner, ast.Return)]
        match returns:
            case [ast.Return(value=ast.expr() as value) as last] if (
                last is node.body[-1]
                and isinstance(node, ast.FunctionDef)
                and _is_literal(value)
                and not any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in _inside(node))
            ):
                yield from self._fact("return", scope, node.name, value)

    def _raised(self, node: Function, statements: Sequence[ast.AST]) -> ast.expr | None:
        """Return the exception, where a function raises a single class of the module's or of the language's."""
        raises = [inner.exc for inner in statements if isinstance(inner, ast.Raise)]
        classes = [raised.func if isinstance(raised, ast.Call) else raised for raised in raises]
        if len({ast.unparse(each) if each else "" for each in classes}) != 1 or classes[0] is None:
            return None
        written = ast.unparse(classes[0]).split(".")
        root, last = written[0], written[-1]
        known = root in self._classes or isinstance(getattr(builtins, root, None), type)
        outside = known or (self._bound[root] == 1 and last[:1].isupper())  # by custom, a class
        return classes[0] if outside and root not in _local_names(node) else None

    def _fact(self, kind: Kind, scope: str, name: str, value: ast.expr) -> Iterator[CodeFact]:
        """Yield the fact that a value makes: a literal that nothing can change, without escapes, or a class's name."""
        named = kind in {"base", "raise"} and ast.unparse(value).replace(".", "").isidentifier()
        if (named or _is_literal(value)) and value.lineno == value.end_lineno and value.end_col_offset is not None:
            columns = (value.col_offset, value.end_col_offset)
            written = self._lines[value.lineno - 1].encode()[slice(*columns)].decode()
            if "\\" not in written and (not isinstance(value, ast.Tuple) or written.startswith("(")):
                yield CodeFact(self._file, scope, kind, name, written, value.lineno, columns)


def _is_literal(node: ast.expr) -> bool:
    """Tell whether an expression is a literal without lists, mappings and sets, which a program can change."""
    match node:
        case ast.Constant():
            return node.value is not ...
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return True
        case ast.Tuple():
            return all(map(_is_literal, node.elts))
    return False


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_plain(node: Function) -> bool:
    return all(isinstance(each, ast.Name) and each.id in _PLAIN_DECORATORS for each in node.decorator_list)


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    late = positional[len(positional) - len(arguments.defaults) :]
    yield from ((each.arg, default) for each, default in zip(late, arguments.defaults, strict=True))
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    yield from ((each.arg, default) for each, default in named if default is not None)


def _statements(body: Sequence[ast.AST], *, nested: bool) -> Iterator[ast.AST]:
    """Yield statements and those within them, in the order of the source.

    Those of functions and classes within the body come only where ``nested``.
    """
    for node in body:
        yield node
        if nested or not isinstance(node, _NESTED):
            for part in ("body", "handlers", "orelse", "finalbody", "cases"):
                yield from _statements(getattr(node, part, ()), nested=nested)


def _inside(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body, not those of functions and classes within it."""
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _NESTED):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _local_names(function: Function) -> set[str]:
    arguments = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    return arguments | {name for node in _inside(function) for name in _names_bound_by(node)}


def _bindings(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield each name that statements bind or delete, also within conditions, as often as they do."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield from _names_bound_by(node)
        if not isinstance(node, _NESTED):
            waiting.extend(ast.iter_child_nodes(node))


def _names_bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.ExceptHandler(name=str() as name):
            yield name
        case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name) | ast.MatchMapping(rest=str() as name):
            yield name
        case ast.Import() | ast.ImportFrom():
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)

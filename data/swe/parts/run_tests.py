"""Run the tests, all or those that are named: python run_tests.py [NAMES]."""

import importlib
import os
import sys
from typing import Any

ROOT = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(ROOT, "tests"), ROOT]
sys.dont_write_bytecode = True
PACKAGE = "package"
BASE = "base"
CASES = "cases"
FIRST = "outermost"
LAST = "innermost"
STACK = "stack of {test}, {place} call: function={function} file={file}"


class Wrong(Exception):  # noqa: N818 - it is no error of the runner's
    """A test got something else than it expected."""


def equal(*, expected: Any, got: Any) -> None:
    """Raise where both differ."""
    if type(expected) is not type(got) or expected != got:
        raise Wrong(f"expected {expected!r}, but got {got!r}")


def tell_stack(name: str, calls: list[tuple[str, str]]) -> None:
    """Write the traced calls of a test."""
    for number, (function, file) in enumerate(calls, 1):
        place = LAST if number == len(calls) else FIRST if number == 1 else f"number {number}"
        line = STACK.format(test=name, place=place, function=f'"{function}"', file=f'"{file}"')
        sys.stdout.write(f"  {line}\n")


def run(name: str, test: Any, calls: list[tuple[str, str]]) -> bool:
    """Run a test; tell whether it passes."""
    calls.clear()
    sys.stdout.write(f"== {name}\n")
    try:
        test(equal)
    except Exception as error:  # noqa: BLE001 - whatever a test raises is its failure
        said = str(error) if isinstance(error, Wrong) else f"expected no error, but got {type(error).__name__}"
        where = calls[-1][1] if calls else "the test itself"
        sys.stdout.write(f"FAIL {name}: {said} (in {where}).\n")
        tell_stack(name, calls)
        return False
    sys.stdout.write(f"PASS {name}\n")
    return True


def main(names: list[str]) -> int:
    """Run tests; return the exit code."""
    try:
        base: Any = importlib.import_module(f"{PACKAGE}.{BASE}")
        cases = importlib.import_module(CASES)
    except Exception as error:  # noqa: BLE001 - a module that is broken is a failure of every test
        sys.stdout.write(f"FAIL: the tests cannot be read: {type(error).__name__}\n")
        return 1
    tests = {name: test for name, test in vars(cases).items() if name.startswith("test_")}
    if unknown := [name for name in names if name not in tests]:
        sys.stdout.write(f"there is no test {', '.join(unknown)}\n")
        return 2
    base.start()
    results = [run(name, tests[name], base.CALLS) for name in names or tests]
    sys.stdout.write(f"{results.count(True)} tests pass, {results.count(False)} fail\n")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

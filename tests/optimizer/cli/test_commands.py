"""The commands by name, which are imported when they are called."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mnemotune.env.memrm.evaluation.metrics import COVERED
from mnemotune.optimizer.cli.commands import COMMANDS, command_named

Cli = Callable[..., Any]
LISTING = (
    "import sys; sys.argv = ['mnemotune', '--help']\n"
    "from mnemotune.optimizer.cli import main\n"
    "try: main()\n"
    "finally: print(*(name for name in sys.modules if name.startswith('mnemotune')), file=sys.stderr)"
)


@pytest.mark.parametrize("name", [*COMMANDS])
def test_a_command_says_of_itself_what_the_list_says(name: str) -> None:
    command, about = command_named(name), COMMANDS[name].about
    first = (command.help or about).split("\n\n")[0]
    assert " ".join(first.split()) == about


def every_command() -> Iterator[tuple[str, Any]]:
    """Yield each command with all of its name, those of groups too."""
    for name in COMMANDS:
        command = command_named(name)
        yield from ((f"{name} {part}", one) for part, one in getattr(command, "commands", {}).items())
        if not getattr(command, "commands", {}):
            yield name, command


@pytest.mark.parametrize(
    ("name", "command"), [*every_command()], ids=lambda part: part if isinstance(part, str) else ""
)
def test_every_help_has_an_example_that_the_command_understands(name: str, command: Any) -> None:
    (example,) = re.findall(r"Example: (mnemotune .*)", " ".join(command.help.split()))
    assert example.startswith(f"mnemotune {name}")
    command.make_context(name, shlex.split(example.removeprefix(f"mnemotune {name}")))


def test_no_help_needs_what_its_command_needs() -> None:
    program = (
        "import sys\n"
        "from mnemotune.optimizer.cli.commands import COMMANDS, command_named\n"
        "for command in map(command_named, COMMANDS):\n"
        "    for part in (command, *getattr(command, 'commands', {}).values()):\n"
        "        part.get_help(part.make_context('it', [], resilient_parsing=True))\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "Example: mnemotune evolve" in done.stdout
    assert not set(done.stderr.split()) & {"numpy", "pydantic", "optuna", "mlflow", "mnemotune.env"}


def test_the_help_of_eval_says_from_where_on_a_score_is_sure() -> None:
    """The number's module needs numpy, so that the help cannot read it there."""
    (threshold,) = [part for part in command_named("memrm").commands["eval"].params if part.name == "threshold"]
    assert f"else {COVERED:.2f}.".replace("0.", ".") in threshold.help


def test_the_list_needs_none_of_what_commands_need() -> None:
    done = subprocess.run([sys.executable, "-c", LISTING], capture_output=True, text=True, check=True, timeout=60)
    assert "evolve" in done.stdout
    loaded = set(done.stderr.split())
    assert "mnemotune.optimizer.cli.commands" in loaded
    assert not loaded & {"mnemotune.optimizer.config", "mnemotune.policies.files", "mnemotune.env"}


def test_a_command_that_is_mistyped_is_told_with_the_nearest(cli: Cli) -> None:
    done = cli("evovle")
    assert done.code == 2
    assert "evolve" in done.err

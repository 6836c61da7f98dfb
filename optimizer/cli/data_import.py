"""``mnemotune data import``: bring conversations of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

from . import options
from .output import print_json

if TYPE_CHECKING:
    from ...data.conversations.chat import By
    from ...data.conversations.importing import Import
    from ...policies.lm import Ledger

FORMS = ("chat", "locomo", "longmemeval")
MOST_TELLINGS = 10
"""Broken lines that are told one by one; ``--json`` has all of them."""


def import_command(
    file: Annotated[Path, typer.Argument(help="The file to read: .jsonl, .json or .parquet.")],
    form: Annotated[
        str, typer.Option("--from", help="What it is: `chat` (logs and exports), `locomo` or `longmemeval`.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The file to write, which the track `conversations` reads.")],
    questions: Annotated[
        str | None,
        typer.Option("--questions", help="With chat: a file of questions, one a line; or how many --model makes."),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="With chat: what has a memory of its own, `user` or `conversation`.")
    ] = "user",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first broken line.")] = False,
    model: Annotated[
        str | None, typer.Option("--model", help="Makes the questions, and checks each against its evidence.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A config for model, endpoint and generation.budget.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Bring your own conversations: chat logs with questions on them, or a benchmark's file.

    A broken line is left out and told, unless --strict. A question that a model makes is dropped where its evidence
    does not answer it, or where nothing is needed to answer it.

    Example: mnemotune data import --from chat chat.jsonl --questions questions.jsonl --out conversations.jsonl
    """
    from ...data.conversations.importing import Import, import_benchmark, import_chat
    from ...data.conversations.omissions import Omissions
    from ..views.table import say

    wanted = _check(file, form, by, questions, with_model=model is not None or config is not None)
    own = None if questions is None or wanted is not None else Path(questions)
    _keep(file, own, out)
    console, coming = Console(stderr=True), Import(out, Omissions(strict=strict))
    values: dict[str, Any] = {}
    if wanted is not None:
        values = _with_made_questions(console, coming, QuestionsWanted(file, wanted, by, model, config))
    elif own is not None:
        import_chat(file, own, coming, by=_by(by))
    else:
        import_benchmark("locomo" if form == "locomo" else "longmemeval", file, coming)
    lines = list(coming.omissions.lines)
    say(console, *lines[:MOST_TELLINGS], style="yellow")
    if len(lines) > MOST_TELLINGS:
        say(console, f"and {len(lines) - MOST_TELLINGS:,} more; --json lists them all", style="yellow")
    say(console, *_summary(coming.as_json()))
    if as_json:
        print_json(coming.as_json() | values)


class QuestionsWanted(NamedTuple):
    """Questions that a model is to make."""

    chat: Path
    wanted: int
    by: str
    model: str | None
    config: Path | None


def _with_made_questions(console: Console, coming: Import, wanted: QuestionsWanted) -> dict[str, Any]:
    """Have questions made, tell of those that are dropped, and return the figures as JSON values."""
    from ..own_questions import QuestionOrder, import_with_questions
    from ..views.table import say
    from .common import settings_of

    settings = settings_of(wanted.config, model=wanted.model)
    order = QuestionOrder(settings, wanted.chat, wanted.wanted, _by(wanted.by))
    say(console, f"{wanted.wanted:,} questions with {settings.model}: {order.most_calls:,} calls at the very most")
    with console.status("") as status:

        def tell(kept: int, dropped: int, ledger: Ledger) -> None:
            status.update(f"{kept:,} questions kept, {dropped:,} dropped, {ledger.total.calls:,} calls")

        delivery = import_with_questions(order, coming, tell=tell)
    values = delivery.as_json()
    for each in delivery.questions.dropped[:MOST_TELLINGS]:
        about = f": {each.question}" if each.question else ""
        say(console, f"dropped, {each.group}, {each.session}{about}: {each.reason}", style="yellow")
    if len(delivery.questions.dropped) > MOST_TELLINGS:
        rest = len(delivery.questions.dropped) - MOST_TELLINGS
        say(console, f"and {rest:,} more; --json lists them all", style="yellow")
    cost = "not known (set endpoint.prices)" if values["cost_usd"] is None else f"${values['cost_usd']:.2f}"
    say(
        console,
        f"{values['kept']:,} of {wanted.wanted:,} questions kept, to be looked through in {values['questions_file']}: "
        f"{values['calls']:,} calls, {values['cached']:,} of them from the cache; cost: {cost}",
    )
    return values


def _by(by: str) -> By:
    return "conversation" if by == "conversation" else "user"


def _check(file: Path, form: str, by: str, questions: str | None, *, with_model: bool) -> int | None:
    """Return how many questions a model makes, if any. Raises BadParameter for what does not go together."""
    if form not in FORMS:
        raise typer.BadParameter(f"{form} is none of {', '.join(FORMS)}", param_hint="--from")
    if by not in ("user", "conversation"):
        raise typer.BadParameter(f"{by} is neither user nor conversation", param_hint="--by")
    if form != "chat" and (questions is not None or by != "user" or with_model):
        reason = f"{form} has questions and groups of its own"
        raise typer.BadParameter(reason, param_hint="--questions, --by, --model")
    if form == "chat" and questions is None:
        reason = "name a file of questions, or how many a model makes: without any, nothing can be scored"
        raise typer.BadParameter(reason, param_hint="--questions")
    wanted = int(questions) if questions is not None and questions.isdecimal() else None
    if wanted == 0 or (wanted is not None and not with_model):
        reason = "that many questions need --model or --config" if wanted else "must be 1 or more"
        raise typer.BadParameter(reason, param_hint="--questions")
    if wanted is None and with_model:
        raise typer.BadParameter("a model makes questions where their number is given", param_hint="--questions")
    for path in (file, *([Path(questions)] if questions is not None and wanted is None else [])):
        if not path.is_file():
            raise typer.BadParameter(f"{path}: no such file")
    return wanted


def _keep(chat: Path, questions: Path | None, out: Path) -> None:
    """Refuse an ``--out`` that is one of the files that are read. Raises BadParameter."""
    for path in (chat, *([] if questions is None else [questions])):
        if out.exists() and out.samefile(path):
            raise typer.BadParameter(
                f"{out}: is read, and would be written over; name another file", param_hint="--out"
            )


def _summary(values: dict[str, Any]) -> list[str]:
    lines = [
        f"{values['messages']:,} messages in {values['sessions']:,} sessions of {values['groups']:,} users, "
        f"{values['questions']:,} questions, written to {values['out']}"
    ]
    if values["left_out"]:
        lines.append(f"{len(values['left_out']):,} broken lines were left out, and nothing else with them")
    if values["without_questions"]:
        lines.append(f"{values['without_questions']:,} users of whom nothing is asked are not in the file")
    if values["groups"] == 1:
        lines.append("one user cannot be split: --by conversation gives each conversation a memory of its own")
    return lines

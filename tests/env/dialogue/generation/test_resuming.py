"""Users made with a language model, in several runs in one folder.

Invariants:

1. What is finished is asked for once: after any interruption the users are the same.
2. A folder holds users of the same settings, and is of one run at a time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mnemotune.env.dialogue.generation.folder import GenerationError
from mnemotune.env.dialogue.generation.generation import GenerationProgress, GenerationSetup, generate
from mnemotune.env.dialogue.generation.plan import GenerationPlan
from mnemotune.env.dialogue.generation.texts import GenerationTexts
from mnemotune.policies.lm import Budget, BudgetExhausted, EndpointDown, LanguageModelError, Limits, Metered, Request

if TYPE_CHECKING:
    from mnemotune.env.dialogue.generation.generation import Generated

Make = Callable[..., "Generated"]
MakeAuthor = Callable[..., Any]


class KilledError(Exception):
    """Ends a run from within."""


def rows(generated: Generated) -> list[Any]:
    return [scenario.model_dump(mode="json") for scenario in generated.scenarios]


def test_a_dropped_user_is_tried_again_from_its_last_good_stage_with_other_replies(
    make: Make, make_author: MakeAuthor, tmp_path: Path
) -> None:
    def spoil(asked: str, request: Request) -> str | None:
        return "nothing" if asked == "events" else None

    first = make_author(spoil)
    made = make(first)
    assert len(made.dropped) == 2
    second = make_author()
    again = make(second)
    assert rows(again) == rows(make(make_author(), parts="other"))
    assert second.kinds["questions"] == second.kinds["initial_state"] == 0
    asked_before = {(request.messages, request.repeat) for request in first.requests}
    assert not asked_before & {(request.messages, request.repeat) for request in second.requests}, (
        "a cache would repeat"
    )
    assert json.loads((tmp_path / "parts" / "dropped.json").read_text(encoding="utf-8")) == []
    assert list((tmp_path / "parts").glob("*/dropped.json")) == []


def test_a_call_that_fails_drops_its_user_and_the_next_run_asks_the_same_again(
    make: Make, make_author: MakeAuthor
) -> None:
    def fail(asked: str, request: Request) -> str | None:
        if asked == "initial_state":
            raise LanguageModelError("the endpoint timed out")
        return None

    first, second = make_author(fail), make_author()
    made = make(first)
    assert [(one.stage, one.reason) for one in made.dropped] == [("initial", "the endpoint timed out")] * 2
    assert make(second).dropped == ()
    assert {r.repeat for r in second.asked("initial_state")} == {0}


@pytest.mark.parametrize("error", [EndpointDown("no route"), BudgetExhausted("spent")])
def test_what_no_user_can_help_ends_the_run_and_what_is_finished_stays(
    make: Make, make_author: MakeAuthor, error: Exception
) -> None:
    def fail(asked: str, request: Request) -> str | None:
        if asked == "update":
            raise error
        return None

    with pytest.raises(type(error)):
        make(make_author(fail))
    author = make_author()
    assert rows(make(author)) == rows(make(make_author(), parts="other"))
    assert author.kinds["questions"] == 0


@pytest.mark.parametrize("stop_at", range(0, 64, 3))
def test_a_run_stopped_anywhere_goes_on_to_the_same_users(
    make: Make, make_author: MakeAuthor, tmp_path: Path, stop_at: int
) -> None:
    """1."""
    calls = 0

    def stop(asked: str, request: Request) -> str | None:
        nonlocal calls
        calls += 1
        if calls > stop_at:
            raise KilledError
        return None

    with pytest.raises(KilledError):
        make(make_author(stop))
    finished = {path.relative_to(tmp_path / "parts") for path in (tmp_path / "parts").glob("*/*.json")}
    before = {path: (tmp_path / "parts" / path).read_bytes() for path in finished}
    author = make_author()
    assert rows(make(author)) == rows(make(make_author(), parts="other"))
    assert {path: (tmp_path / "parts" / path).read_bytes() for path in finished} == before
    assert author.kinds["questions"] == 2 - sum(path.name == "questions.json" for path in finished)


def test_a_finished_run_asks_nothing(make: Make, make_author: MakeAuthor) -> None:
    made, author = make(make_author()), make_author()
    assert rows(make(author)) == rows(made)
    assert author.requests == []


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"questions": []}', "\x00"])
def test_a_damaged_stage_is_made_again(make: Make, make_author: MakeAuthor, tmp_path: Path, damage: str) -> None:
    made = make(make_author())
    for file in ("questions.json", "scenario.json"):
        (tmp_path / "parts" / "0000-person-0-000" / file).write_text(damage, encoding="utf-8")
    author = make_author()
    assert rows(make(author)) == rows(made)
    assert author.kinds == {"questions": 1}


def test_a_budget_is_never_overshot_and_more_of_it_goes_on(
    make_author: MakeAuthor, make: Make, plan: GenerationPlan, tagged: GenerationTexts, tmp_path: Path
) -> None:
    calls, runs = 0, 0
    while True:
        author = make_author()
        metered = Metered(author, budget=Budget(Limits(calls=25)))
        runs += 1
        try:
            made = asyncio.run(generate(GenerationSetup(plan, tagged), metered, tmp_path / "thrifty"))
        except BudgetExhausted:
            assert len(author.requests) <= 25
            calls += len(author.requests)
            continue
        break
    assert runs > 2
    assert rows(made) == rows(make(make_author()))


# Folders


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"questions": 2, "changes_per_period": 1}, "changes_per_period was 2 and is 1; questions was 3 and is 2"),
        ({"language": "Welsh"}, 'language was "English" and is "Welsh"'),
        ({"compat": frozenset({"unshuffled_choices"})}, 'compat was [] and is ["unshuffled_choices"]'),
    ],
)
def test_other_settings_are_refused_in_the_same_folder(
    make: Make, make_author: MakeAuthor, changed: dict[str, Any], told: str
) -> None:
    make(make_author())
    with pytest.raises(GenerationError, match="holds users made from other settings") as error:
        make(make_author(), **changed)
    assert told in str(error.value)
    assert "--parts" in str(error.value)


def test_another_model_other_texts_and_other_people_are_refused(
    make: Make, make_author: MakeAuthor, tagged: GenerationTexts, tmp_path: Path
) -> None:
    make(make_author())
    other = make_author()
    other.name = "another"
    with pytest.raises(GenerationError, match='model was "author" and is "another"'):
        make(other)
    with pytest.raises(GenerationError, match="texts was"):
        make(make_author(), texts=tagged.model_copy(update={"events": f"{tagged.events} Please."}))
    people = tmp_path / "people.json"
    people.write_text(json.dumps([{"id": str(n), "persona": "Likes tea."} for n in range(3)]), encoding="utf-8")
    with pytest.raises(GenerationError, match="personas was null"):
        make(make_author(), personas=people)


def test_more_patience_is_no_other_setting(make: Make, make_author: MakeAuthor) -> None:
    make(make_author(lambda asked, _: "nothing" if asked == "events" else None), attempts=1)
    assert make(make_author(), attempts=3, refinements=9).dropped == ()


def test_a_folder_of_something_else_or_a_damaged_one_is_left_alone(
    make: Make, make_author: MakeAuthor, tmp_path: Path
) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "package.json").write_text("{}", encoding="utf-8")
    with pytest.raises(GenerationError, match="in use for something else"):
        make(make_author(), parts="foreign")
    make(make_author())
    for damaged in ("{", "[]", "null"):
        (tmp_path / "parts" / "plan.json").write_text(damaged, encoding="utf-8")
        with pytest.raises(GenerationError, match=r"plan\.json: is damaged"):
            make(make_author())


def test_two_runs_do_not_share_a_folder(
    make_author: MakeAuthor, plan: GenerationPlan, tagged: GenerationTexts, tmp_path: Path
) -> None:
    async def both() -> None:
        first = asyncio.create_task(
            generate(GenerationSetup(plan, tagged), make_author(delay=lambda _: 0.01), tmp_path / "p")
        )
        await asyncio.sleep(0)
        with pytest.raises(GenerationError, match="another run"):
            await generate(GenerationSetup(plan, tagged), make_author(), tmp_path / "p")
        assert (await first).dropped == ()

    asyncio.run(both())


def test_progress_is_told_stage_by_stage(
    make_author: MakeAuthor, plan: GenerationPlan, tagged: GenerationTexts, tmp_path: Path
) -> None:
    told: list[GenerationProgress] = []
    asyncio.run(generate(GenerationSetup(plan, tagged), make_author(), tmp_path / "parts", tell=told.append))
    assert told[-1].users == 2
    assert [(p.users, p.stages) for p in told] == sorted((p.users, p.stages) for p in told)
    files = list((tmp_path / "parts").glob("*/*.json"))
    assert told[-1].stages == len(files)

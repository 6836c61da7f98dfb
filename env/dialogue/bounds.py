"""The dialogue's floor and ceiling: a blind choice, and the same model with the states given."""

from __future__ import annotations

from ...data.dialogue.scenario import Question, Scenario, check_id
from ...policies.forms import number_form
from ...policies.lm import LanguageModel, Message, Request
from ..concurrency import side_by_side
from ..episode import Mark
from .compat import Compat
from .protocol import Protocol, gold_choice, read_answer, upper_bound_prompt
from .record import Answer, DialogueBounds, UpperBound, answer_of
from .scoring import upper_bound_answers


async def find_bounds(scenario: Scenario, model: LanguageModel, protocol: Protocol) -> DialogueBounds:
    """Ask for every choice of every question with its states given. Raises LanguageModelError."""
    model = protocol.asked(model)
    choices = await side_by_side(_with_each_state(question, model, protocol) for question in scenario.qas)
    return bounds_of(scenario, tuple(choices), protocol.compat)


def bounds_of(scenario: Scenario, choices: UpperBound, compat: Compat) -> DialogueBounds:
    """Return the bounds of each check, made of the answers to each choice's state."""
    floor, ceiling = dict[str, Mark](), dict[str, Mark]()
    for p, period in enumerate(scenario.periods):
        golds = [gold_choice(question, period.state, compat=compat) for question in scenario.qas]
        for q, (answer, _) in enumerate(upper_bound_answers(scenario, p, golds, choices, compat)):
            check = scenario.checks[check_id(p, q)]
            floor[check.id] = Mark(check.id, "", check.chance)
            ceiling[check.id] = answer.mark(check.id, dict.fromkeys(check.needs, True))
    return DialogueBounds(floor, ceiling, choices)


async def _with_each_state(question: Question, model: LanguageModel, protocol: Protocol) -> tuple[Answer, ...]:
    async def with_state_of(choice: int) -> Answer:
        state = dict(zip(question.required_info, question.answer_choices[choice].state, strict=True))
        prompt = upper_bound_prompt(protocol.templates.upper_bound, question, state, compat=protocol.compat)
        request = Request(
            (Message("user", prompt),), role="upper_bound", form=number_form(len(question.answer_choices))
        )
        raw = (await model.complete(request)).text
        return answer_of(raw, read_answer(raw, question, compat=protocol.compat), choice, question)

    return tuple(await side_by_side(map(with_state_of, range(len(question.answer_choices)))))

"""What the embedded model makes of the right evidence: only the messages that state what a question needs.

python -m mnemotune.experiments.embedded_model.evidence DATA...
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from typer import Argument

from ...data.dialogue.load import load_scenarios
from ...data.dialogue.scenario import Question, Scenario
from ...env.dialogue.protocol import Protocol, answer_prompt, gold_choice, probe_prompt, read_answer, read_probe
from ...policies.lm.base import Message, Request
from ...policies.lm.embedded import EmbeddedModel
from ..command import run


def cases(scenario: Scenario) -> Iterator[tuple[Question, dict[str, str], list[Message]]]:
    """Yield each question in each period, with the states behind it and the messages that last stated them."""
    messages_of: dict[str, str] = {}
    for period in scenario.periods:
        for session in period.sessions:
            messages_of |= dict.fromkeys(session.exposed_states, session.opening)
        for question in scenario.qas:
            messages = dict.fromkeys(messages_of[info] for info in question.required_info)
            states = {info: period.state[info] for info in question.required_info}
            yield question, states, [Message("user", text) for text in messages]


async def count(scenario: Scenario, model: EmbeddedModel, protocol: Protocol) -> Counter[str]:
    """Count questions and states, and those that the model gets right."""
    counts: Counter[str] = Counter()
    texts = protocol.templates
    for question, states, messages in cases(scenario):
        replies = [
            (await model.complete(Request((*messages, Message("user", prompt)), role="answer"))).text
            for prompt in (answer_prompt(texts.answer, question), probe_prompt(texts.probe, question, scenario))
        ]
        values = read_probe(replies[1]) or {}
        counts["questions"] += 1
        counts["answered"] += read_answer(replies[0], question) == gold_choice(question, states)
        counts["states"] += len(states)
        counts["known"] += sum(values.get(info) == value for info, value in states.items())
    return counts


def main(
    sources: Annotated[list[str] | None, Argument(metavar="DATA...", help="Users; without, base.")] = None,
) -> None:
    """Print a table."""
    print("| data | users | answers | probes |\n|---|---|---|---|")
    for data in sources or ["base"]:
        scenarios = load_scenarios(data)
        counts: Counter[str] = Counter()
        for scenario in scenarios:
            counts += asyncio.run(count(scenario, EmbeddedModel(), Protocol()))
        answers, probes = counts["answered"] / counts["questions"], counts["known"] / counts["states"]
        print(f"| {data} | {len(scenarios)} | {answers:.3f} | {probes:.3f} |")


if __name__ == "__main__":
    run(main)

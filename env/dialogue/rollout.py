"""Run one policy in one scenario: an assistant with memory talks to a simulated user, and is questioned on the way."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ...data.dialogue.scenario import Period, Question, Scenario, check_id
from ...policies.assistant import Assistant
from ...policies.forms import choice_form, number_form
from ...policies.lm import LanguageModelError, Message, Refused, Request
from ...policies.policy import MemoryPolicy
from ..calls import recorded
from ..concurrency import Running, both, start
from ..concurrency import end as end_all
from ..episode import Episode, Event, Revision, StageRecord
from ..evidence import evidence, pieces_of
from ..rollout import AssistantRollout
from ..track import Cast
from .compat import guess_answers
from .evolution import Exam, rewrite
from .protocol import (
    Protocol,
    answer_prompt,
    gold_choice,
    probe_prompt,
    probed,
    read_answer,
    read_probe,
    schema_hints,
    user_prompt,
)
from .record import Answer, Probe, Turn, answer_of, record_period


@dataclass(slots=True)
class _Questioning:
    """A period's questions and probes, under way on a copy of the memory, which goes when they are over."""

    events: tuple[Event, ...]
    """Of the talk before."""
    answers: Running[tuple[Answer, ...]]
    probes: Running[tuple[Probe, ...]]
    reworded: Running[tuple[Answer, ...]]
    """Answers to the same questions in other words; none where they are not asked."""
    revisions: tuple[Revision, ...] = ()


class DialogueRollout(AssistantRollout[Scenario]):
    """One episode under way, which can stop after any period and go on later.

    Off-policy, where there is a ``replay``: the assistant listens, and is questioned all the same. A period's
    questions and probes run on a copy of the memory while the next period's talk goes on; an evolving policy waits for
    the answers. ``guesses`` stand in at once for answers that cannot be read (``compat: guessed_answers``).
    """

    def __init__(
        self,
        scenario: Scenario,
        policy: MemoryPolicy,
        cast: Cast,
        protocol: Protocol,
        *,
        replay: Episode | None = None,
        guesses: random.Random | None = None,
    ) -> None:
        """Begin with the first period."""
        cast = replace(cast, assistant=protocol.asked(cast.assistant))
        super().__init__(scenario, policy, cast, schema_hints(scenario))
        self.scenario, self.protocol = scenario, protocol
        self.replay, self.guesses = replay, guesses

    async def go_on(self, end: int) -> None:
        """Talk and question until ``end`` periods are over; where a talk fails, the periods before are recorded."""
        exams: list[_Questioning] = []
        try:
            with self.noting_failure():
                for p in range(len(self.records), end):
                    period = self.scenario.periods[p]
                    talk = self._talk(p, period) if self.replay is None else self._listen(self.replay.stages[p])
                    events = await talk
                    asked = await self.assistant.fork()
                    exams.append(self._question(p, events, asked))
                    if self.policy.evolution is not None and self.protocol.evolves_after(p, self.scenario):
                        exams[-1].revisions = await self._evolve(period, exams[-1], asked)
                    del asked
            for exam in exams:
                record = record_period(
                    self.scenario,
                    len(self.records),
                    events=exam.events,
                    answers=await exam.answers.result(),
                    probes=await exam.probes.result(),
                    reworded=await exam.reworded.result(),
                    revisions=exam.revisions,
                )
                self.records.append(record)
        finally:
            await end_all([running for exam in exams for running in (exam.answers, exam.probes, exam.reworded)])

    async def _talk(self, p: int, period: Period) -> tuple[Event, ...]:
        events: list[Event] = []
        for s, session in enumerate(period.sessions):
            text = session.opening
            for more in reversed(range(self.protocol.rounds(p))):
                turn = Turn(text, await self.assistant.respond(text))
                said = self.observed(s, "say", turn.messages)
                if more:  # the simulated user does not wait for what the assistant writes down
                    met, text = await both(said, self._follow_up(p, session.opening, turn))
                else:
                    met = await said
                events += met
        return tuple(events)

    async def _listen(self, stage: StageRecord) -> tuple[Event, ...]:
        events: list[Event] = []
        for event in stage.events:
            if event.kind == "say":
                events += await self.observed(event.step, "say", event.seen)
        return tuple(events)

    async def _follow_up(self, p: int, opening: str, turn: Turn) -> str:
        prompt = user_prompt(self.protocol.templates.user, self.scenario, p, opening, (turn.user, turn.assistant))
        try:
            completion = await self.user.complete(Request((Message("user", prompt),), role="user", temperature=0.2))
        except Refused as error:  # what the simulated user cannot say is no fault of the policy's
            raise LanguageModelError(str(error)) from error
        return completion.text.strip()

    def _question(self, p: int, events: tuple[Event, ...], assistant: Assistant) -> _Questioning:
        return _Questioning(
            events,
            start(self._answers(p, assistant)),
            start(self._probes(self.scenario.periods[p], assistant)),
            start(self._answers_reworded(p, assistant)),
        )

    async def _answers(self, p: int, assistant: Assistant) -> tuple[Answer, ...]:
        questions, template = self.scenario.qas, self.protocol.templates.answer
        answers = await self.in_line(self._answer(p, q, assistant, template) for q in range(len(questions)))
        return tuple(answers) if self.guesses is None else guess_answers(answers, questions, self.guesses)

    async def _answers_reworded(self, p: int, assistant: Assistant) -> tuple[Answer, ...]:
        questions, template = self.scenario.qas if self.reworded else (), self.protocol.templates.answer_reworded
        return tuple(await self.in_line(self._answer(p, q, assistant, template) for q in range(len(questions))))

    async def _probes(self, period: Period, assistant: Assistant) -> tuple[Probe, ...]:
        return tuple(await self.in_line(self._probe(question, period, assistant) for question in self.scenario.qas))

    async def _evolve(self, period: Period, exam: _Questioning, assistant: Assistant) -> tuple[Revision, ...]:
        template = self.protocol.templates.answer
        prompts = [answer_prompt(template, q, compat=self.protocol.compat) for q in self.scenario.qas]
        memories = [(await assistant.context(prompt)).listing for prompt in prompts]
        results = Exam(self.scenario.qas, await exam.answers.result(), memories)
        memory = self.assistant.memory
        policy, revisions = await rewrite(memory.policy, period, results, model=self.model, protocol=self.protocol)
        await memory.adopt(policy)
        return revisions

    async def _answer(self, p: int, q: int, assistant: Assistant, template: str) -> Answer:
        compat, question = self.protocol.compat, self.scenario.qas[q]
        prompt, form = answer_prompt(template, question, compat=compat), number_form(len(question.answer_choices))
        with recorded() as calls:
            raw, context = await assistant.answer_and_context(prompt, form=form)
        gold = gold_choice(question, self.scenario.periods[p].state, compat=compat)
        shown = evidence(self.scenario, self.scenario.checks[check_id(p, q)], context)
        answer = answer_of(raw, read_answer(raw, question, compat=compat), gold, question)
        return replace(answer, shown=shown, context=pieces_of(context), calls=tuple(calls))

    async def _probe(self, question: Question, period: Period, assistant: Assistant) -> Probe:
        prompt = probe_prompt(self.protocol.templates.probe, question, self.scenario)
        if "unread_external_probes" in self.protocol.compat and self.policy.store == "external":
            assistant = await assistant.fork(memories=False)
        form = choice_form(probed(question, self.scenario))
        with recorded() as calls:
            raw = await assistant.answer(prompt, role="probe", form=form)
        values = read_probe(raw, compat=self.protocol.compat)
        if "unread_evolved_probes" in self.protocol.compat and self.policy.evolution is not None:
            values = None
        right = {info: (values or {}).get(info) == period.state[info] for info in question.required_info}
        return Probe(raw, values, right, tuple(calls))


async def rollout(
    scenario: Scenario,
    policy: MemoryPolicy,
    cast: Cast,
    *,
    protocol: Protocol | None = None,
    replay: Episode | None = None,
    guesses: random.Random | None = None,
) -> Episode:
    """Run one whole episode, as ``DialogueRollout`` has it."""
    return await DialogueRollout(scenario, policy, cast, protocol or Protocol(), replay=replay, guesses=guesses).run()

"""Make simulated users from the library: seeded, no language model, in the proportions of AMemGym's v1.base."""

from __future__ import annotations

import calendar
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise, product
from typing import Literal

from .library import Phrased, Topic, ValueTexts, load_library
from .personas import person
from .scenario import AnswerChoice, Period, Question, Scenario, ScenarioError, Session, State, Update
from .sizes import BASE, Phrasing, Shape, Size

START = date(2020, 10, 1)
_BEGINNINGS = re.compile(r"(?<!\w)\S")
ASKED = 0.78
"""Share of facts that are told inside a request, as on AMemGym's real users: 953 of 1,226."""
CHANGED = 0.7
"""Share of changed values that are told as a change."""
TALK, TALK_ELSEWHERE = 0.2, 0.1
"""How often a message has talk about its topic, and about another one."""


def generate_scenarios(*, users: int, seed: int, shape: Shape = BASE, phrasing: Phrasing = "a") -> list[Scenario]:
    """Make ``users`` scenarios; user ``i`` is the same however many are made, and lives the same life in each phrasing.

    Raises ScenarioError when a scenario fails its own checks (see ``check_scenario``).
    """
    statements = Statements(load_library())
    scenarios = [generate_scenario(index, seed=seed, shape=shape, phrasing=phrasing) for index in range(users)]
    for scenario in scenarios:
        check_scenario(scenario, statements)
    return scenarios


def generate_scenario(index: int, *, seed: int, shape: Shape = BASE, phrasing: Phrasing = "a") -> Scenario:
    """Make user ``index``, unchecked."""
    return _Life(load_library(), shape, seed, index, phrasing).scenario()


def id_of(index: int, *, seed: int) -> str:
    """Return the id of user ``index``."""
    return f"user-{seed}-{index:03d}"


def scenarios_of(size: Size) -> list[Scenario]:
    """Make a bundled set's users anew."""
    return generate_scenarios(users=size.users, seed=size.seed, shape=size.shape, phrasing=size.phrasing)


class Statements:
    """The sentences of a library that tell a value; one begins where a word does."""

    def __init__(self, library: Mapping[str, Topic]) -> None:
        """Put them in order by how they begin."""
        self._meaning = {
            statement: (info, value)
            for topic in library.values()
            for info, variable in topic.variables.items()
            for value, texts in variable.values.items()
            for statement in texts.statements
        }
        self._size = min(map(len, self._meaning))
        self._by_beginning = defaultdict[str, list[str]](list)
        for statement in self._meaning:
            self._by_beginning[statement[: self._size]].append(statement)

    def told_in(self, text: str) -> set[tuple[str, str]]:
        """Return the states that a text tells, each with its value."""
        return {
            self._meaning[statement]
            for place in (match.start() for match in _BEGINNINGS.finditer(text))
            for statement in self._by_beginning.get(text[place : place + self._size], ())
            if text.startswith(statement, place)
        }


def check_scenario(scenario: Scenario, statements: Statements) -> None:
    """Check what the generator promises.

    Each session's query exposes exactly its states, every variant of a question has a state and a text of its own, and
    every question has its right answer in every period. Raises ScenarioError naming user, period and field.
    """
    for p, period in enumerate(scenario.periods):
        for s, session in enumerate(period.sessions):
            exposed = statements.told_in(session.query)
            if exposed != set(session.exposed_states.items()):
                raise ScenarioError(
                    f"user {scenario.id}: period {p}: sessions[{s}].query exposes {sorted(exposed)}, "
                    f"not {sorted(session.exposed_states.items())}"
                )
    for q, question in enumerate(scenario.qas):
        choices = question.answer_choices
        states, answers = {tuple(choice.state) for choice in choices}, {choice.answer for choice in choices}
        for what, distinct in (("states", states), ("answers", answers)):
            if len(distinct) < len(choices):
                raise ScenarioError(f"user {scenario.id}: qas[{q}].answer_choices: two choices have equal {what}")
    scenario.check_golds()


@dataclass
class _Life:
    """One user in the making."""

    library: Mapping[str, Topic]
    shape: Shape
    seed: int
    index: int
    phrasing: Phrasing
    used: Counter[str] = field(default_factory=Counter)

    def scenario(self) -> Scenario:
        self.random = random.Random(f"scenario:{self.seed}:{self.index}")
        topics = self.random.sample(sorted(self.library), self.shape.questions)
        questions = [self._states_and_ask(self.library[topic]) for topic in topics]
        self.topic_of = {info: topic for topic, (about, _) in zip(topics, questions, strict=True) for info in about}
        states = list(self._states())
        periods = [self._period(p, states) for p in range(len(states))]
        qas = [self._question(about, ask, states) for about, ask in questions]
        return Scenario(
            id=id_of(self.index, seed=self.seed),
            start_time=START,
            user_profile=person(self.random, hobbies=topics),
            state_schema={info: self._shuffled(self._values(info)) for info in self.topic_of},
            periods=periods,
            qas=qas,
        )

    def _states_and_ask(self, topic: Topic) -> tuple[tuple[str, ...], Phrased]:
        """Draw the states that a question depends on, and return the ways to ask it."""
        pair = self.random.choice(topic.questions)
        others = [info for info in topic.variables if info not in pair.about]
        more = self.random.sample(others, self.shape.states_per_question - len(pair.about))
        return (*pair.about, *more), pair.ask

    def _values(self, info: str) -> dict[str, ValueTexts]:
        return self.library[self.topic_of[info]].variables[info].values

    def _shuffled(self, items: Mapping[str, object]) -> list[str]:
        return self.random.sample(sorted(items), len(items))

    def _states(self) -> Iterator[State]:
        state = {info: self.random.choice(sorted(self._values(info))) for info in self.topic_of}
        yield state
        changes: Counter[str] = Counter()
        for _ in range(self.shape.changed_periods):
            wanted = self.shape.changes_per_period + self.random.choice((-1, 0, 0, 0, 0, 1))
            free = [info for info in state if changes[info] < self.shape.changes_per_state]
            changed = self.random.sample(free, min(wanted, len(free)))
            state = state | {info: self._other_value(info, state[info]) for info in changed}
            changes.update(changed)
            yield state

    def _other_value(self, info: str, value: str) -> str:
        return self.random.choice([other for other in sorted(self._values(info)) if other != value])

    def _period(self, p: int, states: list[State]) -> Period:
        state, before = states[p], states[p - 1] if p else {}
        end = add_months(START, p * self.shape.months_per_period)
        updates = {info: Update(old=before.get(info), new=v) for info, v in state.items() if before.get(info) != v}
        groups = self._groups(list(updates), together=0.84 if p == 0 else 0.12)
        days = [end - timedelta(days=len(groups) - 1 - s) for s in range(len(groups))]
        totals = Counter(i for a, b in pairwise(states) for i in b if a[i] != b[i])
        return Period(
            period_start=add_months(START, (p - 1) * self.shape.months_per_period) if p else None,
            period_end=end,
            sessions=[self._session(g, state, day, initial=p == 0) for g, day in zip(groups, days, strict=True)],
            state=state,
            updates=updates,
            update_cnts={info: totals[info] for info in state},
        )

    def _groups(self, infos: list[str], *, together: float) -> list[list[str]]:
        """Deal states to sessions: mostly one, two where the talk covers both."""
        by_topic: dict[str, list[str]] = {}
        for info in infos:
            by_topic.setdefault(self.topic_of[info], []).append(info)
        groups: list[list[str]] = []
        for same in by_topic.values():
            as_one = len(same) > 1 and self.random.random() < together
            groups += [same] if as_one else [[info] for info in same]
        self.random.shuffle(groups)
        return groups

    def _session(self, infos: list[str], state: State, day: date, *, initial: bool) -> Session:
        seconds = self.random.randrange(3 * 3600)
        clock = f"{19 + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return Session(
            exposed_states={info: state[info] for info in infos},
            query=self._query(infos, state, initial=initial),
            session_time=f"{day.isoformat()} {clock}",
        )

    def _query(self, infos: list[str], state: State, *, initial: bool) -> str:
        texts, asked = [], False
        for info in infos:
            told = self._values(info)[state[info]].tellings(self.phrasing)
            changed, asks = not initial and self.random.random() < CHANGED, self.random.random() < ASKED
            asked = asked or asks
            if changed:
                texts.append(self._fresh(told.change_asked if asks else told.change_stated))
            else:
                texts.append(self._fresh(told.asked if asks else told.stated))
        for line in self._talk(self.topic_of[infos[0]]):
            texts.insert(self.random.randrange(len(texts) + 1), line)
        if not asked:
            request = self.library[self.topic_of[infos[0]]].variables[self.random.choice(infos)].ask
            texts.append(self._fresh(request.lines(self.phrasing)))
        return " ".join(texts)

    def _talk(self, topic: str) -> list[str]:
        talk = []
        if self.random.random() < TALK:
            talk.append(self._fresh(self.library[topic].chat.lines(self.phrasing)))
        if self.random.random() < TALK_ELSEWHERE:
            elsewhere = self.library[self.random.choice(sorted(set(self.topic_of.values())))]
            talk.append(self._fresh(elsewhere.chat.lines(self.phrasing)))
        return list(dict.fromkeys(talk))

    def _fresh(self, lines: tuple[str, ...]) -> str:
        """Pick one of the lines used least by this user so far."""
        least = min(self.used[line] for line in lines)
        line = self.random.choice([line for line in lines if self.used[line] == least])
        self.used[line] += 1
        return line

    def _question(self, about: tuple[str, ...], ask: Phrased, states: list[State]) -> Question:
        lived = list(dict.fromkeys(tuple(state[info] for info in about) for state in states))
        others = [v for v in product(*(sorted(self._values(info)) for info in about)) if v not in lived]
        filler = self.random.sample(others, max(0, self.shape.min_variants - len(lived)))
        advice = {
            (info, value): self.random.choice(texts.advice)
            for info in about
            for value, texts in sorted(self._values(info).items())
        }
        choices = []
        for variant in (*lived, *filler):
            lines = [advice[info, value] for info, value in zip(about, variant, strict=True)]
            self.random.shuffle(lines)
            kind: Literal["experience", "random"] = "experience" if variant in lived else "random"
            choices.append(AnswerChoice(state=list(variant), answer=" ".join(lines), type=kind))
        self.random.shuffle(choices)
        return Question(
            query=self.random.choice(ask.lines(self.phrasing)), required_info=list(about), answer_choices=choices
        )


def add_months(day: date, months: int) -> date:
    """Return the same day of a later month, or the month's last where it is too short."""
    years, month = divmod(day.month - 1 + months, 12)
    year = day.year + years
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))

"""A row of tau2-bench: what a customer wants, how the databases begin, and what is rewarded (its v1.0.1)."""

from __future__ import annotations

from typing import Any, Literal

from ..record import Record

Requestor = Literal["assistant", "user"]
"""Who calls a tool: the agent, or the customer."""
Basis = Literal["DB", "ENV_ASSERTION", "ACTION", "COMMUNICATE", "NL_ASSERTION"]


class Action(Record):
    """A tool call of the gold plan."""

    action_id: str
    requestor: Requestor = "assistant"
    name: str
    arguments: dict[str, Any]
    info: str | None = None
    compare_args: tuple[str, ...] | None = None
    """The arguments that have to be equal where actions are rewarded; None: those that the agent's call has."""


class EnvCall(Record):
    """A function of the agent's or the customer's side that sets up or looks at a database."""

    env_type: Requestor
    func_name: str
    arguments: dict[str, Any]


class EnvAssertion(EnvCall):
    """A function whose truth value is expected."""

    assert_value: bool = True
    message: str | None = None


class InitialData(Record):
    """What is changed in the databases before the dialogue."""

    agent_data: dict[str, Any] | None = None
    user_data: dict[str, Any] | None = None


class PastCall(Record):
    """A tool call of the message history."""

    name: str
    arguments: dict[str, Any]
    requestor: Requestor | None = None
    """Who has called; None: whose message it is."""


class PastMessage(Record):
    """A message of the history."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: tuple[PastCall, ...] | None = None


class InitialState(Record):
    """What has happened before the dialogue."""

    initialization_data: InitialData | None = None
    initialization_actions: tuple[EnvCall, ...] | None = None
    message_history: tuple[PastMessage, ...] | None = None


class Instructions(Record):
    """The customer's hidden script."""

    domain: str
    reason_for_call: str
    known_info: str | None = None
    unknown_info: str | None = None
    task_instructions: str


class UserScenario(Record):
    """Who calls, and with which script."""

    persona: str | None = None
    instructions: Instructions | str

    @property
    def script(self) -> tuple[str, ...]:
        """The texts of the hidden script."""
        if isinstance(self.instructions, str):
            return (self.instructions,)
        given = self.instructions
        texts = (given.reason_for_call, given.known_info, given.unknown_info, given.task_instructions)
        return tuple(text for text in texts if text)


class Criteria(Record):
    """What is rewarded."""

    actions: tuple[Action, ...] | None = None
    env_assertions: tuple[EnvAssertion, ...] | None = None
    communicate_info: tuple[str, ...] | None = None
    nl_assertions: tuple[str, ...] | None = None
    reward_basis: tuple[Basis, ...] = ("DB", "COMMUNICATE")


class Row(Record):
    """One task."""

    id: str
    description: dict[str, Any] | str | None = None
    user_scenario: UserScenario
    ticket: str | None = None
    initial_state: InitialState | None = None
    evaluation_criteria: Criteria | None = None

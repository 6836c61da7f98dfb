"""Requests whose worst case is known, at prices whose sums are exact."""

from __future__ import annotations

from dataclasses import replace

from mnemotune.policies.lm import Budget, Message, Request, Usage


class Bill:
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def reserve(self) -> None:
        self.heard.append("reserve")

    async def sending(self) -> None:
        self.heard.append("sending")

    async def unanswered(self) -> None:
        self.heard.append("unanswered")


def end(budget: Budget, worst: Usage) -> None:
    """Give back what was reserved for a call."""
    budget.hold(-1, -worst.tokens, -(worst.cost_usd or 0.0))


def request(text: str = "hello", *, max_tokens: int = 100) -> Request:
    return Request((Message("user", text),), "answer", max_tokens=max_tokens)


def worst(text: str = "hello", *, max_tokens: int = 100, usd: float | None = 0.0) -> Usage:
    return Usage(most_input(request(text)), max_tokens, usd)


def price(input_tokens: int, output_tokens: int) -> float:
    """A price whose sums are exact: 1/8 of a dollar per input token, 1/4 per output token."""
    return input_tokens / 8 + output_tokens / 4


def most_input(asked: Request) -> int:
    return 64 + sum(len(message.content.encode()) + 16 for message in asked.messages)


def priced(tokens: Usage) -> Usage:
    return replace(tokens, cost_usd=price(tokens.input_tokens, tokens.output_tokens))

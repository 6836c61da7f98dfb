"""A small chain, and an assistant that answers as a test has written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from mnemotune.data.research.task import SUBJECT, Claim, Document, Hop, ResearchTask, Turn
from mnemotune.env.track import Cast
from mnemotune.policies.lm import Completion, LanguageModel, Request
from mnemotune.policies.lm.ledger import Usage
from mnemotune.policies.lm.lexical import LexicalEmbedder

DOCUMENTS = (
    Document("Arda", "Arda takes its cache from Belo.", supporting=True),
    Document("Arda Two", "Arda Two takes its cache from Belu."),
    Document("Belo", "The maintainer of Belo is Cleo.", supporting=True),
    Document("Belu", "The maintainer of Belu is Dora."),
    Document("Weather", "It rained on most of the days."),
    Document("Correction", "Arda takes its cache from Belo Nine.", supporting=True),
    Document("Belo Nine", "The maintainer of Belo Nine is Emil.", supporting=True),
)


def chain(*, corrected: bool = False) -> ResearchTask:
    """Two hops with a red herring between them, which corrects the first answer where wanted."""
    claims = (Claim("Belo", "Arda takes its cache from Belo.", 0, 0),)
    end = Claim("Cleo", "The maintainer of Belo is Cleo.", 2, 2)
    if corrected:
        claims += (Claim("Belo Nine", "Arda takes its cache from Belo Nine.", 1, 5),)
        end = Claim("Emil", "The maintainer of Belo Nine is Emil.", 2, 6)
    hops = (
        Hop("Where does Arda take its cache from?", "What is the source of Arda's cache?", "caches", claims),
        Hop(f"Who is the maintainer of {SUBJECT}?", f"By whom is {SUBJECT} maintained?", "maintainers", (end,)),
    )
    turns = (
        Turn("Arda cache", (0, 1), 0),
        Turn("weather", (4,), None, (5,) if corrected else ()),
        Turn(f"{SUBJECT} maintainer", (6 if corrected else 2, 3), 1),
    )
    return ResearchTask("t", "g", "Who maintains the source of Arda's cache?", end.value, DOCUMENTS, hops, turns)


class Answers(LanguageModel):
    """Answers each question as is written down for its first words; else with nothing."""

    name = "answers"

    def __init__(self, says: Mapping[str, str]) -> None:
        self.says = says
        self.questions: list[str] = []

    async def complete(self, request: Request) -> Completion:
        question = request.messages[-1].content.split("\n")[0]
        self.questions.append(question)
        value = next((value for start, value in self.says.items() if question.startswith(start)), "")
        return Completion(json.dumps({"value": value}), Usage(1, 1))


@pytest.fixture(scope="session")
def make_chain() -> Callable[..., ResearchTask]:
    return chain


@pytest.fixture
def answering() -> Callable[[Mapping[str, str]], tuple[Cast, Answers]]:
    def cast(says: Mapping[str, str]) -> tuple[Cast, Answers]:
        model = Answers(says)
        return Cast(model, model, LexicalEmbedder()), model

    return cast

"""The embedded model: an extractive reader that needs no key, no download and no GPU.

It sees nothing but the messages of a call. Its mistakes come from reading (distractors, long contexts, lost updates).
It is for quick starts, tests and optimizer research, not a stand-in for a real language model.
"""

from __future__ import annotations

from ..base import Completion, LanguageModel, Request, estimated_tokens
from ..ledger import Usage
from .reading import Reading
from .tasks import read_and_reply


class EmbeddedModel(LanguageModel):
    """The language model that ships with mnemotune."""

    name = "embedded"

    def __init__(self, reading: Reading = Reading()) -> None:  # noqa: B008 - frozen
        """Read with these parameters."""
        self._reading = reading

    async def complete(self, request: Request) -> Completion:
        """Return what the model makes of the request's messages, and of nothing else."""
        text = read_and_reply(request.messages, self._reading)
        usage = Usage(estimated_tokens(*(m.content for m in request.messages)), estimated_tokens(text))
        return Completion(text, usage)

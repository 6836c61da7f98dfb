"""The embedded model: an extractive reader that needs no key, no download and no GPU.

It sees nothing but the messages of a call. Its mistakes come from reading (distractors, long contexts, lost updates).
It is for quick starts, tests and optimizer research, not a stand-in for a real language model.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..base import Completion, LanguageModel, Request, estimated_tokens
from ..ledger import Usage
from .readers import READERS
from .reading import Reading
from .tasks import read_and_reply


class EmbeddedModel(LanguageModel):
    """The language model that ships with mnemotune: a family of readers; the first replies where none is asked for."""

    name = "embedded"

    def __init__(self, readers: Mapping[str, Reading] = READERS) -> None:
        """Read with the parameters of these readers, by name."""
        self._readers = dict(readers)
        self._first = next(iter(readers))

    async def complete(self, request: Request) -> Completion:
        """Return what the reader makes of the request's messages, and of nothing else."""
        text = read_and_reply(request.messages, self._readers[request.reader or self._first])
        usage = Usage(estimated_tokens(*(m.content for m in request.messages)), estimated_tokens(text))
        return Completion(text, usage)

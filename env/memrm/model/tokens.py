"""Prompts as token ids."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from .render import ANSWERS, Prompt

PAD = "<pad>"


@dataclass(frozen=True, slots=True)
class Ids:
    """A prompt's token ids. The parts are cut apart before they are tokenised, so that they are shared as they are."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    @property
    def whole(self) -> tuple[int, ...]:
        """All ids, in order."""
        return self.prefix + self.suffix


class Tokens:
    """A tokenizer that knows the two answers as one token each."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Wrap a tokenizer. Raises ValueError when an answer is not a single token of it."""
        self.tokenizer = tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.tokenizer.encode_special_tokens = True  # a text that spells one out is text
        answers = [tokenizer.encode(answer, add_special_tokens=False).ids for answer in ANSWERS]
        if any(len(ids) != 1 for ids in answers) or answers[0] == answers[1]:
            raise ValueError(f"the tokenizer does not have {ANSWERS[0]!r} and {ANSWERS[1]!r} as one token each")
        self.safe, self.harmful = (ids[0] for ids in answers)

    @property
    def size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(self.tokenizer.get_vocab_size())

    def encode(self, prompts: Iterable[Prompt]) -> list[Ids]:
        """Return each prompt's ids. Special tokens that a text spells out are read as that text's characters."""
        pieces = [piece for prompt in prompts for piece in (prompt.prefix, prompt.suffix)]
        encodings = self.tokenizer.encode_batch(pieces, add_special_tokens=False)
        ids = [tuple(encoding.ids) for encoding in encodings]
        return [Ids(prefix, suffix) for prefix, suffix in zip(ids[::2], ids[1::2], strict=True)]

    def per_word(self, texts: Iterable[str]) -> float:
        """Return the tokens that a word takes on the average; NaN without a word."""
        given = list(texts)
        tokens = sum(len(encoding.ids) for encoding in self.tokenizer.encode_batch(given, add_special_tokens=False))
        words = sum(len(text.split()) for text in given)
        return tokens / words if words else math.nan


def train_tokens(texts: Iterable[str], *, size: int) -> Tokens:
    """Train byte-level BPE on prompts; ``size`` is that of the vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    answers = " ".join(ANSWERS * 1000)  # so that both become tokens, however often prompts hold them
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, answers], trainer)
    return Tokens(tokenizer)

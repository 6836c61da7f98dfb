"""What a sentence most likely asks for, by the words and pairs of words in it: a classifier, fitted to sentences.

`python -m mnemotune.experiments.embedded_model.classify` fits it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Self

import numpy as np

from ...text import stem
from .wording import without_places

POLES: Mapping[str, tuple[str, float]] = {
    "brief": ("length", -1.0),
    "full": ("length", 1.0),
    "dated": ("dated", 1.0),
    "replace": ("replace", 1.0),
    "own": ("own", 1.0),
    "both speakers": ("speakers", 1.0),
    "newest": ("newest", 1.0),
    "memories": ("memories", 1.0),
    "own labels": ("labels", 1.0),
}
"""What a sentence can ask for: the ability, and its pole."""
NOTHING = "nothing"
CLASSES = (*(name for pole in POLES for name in (pole, f"not {pole}")), NOTHING)
"""Each pole, its opposite, and sentences that ask for none."""
FILE = "classifier.npz"
REACH = 6
"""Words after a negation that it may turn."""
_TOKEN = re.compile(r"[a-z0-9]+(?:'[a-z]+)?|[?:*]")
_NOT_ONLY = re.compile(r"\bnot (?=(?:only|just|merely)\b)")
_NEGATIONS = frozenset(
    map(
        stem,
        "not no never without avoid nor neither none nobody nothing nowhere refrain stop cease unless hardly instead "
        "rather cannot forbid forbidden forgo prohibit refuse disregard omit skip ignore leave except drop less resist "
        "abstain exclude withhold neglect fail forget".split(),
    )
)


@dataclass(frozen=True, slots=True)
class Classifier:
    """A multinomial logistic regression over features."""

    rows: Mapping[str, int]
    """The row of each feature in the weights."""
    weights: np.ndarray
    """Features by classes, 8-bit integers."""
    scale: np.ndarray
    """What a unit of the weights is worth, by class."""
    bias: np.ndarray
    sentences: str = ""
    """A digest of the sentences that it was fitted to."""

    def chances(self, sentence: str) -> Mapping[str, float]:
        """Return the probability of each class; they sum to 1."""
        rows = [self.rows[name] for name in features(sentence) if name in self.rows]
        logits = self.bias + self.weights[rows].sum(axis=0, dtype=np.int64) * self.scale / max(len(rows), 1) ** 0.5
        odds = np.exp(logits - logits.max())
        return dict(zip(CLASSES, (odds / odds.sum()).tolist(), strict=True))

    def save(self) -> bytes:
        """Return it as a file's bytes."""
        content = io.BytesIO()
        names = np.frombuffer("\n".join(self.rows).encode(), dtype=np.uint8)
        digest = np.array(self.sentences)
        np.savez_compressed(
            content, names=names, weights=self.weights, scale=self.scale, bias=self.bias, sentences=digest
        )
        return content.getvalue()

    @classmethod
    def load(cls, content: bytes) -> Self:
        """Return what was saved."""
        with np.load(io.BytesIO(content)) as read:
            names = read["names"].tobytes().decode().split("\n")
            rows = {name: row for row, name in enumerate(names)}
            return cls(rows, read["weights"], read["scale"], read["bias"], str(read["sentences"]))


@cache
def bundled() -> Classifier:
    """Return the classifier that ships."""
    return Classifier.load(files(__package__).joinpath(FILE).read_bytes())


@lru_cache(maxsize=1 << 12)
def chances_of(sentence: str) -> Mapping[str, float]:
    """Return the probability of each class by the classifier that ships."""
    return bundled().chances(sentence)


def features(sentence: str) -> frozenset[str]:
    """Return a sentence's stems, its pairs of neighbours, and the stems that stand behind a negation."""
    text = without_places(sentence).lower().replace("\u2019", "'")
    stems = [stem(token) for token in _TOKEN.findall(_NOT_ONLY.sub("", text))]
    pairs = (" ".join(pair) for pair in pairwise(["<", *stems, ">"]))
    return frozenset([*stems, *pairs, *_negated(stems)])


def _negated(stems: Sequence[str]) -> Iterator[str]:
    left = 0
    for each in stems:
        if each in _NEGATIONS or each.endswith("n't"):
            left = REACH
        elif left:
            yield f"\u00ac{each}"
            left -= 1

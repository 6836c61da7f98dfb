"""Fit the classifier of instructions, and tell how it reads writers whose sentences it was not fitted to.

python -m mnemotune.experiments.embedded_model.classify [--out FILE]

It needs a checkout: the sentences that the tests list are among those that it is fitted to.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import numpy as np
import yaml
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from typer import Option

from ...data.cores import usable_cores
from ...policies.lm.embedded.classifier import CLASSES, NOTHING, POLES, Classifier, features
from ...policies.lm.embedded.instructions import WORDS_PER_NOTE
from ...policies.lm.embedded.lengths import word_limits
from ...policies.lm.embedded.strengths import FELT, NEUTRAL, Chances, strengths_by
from ..command import run

TESTS = Path(__file__).parents[2] / "tests/policies/lm/embedded"
FEWEST = 5
"""Sentences that a feature has to be in."""
LOOSENESS = 30.0
"""Inverse strength of the regularisation; from 8 to 30 the rates below hardly differ."""
MOST_STEPS = 300
LARGEST = 127
"""Of the weights as 8-bit integers."""

GROUPS = ("a pole", "an opposite", NOTHING)

Labelled = Sequence[tuple[str, str]]
"""What a sentence asks for, and the sentence."""


def writers() -> Mapping[str, Labelled]:
    """Return the sentences of each file, by its name."""
    folder = files(__package__).joinpath("sentences")
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".yaml"))
    return {name.removesuffix(".yaml"): _listed(folder.joinpath(name).read_text(encoding="utf-8")) for name in names}


def tested() -> Labelled:
    """Return the sentences that the tests list, and their orders in their frames."""
    frames = yaml.safe_load((TESTS / "instruction_frames.yaml").read_text(encoding="utf-8"))
    return [*_listed((TESTS / "instructions.yaml").read_text(encoding="utf-8")), *_framed(frames)]


def _listed(text: str) -> Labelled:
    return [(kind, str(sentence)) for kind, sentences in yaml.safe_load(text).items() for sentence in sentences]


def _framed(frames: Mapping[str, Sequence[Sequence[str]]]) -> Iterator[tuple[str, str]]:
    for way, is_turned in (("asking", False), ("forbidding", True), ("asking_twice_turned", False)):
        for frame in frames[way]:
            for ability, pole, order, doing in frames["orders"]:
                sentence = str(frame).format(order=order, doing=doing)
                yield _kind(ability, float(pole), is_turned=is_turned), sentence[0].upper() + sentence[1:]


def _kind(ability: str, pole: float, *, is_turned: bool) -> str:
    """Return the class of an order for a pole; what turns the opposite of a single pole round asks for it."""
    exact = {name for name, place in POLES.items() if place == (ability, pole)}
    if exact:
        return f"not {exact.pop()}" if is_turned else exact.pop()
    opposite = next(name for name, place in POLES.items() if place == (ability, -pole))
    return opposite if is_turned else f"not {opposite}"


def fit(labelled: Labelled) -> Classifier:
    """Fit a classifier; the same sentences give the same one."""
    found = [sorted(features(text)) for _, text in labelled]
    counts = Counter(name for names in found for name in names)
    rows = {name: row for row, name in enumerate(sorted(name for name, count in counts.items() if count >= FEWEST))}
    known = [[rows[name] for name in names if name in rows] for names in found]
    shares = [[max(len(names), 1) ** -0.5] * len(names) for names in known]
    ends = np.cumsum([0, *map(len, known)])
    matrix = csr_matrix((np.concatenate(shares), np.concatenate(known), ends), shape=(len(known), len(rows)))
    model = LogisticRegression(C=LOOSENESS, max_iter=MOST_STEPS)
    model.fit(matrix, [CLASSES.index(kind) for kind, _ in labelled])
    scale = np.abs(model.coef_).max(axis=1) / LARGEST
    weights = np.round(model.coef_ / scale[:, None]).astype(np.int8).T
    bias = model.intercept_.astype(np.float32)
    return Classifier(rows, weights, scale.astype(np.float32), bias, digest(labelled))


def digest(labelled: Labelled) -> str:
    """Return what tells sentences and what they ask for from others."""
    return hashlib.sha256(repr([*labelled]).encode()).hexdigest()


def sentences() -> Labelled:
    """Return all sentences that the classifier that ships is fitted to."""
    return [*tested(), *(each for labelled in writers().values() for each in labelled)]


def is_right(kind: str, text: str, chances_in: Chances | None) -> bool:
    """Tell whether a text is read as it asks for: a pole is felt, its opposite is not, and nothing is nothing."""
    strengths = dict(strengths_by(chances_in, text))
    if kind == NOTHING:
        return all(abs(strength) <= NEUTRAL for strength in strengths.values())
    ability, pole = POLES[kind.removeprefix("not ")]
    low, high = word_limits(text)
    if ability == "length" and not low <= WORDS_PER_NOTE <= high:
        strengths[ability] = 1.0 if low > WORDS_PER_NOTE else -1.0
    strength = pole * strengths[ability]
    return strength <= NEUTRAL if kind.startswith("not ") else strength >= FELT


def rates(name: str) -> tuple[str, Counter[tuple[str, str]]]:
    """Return how many sentences of a writer are read rightly, where the classifier is fitted to all the others.

    Keys are what they ask for (a pole, an opposite, nothing), and how they are read: with the grammar ``alone``, with
    the classifier (``both``), and ``count`` for all of them.
    """
    theirs = writers()[name]
    known = {text.casefold() for _, text in theirs}
    classifier = fit([each for each in sentences() if each[1].casefold() not in known])
    right = Counter[tuple[str, str]]()
    for kind, text in theirs:
        group = kind if kind == NOTHING else "an opposite" if kind.startswith("not ") else "a pole"
        right[group, "alone"] += is_right(kind, text, None)
        right[group, "both"] += is_right(kind, text, classifier.chances)
        right[group, "count"] += 1
    return name, right


def _row(name: str, right: Counter[tuple[str, str]]) -> str:
    """Return a row of the table: shares with the grammar alone, and with the classifier."""
    counts = [{way: right[group, way] for way in ("alone", "both", "count")} for group in GROUPS]
    whole = {way: sum(count[way] for count in counts) for way in ("alone", "both", "count")}
    shares = [
        f"{count['alone'] / count['count']:.3f}, {count['both'] / count['count']:.3f}" if count["count"] else ""
        for count in (whole, *counts)
    ]
    return f"| {name} | {whole['count']:,} | {' | '.join(shares)} |"


def main(out: Annotated[Path | None, Option(help="Write what is fitted to everybody here.")] = None) -> None:
    """Print the share of each writer's sentences that is read rightly."""
    with ProcessPoolExecutor(usable_cores()) as executor:
        found = list(executor.map(rates, writers()))
    print("| writer | sentences | read rightly | a pole | an opposite | nothing |", "|---" * 6 + "|", sep="\n")
    everybody = Counter[tuple[str, str]]()
    for name, right in found:
        print(_row(name, right))
        everybody.update(right)
    print(_row("all", everybody))
    if out:
        out.write_bytes(fit(sentences()).save())


if __name__ == "__main__":
    run(main)

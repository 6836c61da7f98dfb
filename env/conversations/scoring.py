"""Free-form answers scored by rule: exact match and token F1, after the usual normalisation."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

import Stemmer

from ...data.conversations.locomo import KINDS
from ...policies.replies import ReplyError, read_json_object
from ...policies.text import composed, is_mark, spaced, whole

Rule = Literal["f1", "exact", "locomo"]
"""By what an answer is scored: the overlap of its words with those of a right answer, or being one of them, or as
LoCoMo's own evaluation does."""
RULES: tuple[Rule, ...] = get_args(Rule)
NOT_SAID = "not mentioned"
"""What the prompt asks for where nothing that was said answers the question."""
RIGHT_FROM = 0.5
"""F1 from which on an answer counts as right, where it has to be right or wrong."""

_STEMMER = Stemmer.Stemmer("porter")
_LOCOMO_LEFT_OUT = re.compile(r"\b(?:a|an|the|and)\b")
_LOCOMO_ABSTAINS = "no information available", "not mentioned"
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_ABSTAINS = re.compile(
    r"(?:\b(?:not|never|nothing|no one|nobody)|n't) (?:\w+ ){0,3}?"
    r"(?:mention\w*|said|stated|specified|told|discussed|given|provided|recorded|known|available)\b"
    r"|\b(?:no|any) (?:\w+ ){0,2}(?:information|mention|record|answer|evidence|memory)\b"
    r"|\bno (?:\w+ ){1,4}(?:is|are|was|were|has been|have been) (?:ever )?"
    r"(?:mentioned|said|stated|specified|told|discussed|given|recorded)\b"
    r"|\bthere(?: is| was|'s) (?:no|nothing) (?:\w+ ){0,3}"
    r"(?:about|in (?:the|our|this|any) (?:conversation|conversations|chat|talk|messages|memory|context))\b"
    r"|\bno idea\b|\bnot aware\b"
    r"|\b(?:do not|don't|does not|doesn't|cannot|can't|could not|couldn't|did not|didn't) (?:\w+ ){0,2}"
    r"(?:know|tell|say|answer|recall|remember|find|determine)\b"
    r"|^(?:unknown|unanswerable|unclear|none|n/?a|not (?:known|available|applicable)|(?:i am |i'm )?not sure)\W*$",
    re.IGNORECASE,
)


def read_answer(raw: str) -> str | None:
    """Return the answer that a reply gives: its JSON value, or else the whole reply; None where it is empty.

    An empty value answers that nothing was said.
    """
    try:
        value = read_json_object(raw).get("value", raw)
    except ReplyError:
        value = raw
    text = whole(value if isinstance(value, str) else str(value)).strip()
    if text:
        return text
    return NOT_SAID if raw.strip() else None


def abstains(answer: str) -> bool:
    """Tell whether an answer says that nothing which was said answers the question."""
    return _ABSTAINS.search(answer.replace("\u2019", "'")) is not None


def normalised(text: str) -> str:
    """Return a text in lower case, without punctuation, articles and surplus space, much as SQuAD's evaluation has it.

    What stands on either side of punctuation is two words: `mother-in-law` is `mother in law`; a Chinese or Japanese
    character is one. Articles stay where there is nothing else, and punctuation where there is no word.
    """
    words = "".join(sign if sign.isalnum() or is_mark(sign) else " " for sign in spaced(composed(text.lower())))
    kept = _ARTICLE.sub(" ", words).split() or words.split()
    return " ".join(kept) or text.strip().casefold()


def is_exact(answer: str, right: str) -> bool:
    """Tell whether both are the same, once normalised."""
    return normalised(answer) == normalised(right)


def token_f1(answer: str, right: str) -> float:
    """Return the harmonic mean of precision and recall of an answer's words, once normalised, in [0, 1]."""
    given, wanted = normalised(answer).split(), normalised(right).split()
    return _f1(given, wanted) if given or wanted else 1.0


def _f1(given: Sequence[str], wanted: Sequence[str]) -> float:
    if not given or not wanted:
        return 0.0
    shared = sum((Counter(given) & Counter(wanted)).values())
    return 2 * shared / (len(given) + len(wanted))


def score_by_rule(answer: str | None, right: Sequence[str], rule: Rule, *, kind: str = "") -> float:
    """Return the score of an answer beside the best of the right ones, in [0, 1]; without any, abstaining is right.

    The ``kind`` of question counts for LoCoMo's rule alone.
    """
    if answer is None:
        return 0.0
    if rule == "locomo":
        return _as_locomo(answer, right, kind)
    if not right:
        return float(abstains(answer))
    if rule == "exact":
        return float(any(is_exact(answer, each) for each in right))
    return max(token_f1(answer, each) for each in right)


def _as_locomo(answer: str, right: Sequence[str], kind: str) -> float:
    """Return the score of LoCoMo's own evaluation: F1 of stems, for several turns of each part between commas.

    The stemmer is Porter's own; LoCoMo's is NLTK's, which differs in a few words.
    """
    if not right:
        return float(any(words in answer.lower() for words in _LOCOMO_ABSTAINS))
    if kind == KINDS[1]:
        return max(_of_parts(answer.split(","), each.split(",")) for each in right)
    wanted = [each.split(";")[0] for each in right] if kind == KINDS[3] else right
    return max(_f1(_locomo_stems(answer), _locomo_stems(each)) for each in wanted)


def _of_parts(given: Sequence[str], wanted: Sequence[str]) -> float:
    """Return the mean over the parts of a right answer of the best F1 of a part that is given."""
    parts = [_locomo_stems(part) for part in given]
    return sum(max(_f1(part, _locomo_stems(each)) for part in parts) for each in wanted) / len(wanted)


def _locomo_stems(text: str) -> list[str]:
    plain = _LOCOMO_LEFT_OUT.sub(" ", text.lower().translate(_PUNCTUATION))
    return [str(_STEMMER.stemWord(word)) for word in plain.split()]

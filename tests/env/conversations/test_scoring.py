"""Free-form answers by rule, and by a model that is asked for a verdict."""

from __future__ import annotations

import math

import pytest

from mnemotune.env.conversations.judge import WRONG, judge_prompt, judged, verdict_of
from mnemotune.env.conversations.scoring import Rule, abstains, is_exact, read_answer, score_by_rule, token_f1
from mnemotune.policies.lm import Completion, LanguageModel, Request, Usage
from mnemotune.policies.prompts import Templates


@pytest.mark.parametrize(
    ("answer", "right", "f1"),
    [
        ("The Grey Parrot!", "a grey parrot", 1.0),
        ("7 May, 2023", "7 May 2023", 1.0),
        ("a parrot", "a grey parrot", 2 / 3),
        ("parrot parrot", "parrot", 2 / 3),
        ("a dog", "a parrot", 0.0),
        ("पिता", "पीते", 0.0),
        ("cafe\u0301", "Café", 1.0),
        ("", "parrot", 0.0),
        ("在地下室", "地下室", 6 / 7),
        ("地下室です。", "地下室", 3 / 4),
        ("在 Berlin 的地下室", "地下室, Berlin", 8 / 10),
        ("は\u3099", "ば", 1.0),
        ("지하실에", "지하실", 0.0),
    ],
)
def test_f1_compares_words_without_case_punctuation_and_articles(answer: str, right: str, f1: float) -> None:
    assert token_f1(answer, right) == pytest.approx(f1)
    assert token_f1(right, answer) == pytest.approx(f1)
    assert is_exact(answer, right) == (f1 == 1.0)


@pytest.mark.parametrize(
    ("answer", "right", "f1"),
    [
        ("A", "A.", 1.0),
        ("the", "a", 0.0),
        ("?", "A", 0.0),
        ("The A", "A", 2 / 3),
        ("++", "+ +", 0.0),
        ("++", " ++", 1.0),
        (":-)", "a smile", 0.0),
    ],
)
def test_answers_of_articles_or_signs_alone_are_compared_as_they_are(answer: str, right: str, f1: float) -> None:
    assert token_f1(answer, right) == pytest.approx(f1)
    assert is_exact(answer, right) == (f1 == 1.0)


@pytest.mark.parametrize(
    ("answer", "right", "rule", "score"),
    [
        ("in 2023", ("2022", "2023"), "f1", 2 / 3),
        ("2023", ("2022", "2023"), "exact", 1.0),
        ("in 2023", ("2022", "2023"), "exact", 0.0),
        ("not mentioned", (), "exact", 1.0),
        ("in 2023", (), "f1", 0.0),
        (None, ("2023",), "f1", 0.0),
        (None, (), "f1", 0.0),
    ],
)
def test_the_best_of_several_right_answers_counts_and_without_any_abstaining_is_right(
    answer: str | None, right: tuple[str, ...], rule: Rule, score: float
) -> None:
    assert score_by_rule(answer, right, rule) == pytest.approx(score)


@pytest.mark.parametrize(
    ("answer", "right", "kind", "score"),
    [
        ("she painted sunsets", "paint a sunset", "one turn", 0.8),
        ("pottery, camping", "camping, painting, swimming", "several turns", 1 / 3),
        ("pottery, camping", "camping, painting, swimming", "one turn", 0.4),
        ("likely yes", "Likely yes; she collects books", "open", 1.0),
        ("cats and dogs", "cats, dogs", "one turn", 1.0),
        ("mother-in-law", "mother in law", "one turn", 0.0),
        ("the", "a", "one turn", 0.0),
        ("camping,", "camping,", "several turns", 0.5),
        ("It is not mentioned.", None, "abstention", 1.0),
        ("I don't know.", None, "abstention", 0.0),
    ],
)
def test_locomos_rule_scores_as_its_own_evaluation_does(
    answer: str, right: str | None, kind: str, score: float
) -> None:
    rights = () if right is None else (right,)
    assert score_by_rule(answer, rights, "locomo", kind=kind) == pytest.approx(score)


@pytest.mark.parametrize(
    "answer",
    [
        "not mentioned",
        "It was not mentioned in the conversation.",
        "That isn't stated anywhere",
        "The user never mentioned a canoe.",
        "I don't know.",
        "There is no information about that",
        "You didn\u2019t say: I can\u2019t tell",
        "unknown",
        "N/A",
        "No canoe was mentioned.",
        "It does not say where the canoe is.",
        "The conversation doesn't say.",
        "There is no canoe in the conversation.",
        "There's nothing about a canoe.",
        "I have no idea.",
        "I'm not aware of a canoe.",
    ],
)
def test_an_answer_that_says_that_nothing_was_said_abstains(answer: str) -> None:
    assert abstains(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "a parrot",
        "no",
        "Nothing but a violin",
        "not in Lisbon",
        "the Unknown Soldier",
        "",
        "There's no place like home",
    ],
)
def test_other_answers_do_not(answer: str) -> None:
    assert not abstains(answer)


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        ('```json\n{"value": "a parrot"}\n```', "a parrot"),
        ('{"value": 2023}', "2023"),
        ('{"value": ""}', "not mentioned"),
        ("A parrot.", "A parrot."),
        (" ", None),
    ],
)
def test_a_reply_gives_its_value_or_else_itself(raw: str, answer: str | None) -> None:
    assert read_answer(raw) == answer


@pytest.mark.parametrize(
    ("reply", "score"),
    [('{"answer": 1}', 1.0), ('{"answer": "2"}', 0.0), ('{"answer": 3}', math.nan), ("yes", math.nan)],
)
def test_a_verdict_is_one_of_two_numbers(reply: str, score: float) -> None:
    assert verdict_of(reply) == pytest.approx(score, nan_ok=True)


def test_the_judge_sees_question_answers_and_reply() -> None:
    prompt = judge_prompt("Which pet?", "a {bird}", ("a parrot", "Figaro"), Templates.bundled())
    assert all(text in prompt for text in ("Which pet?", "a {bird}", "a parrot / Figaro"))
    assert "not mentioned" in judge_prompt("Which pet?", "a dog", (), Templates.bundled())


class Strict(LanguageModel):
    """Finds nothing right."""

    name = "strict"

    async def complete(self, request: Request) -> Completion:
        return Completion(f'{{"answer": {WRONG}}}', Usage(0, 0))


@pytest.mark.parametrize(
    ("answer", "right", "score"),
    [
        ("B- ", ("B+", "b-"), 1.0),
        ("B-", ("B+",), 0.0),
        ("C", ("C++",), 0.0),
        ("The parrot", ("a parrot",), 0.0),
        ("Not mentioned", (), 1.0),
        (None, ("B-",), 0.0),
    ],
)
async def test_a_model_judges_what_is_no_right_answer_word_for_word(
    answer: str | None, right: tuple[str, ...], score: float
) -> None:
    assert await judged("Which?", answer, right, model=Strict(), templates=Templates.bundled()) == score

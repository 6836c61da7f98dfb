"""Which questions are asked of a source tree, and why others are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.data.codeqa.literals import same_literal
from mnemotune.data.codeqa.questions import Cluster, clusters_of, rejection, statement
from mnemotune.data.codeqa.tree import SourceTree, standard_library

OTHERS = "".join(f"def g{i}(x={i}00): pass\n" for i in range(1, 30))
MANY = "\n".join(f"SIZE_{i} = {i}000" for i in range(40))


def clusters(folder: Path, source: str) -> tuple[SourceTree, dict[str, Cluster]]:
    (folder / "a.py").write_text(f"{MANY}\n{source}", encoding="utf-8")
    tree = SourceTree.read(folder, name="a")
    return tree, {fact.scope: Cluster((fact,), ()) for fact in tree.facts}


def test_every_question_has_its_answer_in_the_facts_alone() -> None:
    accepted, _ = clusters_of(standard_library())
    every = [cluster for group in accepted.values() for cluster in group]
    assert len(every) > 2_500
    assert len(accepted) >= 30
    for cluster in every:
        assert cluster.answer in statement(cluster.facts[-1])
        assert cluster.answer not in cluster.question.split()
        assert not any(same_literal(fact.value, cluster.answer) for fact in cluster.distractors)


def test_a_question_can_need_two_facts_each_of_which_leads_to_the_next(tree: SourceTree) -> None:
    linked = [cluster for group in clusters_of(tree)[0].values() for cluster in group if len(cluster.facts) > 1]
    assert len(linked) == 24
    assert linked[0].question == ("Which class does the exception that `fail_0` in pack_0/core.py raises inherit from?")
    assert (linked[0].facts[0].value, linked[0].answer) == ("Fault0", "Base00")


def test_a_parameter_of_another_class_s_constructor_needs_the_class(tmp_path: Path) -> None:
    source = "class Box:\n    def __init__(self, room=77): pass\n\nclass Tin(Box): pass\n"
    (tmp_path / "a.py").write_text(source + OTHERS, encoding="utf-8")
    ((_, accepted),) = clusters_of(SourceTree.read(tmp_path, name="a"))[0].items()
    (linked,) = (cluster for cluster in accepted if len(cluster.facts) > 1)
    assert linked.answer == "77"
    assert "`Tin`" in linked.question
    assert "Box" not in linked.question


def test_distractors_have_the_same_name_and_another_value_those_of_other_files_first(tree: SourceTree) -> None:
    fact = next(fact for fact in tree.facts if fact.kind == "default")
    (cluster,) = (cluster for group in clusters_of(tree)[0].values() for cluster in group if cluster.facts == (fact,))
    assert [each.name for each in cluster.distractors] == [fact.name] * 3
    assert fact.value not in [each.value for each in cluster.distractors]


@pytest.mark.parametrize(
    ("source", "scope", "reason"),
    [
        ("GOOD = 4711", "GOOD", None),
        ("FLAG = True", "FLAG", "guessable"),
        ('BLANK = " "', "BLANK", "guessable"),
        ("A = 1\nB = 1\nC = 1", "A", "guessable"),
        ('CDATA = "CDATA"', "CDATA", "leaky"),
    ],
)
def test_a_question_that_is_not_asked_says_why(tmp_path: Path, source: str, scope: str, reason: str | None) -> None:
    tree, by_scope = clusters(tmp_path, source)
    assert rejection(tree, by_scope[scope]) == reason


def test_a_distractor_that_gives_the_answer_makes_a_question_confusable(tmp_path: Path) -> None:
    tree, by_scope = clusters(tmp_path, "GOOD = 4711\nBAD = 4711")
    confusable = Cluster(by_scope["GOOD"].facts, by_scope["BAD"].facts)
    assert rejection(tree, confusable) == "confusable"


def test_a_fact_whose_excerpt_does_not_say_what_it_is_about_is_unsolvable(tmp_path: Path) -> None:
    long = ", ".join(f"a_parameter_with_a_long_name_{i}" for i in range(60))
    tree, by_scope = clusters(tmp_path, f"def opening({long}, last=4711): pass\n" + OTHERS)
    assert rejection(tree, by_scope["opening"]) == "unsolvable"

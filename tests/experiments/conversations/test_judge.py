"""Judges are compared with people's labels: agreement over questions, and kappa beyond chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemotune.data.task import TaskError
from mnemotune.experiments.conversations.judge import Agreement, Labelled, by_rules, main, read_labelled
from talks import written

ROW = {"question": "Which pet?", "right": ["a parrot"], "answer": "the parrot", "is_right": True}


def rows(*labels: bool) -> list[Labelled]:
    return [Labelled(f"{number // 2}", ("x",), "x", label) for number, label in enumerate(labels)]


@pytest.mark.parametrize(
    ("labels", "verdicts", "share", "kappa"),
    [
        ((True, True, False, False), (True, True, False, False), 1.0, 1.0),
        ((True, True, False, False), (True, False, True, False), 0.5, 0.0),
        ((True, True, False, False), (False, False, True, True), 0.0, -1.0),
        ((True, True, False, False), (True, True, True, True), 0.5, 0.0),
        ((True, False, True, False), (None, False, True, False), 0.75, 0.5),
    ],
)
def test_agreement_is_the_share_of_equal_verdicts_and_kappa_what_chance_does_not_give(
    labels: tuple[bool, ...], verdicts: tuple[bool | None, ...], share: float, kappa: float
) -> None:
    agreement = Agreement.of(rows(*labels), verdicts)
    assert (agreement.share.mean, agreement.kappa) == (pytest.approx(share), pytest.approx(kappa))
    assert agreement.unread == verdicts.count(None)


def test_rules_judge_by_words(tmp_path: Path) -> None:
    longer = ROW | {"answer": "a grey parrot in a cage"}
    labelled = read_labelled(written(tmp_path / "rows.jsonl", [ROW, longer, ROW | {"right": [], "answer": "unknown"}]))
    assert by_rules(labelled) == {"exact": [True, False, True], "f1": [True, False, True]}


@pytest.mark.parametrize(
    ("row", "why"),
    [(ROW | {"is_right": "yes"}, "is_right: must be"), (ROW | {"right": "x"}, "right: must be"), (7, "is_")],
)
def test_a_broken_row_is_named_with_its_field(tmp_path: Path, row: object, why: str) -> None:
    with pytest.raises(TaskError, match=f"row 1: {why}"):
        read_labelled(written(tmp_path / "rows.jsonl", [ROW, row]))


def test_the_rows_that_ship_are_judged_and_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(rows=None, model="embedded", config=None, out=None)
    shown = capsys.readouterr().out
    assert "50 answers to 12 questions, 27 of them right" in shown
    assert [line.split(" | ")[0] for line in shown.splitlines()[5:]] == ["| exact", "| f1", "| embedded"]

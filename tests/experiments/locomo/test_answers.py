"""Answers of policies side by side: what `evaluate --json` printed, with intervals, and beside the best preset."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from mnemotune.data.task import TaskError
from mnemotune.env import Evaluator, Summary
from mnemotune.env.conversations.track import ConversationsTrack
from mnemotune.env.track import Cast
from mnemotune.experiments.locomo.answers import figures_of, main
from mnemotune.experiments.locomo.beside import gain_lines
from mnemotune.policies import load_policy
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder
from mnemotune.policies.prompts import Templates
from talks import two_histories

Capture = pytest.CaptureFixture[str]


async def evaluated(policy: str, folder: Path) -> Path:
    """Write what `evaluate --json` prints of a policy."""
    track, model = ConversationsTrack(Templates.bundled()), EmbeddedModel()
    evaluator = Evaluator(track, Cast(model, model, LexicalEmbedder(), context_tokens=1000))
    evaluation = await evaluator.evaluate(load_policy(policy), track.load(str(two_histories(folder))))
    path = folder / f"{policy}.json"
    path.write_text(json.dumps(Summary.of(evaluation, name=policy).as_json()), encoding="utf-8")
    return path


async def test_each_policy_has_its_figures_and_its_difference_from_the_best_preset(
    tmp_path: Path, capsys: Capture
) -> None:
    files = [await evaluated(policy, tmp_path) for policy in ("rag", "mem0")]
    main(files)
    figures, differences = capsys.readouterr().out.split(
        "Less rag, the best preset by answers, paired by conversation:"
    )
    assert "| policy | answers | F1 | exact | evidence |" in figures
    assert all(line.count("[") == 4 for line in figures.splitlines() if line.startswith(("| rag |", "| mem0 |")))
    assert "| rag |" not in differences
    assert "| mem0 |" in differences


def test_a_difference_is_paired_by_conversation_and_the_best_preset_is_taken_by_the_column_that_is_named() -> None:
    figures = {
        "window": {"answers": {"a": 0.1, "b": 0.2}, "exact": {"a": 0.9, "b": 0.9}},
        "rag": {"answers": {"a": 0.2, "b": 0.4}, "exact": {"a": 0.1, "b": 0.3}},
        "mine": {"answers": {"a": 0.3, "b": 0.5, "c": 0.9}, "exact": {"a": math.nan, "b": 0.5}},
    }
    lines = gain_lines(figures, ("answers", "exact"), by="answers")
    assert "Less rag, the best preset by answers, paired by conversation:" in lines
    assert lines[-1] == "| mine | 0.100 [0.100, 0.100] | 0.200 |"
    assert gain_lines({"mine": figures["mine"]}, ("answers",), by="answers") == []


@pytest.mark.parametrize("text", ["", "{}", '{"extras": {"by_group": 3}}', '{"extras": {"judge": "f1"}}'])
def test_a_file_of_another_kind_is_named_with_what_to_do(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(TaskError, match=r"other\.json: is no evaluation of conversations .* write it with"):
        figures_of(path)

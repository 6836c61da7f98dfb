from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from mnemotune.env.memrm.model.checkpoint import read_tokens
from mnemotune.env.memrm.model.render import Prompt
from mnemotune.env.memrm.model.tokens import Tokens, train_tokens

TEXTS = ["I moved to the coast.\nAnswer:", "Who said <pad> or Y?\nAnswer:"] * 5


def test_both_answers_are_one_token_each() -> None:
    tokens = train_tokens(TEXTS, size=300)
    assert tokens.tokenizer.decode([tokens.safe]) == " Y"
    assert tokens.tokenizer.decode([tokens.harmful]) == " N"


def test_any_text_comes_back_from_its_ids() -> None:
    tokens = train_tokens(TEXTS, size=300)
    text = "日本 «ü» \t\n 100%"
    [ids] = tokens.encode([Prompt(text, "x")])
    assert tokens.tokenizer.decode(list(ids.prefix)) == text


def test_a_special_token_that_a_text_spells_out_is_text() -> None:
    tokens = train_tokens(TEXTS, size=300)
    [ids] = tokens.encode([Prompt("<pad>", "x")])
    assert tokens.tokenizer.token_to_id("<pad>") not in ids.prefix


def test_the_parts_are_tokenised_apart() -> None:
    tokens = train_tokens(TEXTS, size=400)
    [one, other] = tokens.encode([Prompt("I mo", "ved"), Prompt("I mo", "on")])
    assert one.prefix == other.prefix
    assert one.whole == one.prefix + one.suffix


def test_a_saved_tokenizer_is_the_same(tmp_path: Path) -> None:
    tokens = train_tokens(TEXTS, size=300)
    tokens.tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert read_tokens(tmp_path / "tokenizer.json").safe == tokens.safe


def test_a_tokenizer_without_the_answers_is_refused() -> None:
    with pytest.raises(ValueError, match="one token each"):
        Tokens(Tokenizer(models.BPE()))


def test_what_is_no_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json: is not a tokenizer"):
        read_tokens(path)

"""Passwords and keys, kept out of what people read."""

from __future__ import annotations

import pytest

from mnemotune.policies.lm.secrets import redacted, without_login


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:secret@host/v1", "http://***@host/v1"),
        ("see postgresql+psycopg://u:p%40ss@db:5432/x and http://a:b@c", None),
        ("http://host:8000/v1 of user@example.org", "http://host:8000/v1 of user@example.org"),
        ("sqlite:////root/runs/mlflow.db", "sqlite:////root/runs/mlflow.db"),
        ("http://me:p@ss@host/v1", "http://***@host/v1"),
        ("https://token@host", "https://***@host"),
        ("postgresql://db/x?user=u&password=secret&y=1", "postgresql://db/x?user=u&password=***&y=1"),
        ("the key sk-1 is wrong", "the key *** is wrong"),
    ],
)
def test_passwords_in_urls_and_given_secrets_are_hidden(text: str, shown: str | None) -> None:
    expected = shown or "see postgresql+psycopg://***@db:5432/x and http://***@c"
    assert redacted(text, "sk-1", None, "") == expected


def test_a_url_without_its_login() -> None:
    assert without_login("http://me:secret@host/v1") == "http://host/v1"
    assert without_login("http://me:p@ss@host/v1") == "http://host/v1"
    assert without_login("http://host/v1") == "http://host/v1"

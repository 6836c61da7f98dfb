"""Passwords and keys, kept out of what people read."""

from __future__ import annotations

import re

HIDDEN = "***"


def without_login(url: str) -> str:
    """Return a URL without its user and password."""
    return re.sub(r"//[^/\s]*@", "//", url)


def redacted(text: str, *secrets: str | None) -> str:
    """Return a text in which no URL has a login or a password, and nothing of ``secrets`` is left."""
    for secret in filter(None, secrets):
        text = text.replace(secret, HIDDEN)
    text = re.sub(r"([?&](?:ssl)?password=)[^&\s]*", rf"\1{HIDDEN}", text)
    return re.sub(r"//[^/\s]*@", f"//{HIDDEN}@", text)

"""Where an endpoint is, and who asks there."""

from __future__ import annotations

import base64
import os
import re
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from .base import LanguageModelError
from .secrets import without_login

OFFICIAL_URL = "https://api.openai.com/v1"
NO_KEY = "none"
"""What servers that need no key are sent in its place."""


def url_of(base_url: str | None) -> str:
    """Return where an endpoint is: as given, else as OPENAI_BASE_URL says, else OpenAI's own.

    A given address without its login takes the login that the same address has in OPENAI_BASE_URL.
    """
    ours, given = ((url or "").rstrip("/") for url in (os.environ.get("OPENAI_BASE_URL"), base_url))
    return ours if given in ("", without_login(ours)) and ours else given or OFFICIAL_URL


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for ``url``; aiohttp itself would look again for every call."""
    named = None if proxy_bypass(host_of(url)) else getproxies().get(url.partition(":")[0])
    return named if not named or "://" in named else f"http://{named}"


def host_of(url: str) -> str:
    """Return the host of a URL; empty where it has none, or a port that cannot be."""
    try:
        parts = urlsplit(url)
        return "" if parts.port == 0 else parts.hostname or ""
    except ValueError:
        return ""


def headers_for(url: str, api_key: str | None) -> dict[str, str]:
    """Return what every request carries, as OpenAI's own client reads it from the environment."""
    headers = {"Content-Type": "application/json", "User-Agent": "mnemotune"}
    login = re.match(r"https?://([^/]*)@", url)
    key = _key(url, api_key)
    if key or not login:
        headers["Authorization"] = f"Bearer {key or NO_KEY}"
    else:
        headers["Authorization"] = "Basic " + base64.b64encode(unquote(login[1]).encode()).decode()
    names = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
    return headers | {header: os.environ[name] for header, name in names.items() if os.environ.get(name)}


def secrets_of(url: str, credentials: str) -> list[str]:
    """Return what no message may show."""
    login = re.match(r"https?://([^/]*)@", url)
    password = login[1].partition(":")[2] if login else ""
    return [secret for secret in (credentials, password, unquote(password)) if secret not in ("", NO_KEY)]


def _key(url: str, api_key: str | None) -> str | None:
    """Return the key to send to ``url``, where there is one."""
    if not re.fullmatch(r"https?://[^\s\x00-\x1f]+", url) or not host_of(url):
        given = url.rpartition("@")[2]
        raise LanguageModelError(
            f"base_url must start with http:// or https:// and a host, got {given!r}; see OPENAI_BASE_URL"
        )
    key = (api_key or os.environ.get("OPENAI_API_KEY") or "").strip()
    if not key.isprintable() or not key.isascii():
        raise LanguageModelError("OPENAI_API_KEY holds a line break or another character that no key has; set it again")
    if not key and url.startswith("https://api.openai.com"):
        raise LanguageModelError(
            f"{url} needs a key: set OPENAI_API_KEY, or set OPENAI_BASE_URL (base_url) to a server that needs none"
        )
    return key or None

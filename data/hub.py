"""Files of the Hugging Face hub."""

from __future__ import annotations

import logging
from pathlib import Path


class HubError(Exception):
    """Says why a file could not be fetched, in one line."""


def fetched(name: str, file: str, *, kind: str, revision: str | None = None) -> Path:
    """Return a file of the repository ``name``, a ``model`` or a ``dataset``, from the cache where it is there.

    Raises HubError. The hub's client would say every failed attempt itself.
    """
    from huggingface_hub import hf_hub_download  # imported late: half a second that most runs do not need
    from huggingface_hub.errors import HfHubHTTPError

    client = logging.getLogger("huggingface_hub")
    level = client.level
    client.setLevel(logging.CRITICAL)
    try:
        return Path(hf_hub_download(name, file, repo_type=kind, revision=revision))
    except (HfHubHTTPError, ValueError, OSError) as error:
        raise HubError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error
    finally:
        client.setLevel(level)

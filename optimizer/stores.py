"""Where a run keeps what it writes down, outside of its folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_serializer, model_validator

from ..data.record import Record
from ..policies.lm.secrets import HIDDEN, redacted

STORAGE_VARIABLE, TRACKING_VARIABLE = "MNEMOTUNE_STORAGE", "MLFLOW_TRACKING_URI"


def _whole(url: str, variable: str) -> str:
    """Return a URL with the login that the same URL has in an environment variable, where it was not written down."""
    ours = os.environ.get(variable, "")
    return ours if HIDDEN in url and redacted(ours) == url else url


def _of_postgresql(url: str) -> str:
    if not url.startswith("postgresql://") or not urlsplit(url).path.strip("/"):
        raise ValueError("write postgresql://USER:PASSWORD@HOST/DATABASE, or null for the run folder")
    _, _, *after_host = urlsplit(url)
    if "@" in "".join(after_host):  # what is before it would not be known for a password
        raise ValueError("write / in a password as %2F, ? as %3F, # as %23 and @ as %40")
    return url


class Storage(Record):
    """A database that keeps study and replies in the place of a run's folder; its URL alone is enough in a config."""

    url: Annotated[str, AfterValidator(_of_postgresql)]
    """Of PostgreSQL. Its login is not written down: a run that goes on reads it in MNEMOTUNE_STORAGE."""
    study: str | None = None
    """The study's name in there; None makes one up, which the run's folder keeps."""

    @model_validator(mode="before")
    @classmethod
    def _of_url(cls, given: Any) -> Any:
        return {"url": given} if isinstance(given, str) else given

    @field_serializer("url")
    def _without_login(self, url: str) -> str:
        return redacted(url)

    @property
    def whole_url(self) -> str:
        """The URL with the login that the same URL has in MNEMOTUNE_STORAGE, where it was not written down."""
        return _whole(self.url, STORAGE_VARIABLE)


class Tracking(Record):
    """Where MLflow keeps its view of the runs."""

    uri: str | None = None
    """None keeps a SQLite file beside the run folders. Its password is not written down: a run that goes on reads it in
    MLFLOW_TRACKING_URI."""
    experiment: Annotated[str, Field(min_length=1, max_length=200)] = "mnemotune"
    """The experiment's name in MLflow."""

    @field_serializer("uri")
    def _without_password(self, uri: str | None) -> str | None:
        return None if uri is None else redacted(uri)

    @property
    def whole_uri(self) -> str | None:
        """The URI with the password that the same URI has in MLFLOW_TRACKING_URI, where it was not written down."""
        return None if self.uri is None else _whole(self.uri, TRACKING_VARIABLE)


def default_uri(runs: Path) -> str:
    """Return where MLflow keeps its view of the run folders in ``runs``, unless a config says otherwise."""
    return f"sqlite:///{runs.resolve() / 'mlflow.db'}"

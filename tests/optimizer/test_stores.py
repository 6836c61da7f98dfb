from __future__ import annotations

import pytest

from mnemotune.optimizer.config import Config, ConfigError, dump_config, parse_config
from mnemotune.optimizer.stores import Storage, Tracking

LEAST = "{data: base, splits: {train: 1, validation: 2, test: 2}, seed_policy: awi}"
URL = "postgresql://me:secret@db/mine"


def config(*overrides: str) -> Config:
    return parse_config(LEAST, where="test", overrides=overrides)


def test_a_stores_password_is_not_written_down_but_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    text = dump_config(config(f"tracking={{uri: '{URL}'}}", f"storage='{URL}'"))
    assert "secret" not in text
    again = parse_config(text, where="again")
    tracking, storage = again.tracking or Tracking(), again.storage or Storage(url=URL)
    for variable in ("MLFLOW_TRACKING_URI", "MNEMOTUNE_STORAGE"):
        monkeypatch.setenv(variable, "postgresql://me:other@elsewhere/mine")
    assert tracking.whole_uri == storage.whole_url == tracking.uri == storage.url == "postgresql://***@db/mine"
    for variable in ("MLFLOW_TRACKING_URI", "MNEMOTUNE_STORAGE"):
        monkeypatch.setenv(variable, URL)
    assert tracking.whole_uri == storage.whole_url == URL


def test_the_url_alone_is_a_storage() -> None:
    assert config(f"storage='{URL}'") == config(f"storage={{url: '{URL}'}}")


@pytest.mark.parametrize(
    "url",
    ["mysql://db/mine", "study.db", "postgresql://db", "postgresql://u:pa/ss@h/db", "postgresql://[db/mine", "", "1"],
)
def test_a_storage_that_is_no_database_of_postgresql_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="storage"):
        config(f"storage='{url}'")

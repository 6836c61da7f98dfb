"""An extra is here when all that it names is, in a version that it allows."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from mnemotune.policies.memory.packages import extra

REQUIRED = ["numpy>=2", 'langmem<0.1,>=0.0.30; extra == "langmem"', 'langchain-openai; extra == "langmem"']


def here(monkeypatch: pytest.MonkeyPatch, **versions: str) -> bool:
    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(extra, "requires", lambda name: REQUIRED)
    monkeypatch.setattr(extra, "version", version)
    return extra.has_extra("langmem")


def test_it_is_here_when_each_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert here(monkeypatch, **{"langmem": "0.0.30", "langchain-openai": "1.0"})


def test_it_is_not_here_when_one_package_is_missing_or_too_new(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not here(monkeypatch, langmem="0.0.30")
    assert not here(monkeypatch, **{"langmem": "0.1", "langchain-openai": "1.0"})


def test_what_is_no_extra_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch)
    assert not extra.has_extra("numpy")


def test_the_extra_that_the_checks_install_is_here() -> None:
    assert extra.has_extra("dev")


def test_no_extra_is_here_where_we_are_not_installed_ourselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "NAME", "no-such-distribution")
    assert not extra.has_extra("dev")

"""An objective and a proposer of another package: one file, and one registration each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mnemotune.optimizer.config import Config, ConfigError
from mnemotune.optimizer.objectives import OBJECTIVES
from mnemotune.optimizer.proposer_kinds import PROPOSERS
from running import go

THRIFT = """
from mnemotune.optimizer.objectives import Objective

THRIFT = Objective(lambda standing: standing.score - standing.per_turn.tokens / 10_000)
"""
ECHO = '''
from mnemotune.optimizer.proposer_kinds import ProposerKind
from mnemotune.optimizer.proposers.proposer import candidate, pick_parent, policy_of


class Echo:
    """Doubles a parent's buffer."""

    alone = explores = False

    def __init__(self, means):
        self.means = means

    def ready(self, trials):
        return True

    async def propose(self, trials, rng):
        parent = pick_parent(trials, rng)
        values = policy_of(parent).model_dump()
        values["buffer_size"] = 2 * values["buffer_size"] + 2
        return candidate(parent, "twice the buffer", values, longest_prompt=self.means.search.longest_prompt)

    def close(self):
        print("closed")


ECHO = ProposerKind(Echo, prompts=False)
'''
POINTS = "[mnemotune.objectives]\nthrift = thrifts:THRIFT\n[mnemotune.proposers]\necho = echoes:ECHO\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package that brings an objective and a proposer along."""
    (tmp_path / "thrifts.py").write_text(THRIFT, encoding="utf-8")
    (tmp_path / "echoes.py").write_text(ECHO, encoding="utf-8")
    about = tmp_path / "thrifts-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: thrifts\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for registry, name in ((OBJECTIVES, "thrift"), (PROPOSERS, "echo")):
        registry.get(name)
        registry.unregister(name)


def test_a_search_takes_another_packages_proposer_and_objective(
    installed: None, configured: Callable[..., Config], runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured("search.proposers=[echo]", "search.objective=thrift", "search.slots=[write]")
    outcome = go(config, runs / "run")
    candidates = [trial for trial in outcome.study.trials if trial.kind == "candidate"]
    assert candidates
    assert {trial.proposer for trial in candidates} == {"echo"}
    assert outcome.as_json()["objective"] == "thrift"
    assert outcome.test.done
    assert "closed" in capsys.readouterr().out


def test_a_proposer_of_numbers_alone_rests_where_numbers_stay(
    installed: None, configured: Callable[..., Config]
) -> None:
    assert list(configured("search.proposers=[echo, merge]", "search.numbers=false").search.at_work) == ["merge"]
    with pytest.raises(ConfigError, match="none of them may change anything"):
        configured("search.proposers=[echo]", "search.numbers=false")


@pytest.mark.parametrize(("key", "kind"), [("objective", "objective"), ("proposers.0", "proposer")])
def test_what_nobody_registered_is_refused_with_what_there_is(
    configured: Callable[..., Config], key: str, kind: str
) -> None:
    value = "nothing" if key == "objective" else "[nothing]"
    with pytest.raises(
        ConfigError, match=rf"search\.{key}: there is no {kind} 'nothing'; there are .*mnemotune\.{kind}s"
    ):
        configured(f"search.{key.split('.')[0]}={value}")

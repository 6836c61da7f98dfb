"""The tracks of this package, and one that a test brings along, pass what every track has to hold to."""

from __future__ import annotations

import pytest

import toy
from mnemotune.env import Track
from mnemotune.env.conformance import TrackConformance
from mnemotune.env.dialogue.protocol import Protocol
from mnemotune.env.dialogue.track import DialogueTrack
from mnemotune.policies.prompts import Templates
from people import write_people


class TestDialogue(TrackConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls, tmp_path_factory: pytest.TempPathFactory) -> str:
        return str(write_people(tmp_path_factory.mktemp("people"), users=2, periods=3, questions=3))

    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> Track:
        return DialogueTrack(Protocol(1, 1))


class TestLetters(TrackConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls) -> str:
        return "letters:1:3"

    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> Track:
        return toy.LettersTrack(Templates.bundled())

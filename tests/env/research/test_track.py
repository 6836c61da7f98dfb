"""The research track passes what every track has to hold to."""

from __future__ import annotations

import pytest

from mnemotune.env import Track
from mnemotune.env.conformance import TrackConformance
from mnemotune.env.research.track import ResearchTrack


class TestResearch(TrackConformance):
    @pytest.fixture(scope="class")
    @classmethod
    def source(cls) -> str:
        return "generated:2@5,tokens=2k,hops=3"

    @pytest.fixture(scope="class")
    @classmethod
    def track(cls) -> Track:
        return ResearchTrack()

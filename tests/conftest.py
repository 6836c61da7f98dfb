"""The same examples in every run, so that a change is what breaks a test.

``HYPOTHESIS_PROFILE=exploring pytest`` looks for new ones.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("exploring", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

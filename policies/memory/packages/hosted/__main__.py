"""Answers the requests that come in."""

from __future__ import annotations

import sys
from pathlib import Path

from .host import main

main(sys.argv[1], Path(sys.argv[2]))

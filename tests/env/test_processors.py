"""The same on every kind of processor.

Libraries for numbers sum in another order on another processor, and end in other last digits: here OpenBLAS and the C
library are told to take this machine for an old one.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

OLD = {
    "OPENBLAS_CORETYPE": "Prescott",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-AVX512F",
}
LAST_DIGITS = """
import math, numpy as np
numbers = np.random.default_rng(0).normal(size=(500, 16))
print((numbers @ numbers[0]).tobytes().hex(), [math.exp(x) for x in numbers.ravel()])
"""
EPISODE = """
import asyncio
from mnemotune.data.dialogue.load import load_scenarios
from mnemotune.env import Cast, DialogueTrack, Evaluator
from mnemotune.policies import load_policy
from mnemotune.policies.lm.embedded import EmbeddedModel
from mnemotune.policies.lm.lexical import LexicalEmbedder

cast = Cast(EmbeddedModel(), EmbeddedModel(), LexicalEmbedder())
users = load_scenarios("generated:41@1848")[40:]
print(asyncio.run(Evaluator(DialogueTrack(), cast).evaluate(load_policy("rag"), users)).episodes)
"""


def run(script: str, **environment: str) -> str:
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_an_episode_is_the_same_on_another_processor() -> None:
    """This user's notes have ties that the last digits used to decide."""
    if run(LAST_DIGITS) == run(LAST_DIGITS, **OLD):
        pytest.skip("OpenBLAS and the C library calculate alike here, whatever they are told")
    assert run(EPISODE) == run(EPISODE, **OLD)

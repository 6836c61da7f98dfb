"""Evolve the memory policy of an assistant."""

from importlib.metadata import version

__version__ = version("mnemotune")

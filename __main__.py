"""Run the command line: ``python -m mnemotune``."""

from mnemotune.optimizer.cli import main

main()

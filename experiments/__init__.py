"""Questions we ask of mnemotune, each with its config and its committed result."""

"""mnemotune beside AMemGym's own code: the same requests, the same numbers, and how much sooner."""

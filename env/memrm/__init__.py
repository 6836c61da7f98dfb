"""MemRM: a reward model that tells from a write alone whether memory lost something that is asked for later."""

"""MemRM: a reward model that estimates from a write alone whether memory lost something that is needed later."""

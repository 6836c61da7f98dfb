"""MemRM: figures of the reward model."""

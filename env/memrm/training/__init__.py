"""Training of reward models: from scratch, or as an adapter of a larger model."""

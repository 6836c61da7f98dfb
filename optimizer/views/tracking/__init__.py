"""MLflow's view of runs, which can be rebuilt from their studies at any time."""

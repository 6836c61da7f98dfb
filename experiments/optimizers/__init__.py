"""Optimizers compared at equal calls."""

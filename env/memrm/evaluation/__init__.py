"""Figures of reward models on labelled writes, beside baselines."""

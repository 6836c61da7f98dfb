"""Judging free-form answers, and what comes of real conversations."""

"""Repairs of bugs in repositories, by shell commands."""

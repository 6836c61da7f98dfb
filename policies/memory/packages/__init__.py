"""Memories of other packages, each in a process and an environment of its own."""

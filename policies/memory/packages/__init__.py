"""Memories of other packages, each in a process of its own."""

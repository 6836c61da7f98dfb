"""Collecting labelled writes: episodes are played, and a language model reads which facts each write lost."""

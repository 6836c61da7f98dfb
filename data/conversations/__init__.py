"""Conversations that people had: what was said, and what is asked of it."""

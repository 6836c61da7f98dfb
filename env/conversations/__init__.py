"""Conversations as a track: memory hears what was said, and is asked afterwards."""

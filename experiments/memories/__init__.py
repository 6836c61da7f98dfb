"""Other people's memories beside the presets and what the quick start evolves."""

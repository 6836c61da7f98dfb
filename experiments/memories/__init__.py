"""Other people's memories beside the presets."""

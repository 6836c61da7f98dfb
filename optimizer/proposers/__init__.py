"""Where new memory policies come from."""

"""The dialogue track's tasks: simulated users' lives, bundled, generated or read from files."""

"""Files that every repository has: they are read as texts, and run in a container."""

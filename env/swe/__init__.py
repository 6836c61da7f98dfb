"""The swe track: an agent repairs a bug in a container by shell commands, and memory gives back what it has seen."""

"""Is the embedded model good enough to do science on: beside published models, and with the right evidence at hand."""

"""A bicycle workshop: a small domain of our own, made by a seeded generator."""

"""The search: the study, the loop, what it is judged on, and what it may spend."""

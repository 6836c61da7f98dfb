"""The optimizer: proposes memory policies, compares them, and keeps what is better for certain."""

"""Whether memory keeps what real talk tells."""

"""The research track: searches whose queries depend on what memory gives back."""

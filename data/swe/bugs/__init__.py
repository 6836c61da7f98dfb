"""The bugs, one function each."""

"""The code questions: memory reads a source tree's files and their edits, and is asked for what they say."""

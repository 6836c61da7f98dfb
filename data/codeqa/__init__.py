"""The code questions' tasks: generated from a source tree, or read from MemGym's rows."""

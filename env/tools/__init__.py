"""The tools track: an agent follows a plan whose arguments memory has to give back, after tau2-bench."""

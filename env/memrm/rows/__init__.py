"""The data of reward models: labelled writes, what memory shows before questions, and splits of both."""

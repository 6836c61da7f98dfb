"""Dialogues in which an assistant calls tools: the contract of tau2-bench, and a workshop of our own."""

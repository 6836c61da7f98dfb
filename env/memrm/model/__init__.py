"""The reward model: prompts, tokens, the language model that runs them, and checkpoints."""

"""New users made with a language model, through AMemGym's stages: each checked, repaired and resumable."""
